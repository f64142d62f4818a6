// The home page of the account: who the user is, how the account is protected,
// the applications, the latest activity, and what waits for an answer.
//
// The folder account/: what users see of themselves, and what they end. Not here:
// accounts and proofs of who the user is (sign-in/).
//
//   page                       `signedIn` of sign-in/site.ts: a session, or to the sign-in first
//   change of the protection   `changing`: the proof of sign-in/changes.ts as well
//     after it                 mail-queue.ts: the notice to the user; activity.ts: an entry

import type { Context } from 'koa'
import { type PageData, PLACES } from '../pages/page-data.ts'
import type { Words } from '../pages/words.ts'
import type { Account } from '../sign-in/account.ts'
import type { SignedIn, Site } from '../sign-in/site.ts'
import { newSignIn, recentActivity, shownActivity } from './activity.ts'
import {
  type FactorsOfAccount,
  type MethodsOfAccount,
  type Protection,
  protectionOf,
  shownVerdict,
  type Verdict,
} from './security.ts'
import { nameOf, shownNetwork } from './signed-in-browsers.ts'

declare module '../pages/page-data.ts' {
  interface PageData {
    account: {
      facts: { label: string; value?: string }[]
      /** Path of the page that changes the name or the address. */
      edit?: string
      /** Path of the page that confirms the address. */
      confirm?: string
      security: {
        /** A sign-in that the user may not know, as text. */
        newSignIn?: string
        /** Whether the protection is enough, as text. */
        verdict: Verdict
        rows: SecurityRow[]
      }
      /** The applications that the user can open from here, by name. */
      applications: { name: string; mark: Mark; url: string }[]
      /** The latest entries. */
      activity: ShownActivity[]
      /** The requests that wait for an answer, as text. */
      requests?: string
    }
  }
}

/** A line of the card about the protection. */
interface SecurityRow {
  /** A name in icon.eta. */
  icon: string
  label: string
  value: string
  path: string
  /** The text of the link where something is missing. */
  action?: string
}

/** The activity on this page. */
const LATEST = 2

/** Returns the handler of the page. */
export function homePage(
  site: Site,
  factors?: FactorsOfAccount,
  methods?: MethodsOfAccount,
) {
  const { views, consents, records, settings } = site

  /** Where the user changes the name or the address, if that is possible. */
  function editPath(account: Account): string | undefined {
    const area = views.areas().find(({ path }) => path === PLACES.profile)
    const isOffered = area && area.isFor?.(account) !== false
    return isOffered ? PLACES.profile : undefined
  }

  function personOf({ t }: Words, account: Account) {
    const { username, email, email_verified } = account
    const note = email_verified ? '' : ` (${t('account.unverified')})`
    const facts = [
      { label: t('account.username'), value: username },
      { label: t('account.email'), value: email && email + note },
    ]
    const canConfirm = settings.mail !== undefined && site.directory.isOwn
    const isToConfirm = canConfirm && email && !email_verified
    return {
      facts: facts.filter(({ value }) => value),
      edit: editPath(account),
      confirm: isToConfirm ? PLACES.confirmAddress : undefined,
    }
  }

  function passwordRow(words: Words, account: Account): SecurityRow[] {
    const { t, date } = words
    const { password, password_changed: at } = account
    if (password === undefined) return []
    const value = at
      ? t('security.changed', { date: date(at).words })
      : t('security.set')
    const label = t('account.password')
    return [{ icon: 'key', label, value, path: PLACES.password }]
  }

  function factorRows(words: Words, protection: Protection): SecurityRow[] {
    const { passkeys, apps, recoveryCodes } = protection
    const { t, plural, number } = words
    const row = (
      type: 'passkey' | 'totp',
      count: number | undefined,
    ): SecurityRow[] => {
      if (count === undefined) return []
      const isPasskey = type === 'passkey'
      const shown = {
        icon: isPasskey ? 'fingerprint' : 'phone',
        label: t(isPasskey ? 'factors.passkeys' : 'factors.apps'),
      }
      if (count > 0)
        return [{ ...shown, value: number(count), path: PLACES.security }]
      const path = `${PLACES.security}?add=${type}`
      const value = t('security.none')
      return [{ ...shown, value, path, action: t('factors.add') }]
    }
    const codes: SecurityRow = {
      icon: 'codes',
      label: t('factors.codes_title'),
      value: plural('security.left', recoveryCodes),
      path: PLACES.security,
      action: recoveryCodes ? undefined : t('factors.renew'),
    }
    return [
      ...row('passkey', passkeys),
      ...row('totp', apps),
      ...(passkeys || apps ? [codes] : []),
    ]
  }

  async function methodsRow(
    ctx: Context,
    user: SignedIn,
  ): Promise<SecurityRow[]> {
    const words = views.words(ctx)
    const section = await methods?.section(ctx, user)
    const linked = section?.methods.filter(({ isLinked }) => isLinked) ?? []
    if (!linked.length) return []
    return [
      {
        icon: 'person',
        label: words.t('sign_ins.title'),
        value: words.list(linked.map(({ label }) => label)),
        path: PLACES.security,
      },
    ]
  }

  async function devicesRow(words: Words, id: string): Promise<SecurityRow> {
    const sessions = await site.sessions.listOfAccount(id)
    return {
      icon: 'monitor',
      label: words.t('sessions.devices'),
      value: words.plural('security.devices', sessions.length),
      path: PLACES.sessions,
    }
  }

  async function securityOf(
    ctx: Context,
    user: SignedIn,
    newcomer: ReturnType<typeof newSignIn>,
  ): Promise<PageData['account']['security']> {
    const { account } = user
    const words = views.words(ctx)
    const protection = await protectionOf(account, factors)
    return {
      newSignIn: newcomer && newSignInText(words, newcomer),
      verdict: shownVerdict(words, protection),
      rows: [
        ...passwordRow(words, account),
        ...factorRows(words, protection),
        ...(await methodsRow(ctx, user)),
        await devicesRow(words, account.id),
      ],
    }
  }

  function newSignInText(
    words: Words,
    { clientInfo, at }: NonNullable<ReturnType<typeof newSignIn>>,
  ) {
    const network = shownNetwork(clientInfo.network)
    const from = words.t('sessions.network', { network })
    const place = `${nameOf(words, clientInfo)}, ${from}`
    const time = words.ago(at).words
    return words.t('activity.new_sign_in', { place, time })
  }

  return async (ctx: Context, user: SignedIn) => {
    const { account } = user
    const words = views.words(ctx)
    const all = await recentActivity(records, account.id)
    const connected = await consents.list(account.id)
    const clientIds = connected.map(({ client_id }) => client_id)
    const latest = all.slice(0, LATEST)
    const { waiting } = ctx.state
    views.page(ctx, 'account', {
      ...personOf(words, account),
      security: await securityOf(ctx, user, newSignIn(ctx, all)),
      applications: views.launcher(ctx, account, clientIds),
      activity: await Promise.all(
        latest.map(entry => shownActivity(ctx, site, entry)),
      ),
      requests: waiting ? words.plural('account.waiting', waiting) : undefined,
    })
  }
}
