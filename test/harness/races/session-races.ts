// Races in one session: its end against its use, and many clients that use it concurrently.

import { setTimeout } from 'node:timers/promises'
import type { Browser } from '../../support/browser.ts'
import { copyOf, signedIn } from '../../support/people.ts'
import type { Reply } from '../../support/wire.ts'
import { crowdRedirect, hasCode, isOk, redeem, tokenOf, userinfo, word } from '../clients.ts'
import type { Deployment } from '../deployment.ts'
import {
  authorize,
  formAt,
  isSignedIn,
  issuedBy,
  requestFor,
  signOut,
  signOutForm,
  submit,
} from '../users.ts'
import type { Race } from './race.ts'

/** Prepares an action that ends the session of the browser. */
type Ending = (
  deployment: Deployment,
  browser: Browser,
  turn: number,
) => Promise<() => Promise<Reply>>

/** `n` callers send authorization requests while the user ends the session. */
const againstAuthorize = (action: string, proves: string, prepare: Ending): Race => ({
  artefact: `${action} against authorize`,
  proves,
  winners: 'one',
  losers: /^(asked|tokens|303 login_required|code refused)$/,
  async play({ deployment, node, turn }, n, round) {
    const browser = await signedIn(deployment)
    const end = await prepare(deployment, browser, turn)
    const tabs = Array.from({ length: n }, () => copyOf(browser))
    const ending = async () => {
      await setTimeout(turn % 16)
      return end()
    }
    const [ended, all] = await Promise.all([
      ending(),
      Promise.all(tabs.map((tab, i) => authorizeAndRedeem(deployment, tab, i))),
    ])
    round.winners = isOk(ended) ? 1 : 0
    round.losers = all.map(({ outcome }) => outcome)
    for (const [i, { access }] of all.entries()) {
      const status = access ? (await userinfo(node(i), access)).status : 401
      round.must(status === 401, 'an access token outlives the session')
    }
    const everywhere = [browser, ...tabs]
    const states = await Promise.all(everywhere.map((tab, i) => isSignedIn(node(i), tab)))
    round.must(!states.includes(true), 'a browser is still signed in')
    const request = requestFor(node(turn), { prompt: 'none' })
    for (const tab of tabs.slice(0, 3)) {
      const silently = word(await authorize(node(turn), tab, request))
      round.must(silently === '303 login_required', `prompt=none returned ${silently}`)
    }
  },
})

const signingOut = againstAuthorize(
  'sign-out',
  'an ended session has no tokens',
  async ({ node }, browser, turn) => {
    const form = await signOutForm(node(turn), browser)
    return () => signOut(node(turn), browser, form)
  },
)

const endingOthers = againstAuthorize(
  'sign-out from elsewhere',
  'an ended session has no tokens',
  async (deployment, _, turn) => {
    const node = deployment.node(turn)
    const elsewhere = await signedIn(deployment)
    const form = await formAt(node, elsewhere, '/account/sessions/end?session=others')
    return () => submit(node, elsewhere, form)
  },
)

/** Sends an authorization request and redeems its code, as a client that does not know of the sign-out. */
async function authorizeAndRedeem({ node }: Deployment, tab: Browser, i: number) {
  const request = requestFor(node(i))
  const reply = await authorize(node(i), tab, request)
  if (!hasCode(reply)) return { outcome: word(reply) }
  const redeemed = await redeem(node(i + 1), issuedBy(reply, request))
  if (redeemed.status === 200)
    return { outcome: 'tokens', access: tokenOf(redeemed, 'access_token') }
  const isRefused = word(redeemed) === '400 invalid_grant'
  return { outcome: isRefused ? 'code refused' : word(redeemed) }
}

/** Concurrent authorization requests in one session, each of another client. */
const crowd: Race = {
  artefact: 'clients in one session',
  proves: 'parallel authorizations of a session succeed',
  winners: 'all',
  async play({ deployment, node }, n, round) {
    const browser = await signedIn(deployment)
    const requests = Array.from({ length: n }, (_, i) =>
      requestFor(deployment, { client_id: `crowd${i}`, redirect_uri: crowdRedirect(i) }),
    )
    const send = requests.map((request, i) => authorize(node(i), browser, request))
    const replies = await Promise.all(send)
    round.sort(replies, hasCode)
    const kept = await authorizationsOf(deployment, browser)
    const missing = requests.filter(({ client_id }) => !kept[client_id]?.grantId)
    round.must(missing.length === 0, `${missing.length} entries of the session are missing`)
    for (const [i, reply] of replies.entries()) {
      const request = requests[i]
      if (!request || !hasCode(reply)) continue
      const redeemed = await redeem(node(i + 1), issuedBy(reply, request))
      round.must(redeemed.status === 200, `a code returned ${word(redeemed)}`)
    }
  },
}

interface StoredSession {
  authorizations?: Record<string, { grantId?: string } | undefined>
}

/** Reads the authorizations of the browser's session from the store. */
async function authorizationsOf({ open, issuer }: Deployment, { jar }: Browser) {
  const cookies = await jar.getCookies(issuer)
  const id = cookies.find(({ key }) => key === 'usher_session')?.value ?? ''
  return open(async ({ records }) => {
    const { value: pointer } = await records.of<{ uid: string }>('SessionCookie').read(id)
    const { value: session } = await records.of<StoredSession>('Session').read(pointer?.uid ?? '')
    return session?.authorizations ?? {}
  })
}

export const SESSION_RACES = [signingOut, endingOthers, crowd]
