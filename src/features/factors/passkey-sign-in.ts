// The sign-in with a passkey alone, by a button of the sign-in page.

import type { PasskeySignIn } from '../../sign-in/sign-in-page.ts'
import type { Site } from '../../sign-in/site.ts'
import { now } from '../../store/store.ts'
import {
  type Attempt,
  type AttemptFactor,
  placeOf,
  Refused,
  useOf,
} from './attempts.ts'
import { credentialIn, type Passkeys, raised } from './passkeys.ts'

/** Returns the sign-in with a passkey alone. */
export function createPasskeySignIn(
  site: Site,
  passkeys: Passkeys,
  attempt: AttemptFactor,
): PasskeySignIn {
  return {
    options: interaction => passkeys.useOptions(placeOf(interaction)),

    async signIn(ctx, interaction, text) {
      const { id, account: accountId } = credentialIn(text)
      const account = await site.directory.find(accountId)
      // The sign-in must be later than the end of all sessions.
      const ts = Math.max(now(), (account?.ended ?? 0) + 1)
      const attempted: Attempt = {
        factor: 'passkey',
        account,
        isForeign: !(await passkeys.has(accountId, id)),
        signedInAt: ts,
        interaction,
      }
      const login = await attempt(ctx, 'sign_in', attempted, async () => {
        const answer = {
          text,
          place: placeOf(interaction),
          use: useOf(ctx),
          ctx,
        }
        const passkey = await passkeys.use(accountId, answer, {
          mustVerify: true,
        })
        if (account && !account.enabled) throw new Refused('disabled')
        return raised({ accountId, ts, amr: [] }, passkey)
      })
      if (account && !(login instanceof Refused)) return { account, login }
      const isUnknown =
        login instanceof Refused && login.reason === 'passkey_unknown'
      if (!isUnknown) return {}
      // The browser may forget a passkey that was removed.
      return {
        unknown: JSON.stringify({ rpId: passkeys.rpID, credentialId: id }),
      }
    },
  }
}
