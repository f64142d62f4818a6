// The account pages: who you are here, and what is connected to you.

import { randomBytes } from 'node:crypto'
import type { Context } from 'koa'
import type { Account } from '../accounts/account.ts'
import type { Consent } from '../accounts/consents.ts'
import { ACCOUNT_CLIENT } from '../config/client-schema.ts'
import { note } from '../http/audit.ts'
import { readForm } from '../http/forms.ts'
import { now } from '../store/store.ts'
import type { Parts } from './parts.ts'
import { scopeWords } from './scope-words.ts'
import type { Words } from './words.ts'

/** Who is signed in in this browser; undefined for nobody. */
export type SessionReader = (ctx: Context) => Promise<SignedIn | undefined>

interface SignedIn {
  uid: string
  accountId: string
  /** Epoch seconds of the sign-in. */
  since: number
}

interface Person {
  account: Account
  session: SignedIn
}

/** Who changes something must have signed in within this time (AC1). */
const FRESH = 15 * 60
const HOME = '/account'
const APPLICATIONS = '/account/applications'

export function createAccountPages(
  parts: Parts,
  readSession: SessionReader,
  paths: { authorization: string; end_session: string },
) {
  const { settings, clients, views, csrf, directory, consents } = parts

  /** The person, or undefined when they were sent to sign in first. */
  async function requirePerson(ctx: Context, maxAge?: number): Promise<Person | undefined> {
    const session = await readSession(ctx)
    const account = session && (await directory.findEnabled(session.accountId, session.since))
    const isFresh = session && (maxAge === undefined || now() - session.since <= maxAge)
    if (account && isFresh) return { account, session }
    const url = signInUrl(ctx.path, maxAge)
    if (ctx.method === 'GET' || ctx.method === 'HEAD') ctx.redirect(url)
    else views.navigate(ctx, url)
  }

  function signInUrl(path: string, maxAge?: number): string {
    const query = new URLSearchParams({
      client_id: ACCOUNT_CLIENT,
      response_type: 'code',
      scope: 'openid',
      redirect_uri: `${settings.issuer}/account/signed-in`,
      state: path,
      // Nobody will redeem the code, so nobody needs the verifier.
      code_challenge: randomBytes(32).toString('base64url'),
      code_challenge_method: 'S256',
      ...(maxAge !== undefined && { max_age: String(maxAge) }),
    })
    return `${paths.authorization}?${query}`
  }

  const csrfSubject = ({ session }: Person) => `account ${session.uid}`

  async function renderApplications(ctx: Context, person: Person, removed?: string) {
    const list = await consents.list(person.account.id)
    views.page(ctx, 'applications', {
      person: person.account.username,
      csrf: csrf.token(csrfSubject(person)),
      applications: list
        .sort((a, b) => b.lastUsed - a.lastUsed)
        .map(consent => describe(views.words(ctx), consent)),
      removed,
    })
  }

  function describe(words: Words, { client_id, scopes, since, lastUsed }: Consent) {
    const client = clients.get(client_id)
    return {
      client_id,
      name: client?.client_name ?? client_id,
      client_uri: client?.client_uri,
      registered: Boolean(client),
      scopes: scopes.map(scope => scopeWords(words.t, settings, scope)),
      since: words.date(since),
      lastUsed: words.date(lastUsed),
    }
  }

  return {
    async home(ctx: Context) {
      const person = await requirePerson(ctx)
      if (!person) return
      const { t } = views.words(ctx)
      const { username, name, email, email_verified } = person.account
      const unverified = email_verified ? '' : ` (${t('account.unverified')})`
      const facts = [
        { label: t('account.username'), value: username },
        { label: t('account.name'), value: name },
        { label: t('account.email'), value: email && email + unverified },
      ].filter(({ value }) => value)
      views.page(ctx, 'account', { facts, person: username, signOut: paths.end_session })
    },

    async applications(ctx: Context) {
      const person = await requirePerson(ctx)
      if (person) await renderApplications(ctx, person)
    },

    async removeApplication(ctx: Context) {
      const form = await readForm(ctx)
      const person = await requirePerson(ctx, FRESH)
      if (!person) return
      csrf.check(ctx, form, csrfSubject(person))
      const clientId = form.value('client_id')
      const had = await consents.find(person.account.id, clientId)
      // Also when nothing is listed any more: twice removed is removed.
      await consents.withdraw(person.account.id, clientId)
      if (had) note(ctx, 'access_removed', { client_id: had.client_id, account: had.accountId })
      await renderApplications(ctx, person, had && (clients.get(clientId)?.client_name ?? clientId))
    },

    /** Back from signing in; `state` is ours, and leads nowhere else whoever wrote it. */
    signedIn(ctx: Context) {
      if (ctx.query.error) ctx.throw(403, { error: 'access_denied', expose: true })
      ctx.redirect(ctx.query.state === APPLICATIONS ? APPLICATIONS : HOME)
    },
  }
}
