// Self-service: users change their name and their e-mail address
// (`accounts.self_service`), and create an account (`sign_up`; OpenID Connect
// Initiating User Registration 1.0). An address is in force when its mailbox
// has confirmed it, with a link (links.ts, link-pages.ts).
//
// The form for a new account stores the address, and nothing else. Whether an
// account has it is looked up later: the page and its time are the same for
// every address.

import { domainToASCII } from 'node:url'
import type { Context } from 'koa'
import { interactionPolicy } from 'oidc-provider'
import {
  countForm,
  countFormOfNetwork,
  type MailQueues,
} from '../account/mail-queue.ts'
import type { PageFeature } from '../account/page-feature.ts'
import type { Settings } from '../config/load.ts'
import { BOUNDS } from '../oidc/bounds.ts'
import { createSignatures } from '../oidc/browser.ts'
import type { Oidc } from '../oidc/dependencies.ts'
import type { Interaction } from '../oidc/interactions.ts'
import { ACCOUNT_CLIENT } from '../oidc/vocabulary.ts'
import { note } from '../operation/audit.ts'
import type { Form } from '../operation/forms.ts'
import type { PageData } from '../pages/page-data.ts'
import { type Account, profileSchema } from '../sign-in/account.ts'
import { RECENT_SECONDS } from '../sign-in/changes.ts'
import type { Dependencies } from '../sign-in/dependencies.ts'
import { shownHint } from '../sign-in/flow.ts'
import type { PromptPage } from '../sign-in/interaction-pages.ts'
import type { Limit } from '../sign-in/rate-limit.ts'
import type { SignedIn, Site, Submitted } from '../sign-in/site.ts'
import { deriveKey } from '../store/seal.ts'
import { mapOf, readJson } from '../store/values.ts'
import type { Own } from './links.ts'

declare module '../pages/page-data.ts' {
  interface PageData {
    /**
     * `fields`: those that the user may change, with their values; `wrong`:
     * those with a text that is not valid; `pending`: the address that waits
     * for its confirmation; `isUnconfirmed`: the one that the account has;
     * `isRequested`: the form has asked for `pending`; `isUnchanged`: it had no
     * change.
     */
    profile: {
      fields: Fields
      wrong: Field[]
      pending?: string
      isSaved: boolean
      isRequested: boolean
      isUnconfirmed: boolean
      isUnchanged: boolean
    }
    /**
     * The page of the prompt `create`. `domains`: those whose addresses get an
     * account.
     */
    'sign-up': {
      client: string
      isAccount?: boolean
      email: string
      domains: string
      isWrong: boolean
      isSent: boolean
    }
  }
}

type Field = 'name' | 'email'
type Fields = Partial<Record<Field, string>>

const { Check } = interactionPolicy

/** The path of the page. */
const PROFILE_PAGE = '/account/profile'
/**
 * New addresses of an account: each causes a mail to an address that may be of
 * a stranger.
 */
const OF_ACCOUNT: Limit = BOUNDS.newAddresses

/**
 * Returns an address as it is stored: its domain in lower case and in ASCII.
 * Undefined for text that is none.
 */
function readAddress(typed: string): string | undefined {
  // A quoted local part may contain another address, and programs that read it
  // differ. Some servers still route `user%host@relay` and `host!user@relay` to
  // the host.
  const [, local = '', domain = ''] = /^([^"@%!]+)@([^@]+)$/.exec(typed) ?? []
  return profileSchema.shape.email.safeParse(
    `${local}@${domainToASCII(domain.trim())}`,
  ).data
}

/** Returns the feature. Off without `accounts.self_service`. */
export function selfService(
  { settings }: Dependencies,
  own?: Own,
): PageFeature {
  if (!own || !settings.accounts.self_service.length) return {}
  return {
    areas: [
      {
        path: PROFILE_PAGE,
        icon: 'pen',
        label: t => t('profile.title'),
        isFor: (account: Account) => fieldsOf(settings, account).length > 0,
      },
    ],
    addPages(pages, site) {
      const { showKept, submitProfile } = createProfilePage(site, own)
      pages.get(PROFILE_PAGE, site.signedIn(showKept, RECENT_SECONDS))
      pages.post(PROFILE_PAGE, site.signedIn(submitProfile, RECENT_SECONDS))
    },
  }
}

/**
 * Returns the fields that the user may change: those that no upstream issuer of
 * the account sets. A sign-in there would overwrite them.
 */
function fieldsOf(
  { accounts, upstreams }: Settings,
  { links = [] }: Account,
): Field[] {
  const issuers = links.map(({ issuer }) => issuer)
  const theirs = Object.values(upstreams).filter(({ issuer }) =>
    issuers.includes(issuer),
  )
  return accounts.self_service.filter(
    field => !theirs.some(({ claims }) => claims[field]),
  )
}

/** Returns the handlers of the page. */
function createProfilePage(site: Site, { directory, links, mails }: Own) {
  const { views, attempts, settings } = site
  const keptForms = createKeptForms(site.secrets)

  async function showKept(ctx: Context, { account }: SignedIn) {
    await showProfile(ctx, account, keptForms.read(account, ctx.query.kept), {})
  }

  async function submitProfile(ctx: Context, { form, ...user }: Submitted) {
    const { account } = user
    const fields = fieldsOf(settings, account)
    const changes = readChanges(form, account, fields)
    const { changed, typed, wrong, email } = changes
    if (wrong.length) return showProfile(ctx, account, typed, { wrong })
    if (email && !(await requestAddress(ctx, user, email, typed))) return
    const renamed = changed.includes('name')
      ? await rename(ctx, account, changes.name)
      : undefined
    await showProfile(
      ctx,
      renamed ?? account,
      {},
      {
        pending: email,
        isRequested: email !== undefined,
        isSaved: renamed !== undefined,
        isUnchanged: changed.length === 0,
      },
    )
  }

  /**
   * Queues the mail that confirms an address. False after a redirect to
   * sign-in, which keeps what was typed.
   */
  async function requestAddress(
    ctx: Context,
    user: SignedIn,
    address: string,
    typed: Fields,
  ): Promise<boolean> {
    const { id: account } = user.account
    const kept = keptForms.write(user.account, typed)
    const back = `${PROFILE_PAGE}?kept=${kept}`
    if (!(await site.mayChange(ctx, user, 'email_change_requested', back)))
      return false
    await countForm(ctx, attempts, [`addresses of ${account}`, OF_ACCOUNT])
    const { lang } = views.words(ctx)
    await mails.enqueue({ account, address, lang })
    note(ctx, 'email_change_requested', { account })
    return true
  }

  /** Returns the account with another name. Without one, it has none. */
  async function rename(ctx: Context, { id }: Account, name?: string) {
    const edit = (current: Account) => ({ ...current, name })
    const renamed = await directory.change(id, edit)
    if (renamed) note(ctx, 'name_changed', { account: id })
    return renamed
  }

  /** `typed`: the values of a form, in place of those of the account. */
  async function showProfile(
    ctx: Context,
    account: Account,
    typed: Partial<Record<Field, unknown>>,
    outcome: Partial<PageData['profile']>,
  ) {
    ctx.state.account = account
    const { email, email_verified } = account
    const fields: Fields = {}
    for (const field of fieldsOf(settings, account)) {
      fields[field] = String(typed[field] ?? account[field] ?? '')
    }
    const pending =
      outcome.pending ?? (await links.openOf(account, 'address'))?.email
    const data = {
      wrong: [],
      isSaved: false,
      isRequested: false,
      isUnchanged: false,
      ...outcome,
      fields,
      pending,
      isUnconfirmed:
        settings.mail !== undefined && Boolean(email) && !email_verified,
    }
    views.page(ctx, 'profile', data, data.wrong.length ? 400 : 200)
  }

  return { showKept, submitProfile }
}

/**
 * Returns the fields that a form changes: as typed, those that are `wrong`, and
 * the new values. Without a name, the user removes it; without an email, the
 * address stays.
 */
function readChanges(form: Form, account: Account, fields: Field[]) {
  const typedIn = (field: Field) => form.value(field).trim()
  const changed = fields.filter(
    field => typedIn(field) !== (account[field] ?? ''),
  )
  const typed: Fields = {}
  for (const field of changed) typed[field] = typedIn(field)
  const name = profileSchema.shape.name.safeParse(typedIn('name') || undefined)
  const email = readAddress(typedIn('email'))
  const isWrong = { name: !name.success, email: !email }
  return {
    changed,
    typed,
    wrong: changed.filter(field => isWrong[field]),
    name: name.data,
    email: changed.includes('email') ? email : undefined,
  }
}

/**
 * Returns the functions that keep a form during a sign-in: its fields stand in
 * the URL to which the user returns. A stranger cannot fill a form in for a
 * user, because the value is signed for the account.
 */
function createKeptForms(secrets: Uint8Array[]) {
  const keys = secrets.map(secret => deriveKey(secret, 'kept forms'))
  const signatures = createSignatures(keys)
  return {
    /** Returns the value of a query parameter. */
    write({ id }: Account, fields: Fields): string {
      const text = JSON.stringify(fields)
      const signature = signatures.sign(`${id} ${text}`)
      return `${Buffer.from(text).toString('base64url')}.${signature}`
    },

    /**
     * Returns the fields that `write` has written for this account; no fields
     * for any other value.
     */
    read({ id }: Account, kept: unknown): Record<string, unknown> {
      const [encoded = '', signature = ''] = String(kept).split('.')
      const text = Buffer.from(encoded, 'base64url').toString()
      const isOurs = signatures.verify(`${id} ${text}`, signature)
      return isOurs ? mapOf(readJson(text)) : {}
    },
  }
}

/**
 * Whether `sign_up` allows an account for an address that `readAddress` has
 * returned.
 */
export const isAdmitted = (
  { sign_up }: Pick<Settings, 'sign_up'>,
  email = '',
) => sign_up?.email_domains.includes(email.replace(/.*@/, ''))

/** Returns the feature: users create accounts. Off without `sign_up`. */
export function signUp({ settings }: Dependencies, own?: Own): PageFeature {
  if (!own || !settings.sign_up) return {}
  const { mails } = own
  const isWanted = ({ oidc: { result } }: { oidc: Oidc }) =>
    mapOf(result?.create).isWanted === true
  const check = new Check(
    'sign_up',
    'the user wants an account',
    'interaction_required',
    isWanted,
  )
  return {
    prompts: {
      create: {
        place: 'before the sign-in',
        requestable: true,
        page: site => signUpPage(site, mails),
      },
    },
    checks: { create: [check] },
    discovery: ({ prompt_values_supported: known }) => ({
      prompt_values_supported: [known, 'create'].flat(),
    }),
  }
}

/** Returns the page of the prompt: it asks for an address. */
function signUpPage(
  { views, attempts, settings }: Site,
  mails: MailQueues,
): PromptPage {
  type Shown = Partial<PageData['sign-up']>
  async function showForm(
    ctx: Context,
    { clientId }: Interaction,
    more: Shown,
  ): Promise<undefined> {
    const client = await views.nameOf(ctx, clientId)
    const domains = views.words(ctx).list(settings.sign_up?.email_domains ?? [])
    const isAccount = clientId === ACCOUNT_CLIENT
    const data = {
      client,
      isAccount,
      domains,
      email: '',
      isWrong: false,
      isSent: false,
      ...more,
    }
    views.page(ctx, 'sign-up', data, data.isWrong ? 400 : 200)
  }

  return {
    show: (ctx, interaction) =>
      showForm(ctx, interaction, {
        email: shownHint(interaction.loginHint) ?? '',
      }),

    async submit(ctx, interaction, form) {
      // The user who is signed in has another account.
      const isOver = form.value('decision') === 'sign_in'
      if (isOver) return { create: {}, select_account: { another: true } }
      const email = form.value('email').slice(0, 256)
      const newcomer = readAddress(email)
      if (!isAdmitted(settings, newcomer)) {
        return showForm(ctx, interaction, { email, isWrong: true })
      }
      await countFormOfNetwork(ctx, attempts, 'sign-up')
      const mail = { newcomer, lang: views.words(ctx).lang }
      await mails.enqueue(mail)
      return showForm(ctx, interaction, { isSent: true })
    },
  }
}
