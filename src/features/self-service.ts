// Self-service: users change their name and their e-mail address
// (`accounts.self_service`), and create an account (`sign_up`; OpenID Connect
// Initiating User Registration 1.0). An address is in force when its mailbox
// has confirmed it, with a link (links.ts).
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
  queueNotice,
} from '../account/mail-queue.ts'
import type { PageFeature } from '../account/page-feature.ts'
import type { Settings } from '../config/load.ts'
import { BOUNDS } from '../oidc/bounds.ts'
import type { Oidc } from '../oidc/dependencies.ts'
import type { Interaction } from '../oidc/interactions.ts'
import { ACCOUNT_CLIENT } from '../oidc/vocabulary.ts'
import { note } from '../operation/audit.ts'
import type { Form } from '../operation/forms.ts'
import type { PageData } from '../pages/page-data.ts'
import { type Account, profileSchema } from '../sign-in/account.ts'
import { FOR_CHANGE, RECENT_SECONDS } from '../sign-in/changes.ts'
import type { Dependencies } from '../sign-in/dependencies.ts'
import { shownHint } from '../sign-in/flow.ts'
import type { PromptPage } from '../sign-in/interaction-pages.ts'
import type { Limit } from '../sign-in/rate-limit.ts'
import type { SignedIn, Site, Submitted } from '../sign-in/site.ts'
import { mapOf } from '../store/values.ts'
import type { FoundLink, Own } from './links.ts'

declare module '../pages/page-data.ts' {
  interface PageData {
    /**
     * `fields`: those that the user may change, with their values; `wrong`:
     * those with a text that is not valid; `pending`: the address that waits
     * for its confirmation; `isUnconfirmed`: the one that the account has;
     * `isUnchanged`: the form had no change.
     */
    profile: {
      fields: Fields
      wrong: Field[]
      pending?: string
      isSaved: boolean
      isUnconfirmed: boolean
      isUnchanged: boolean
    }
    /**
     * The page of a link that confirms an address of the account `username`.
     * `isOwner`: the browser is signed in to this account.
     */
    'confirm-address': {
      email: string
      username: string
      isOwner: boolean
      isDone: boolean
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
export function readAddress(typed: string): string | undefined {
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
  { settings, attempts }: Dependencies,
  own?: Own,
): PageFeature {
  const { accounts, upstreams } = settings
  if (!own || !accounts.self_service.length) return {}
  const { directory, links, mails } = own

  /**
   * The fields that no upstream issuer of the account sets: a sign-in there
   * would overwrite them.
   */
  function fieldsOf({ links: linked = [] }: Account): Field[] {
    const issuers = linked.map(({ issuer }) => issuer)
    const theirs = Object.values(upstreams).filter(({ issuer }) =>
      issuers.includes(issuer),
    )
    return accounts.self_service.filter(
      field => !theirs.some(({ claims }) => claims[field]),
    )
  }
  const isFor = (account: Account) => fieldsOf(account).length > 0

  /**
   * Returns the fields that a form changes: as typed, those that are `wrong`,
   * and the new values. Without a name, the user removes it; without an email,
   * the address stays.
   */
  function readChanges(form: Form, account: Account) {
    const textOf = (field: Field) => form.value(field).trim()
    const isChanged = (field: Field) => textOf(field) !== (account[field] ?? '')
    const changed = fieldsOf(account).filter(isChanged)
    const name = profileSchema.shape.name.safeParse(textOf('name') || undefined)
    const email = readAddress(textOf('email'))
    const isWrong = { name: !name.success, email: !email }
    return {
      changed,
      typed: Object.fromEntries(changed.map(field => [field, textOf(field)])),
      wrong: changed.filter(field => isWrong[field]),
      name: name.data,
      email: changed.includes('email') ? email : undefined,
    }
  }

  function pageOf(site: Site) {
    const { views } = site
    type Shown = Partial<PageData['profile']>
    /**
     * `typed`: the values of a form; by default those that the user left for a
     * sign-in.
     */
    async function show(
      ctx: Context,
      user: SignedIn,
      typed?: Fields,
      more: Shown = {},
    ) {
      const { account } = user
      ctx.state.account = account
      const kept = typed ?? site.keptForm(user, ctx.query.kept)
      const textOf = (field: Field) =>
        String(kept[field] ?? account[field] ?? '')
      const fields = Object.fromEntries(
        fieldsOf(account).map(field => [field, textOf(field)]),
      )
      const { pending = (await links.openOf(account, 'address'))?.email } = more
      const { email, email_verified } = account
      const isUnconfirmed =
        settings.mail !== undefined && Boolean(email) && !email_verified
      const outcome = { wrong: [], isSaved: false, isUnchanged: false, ...more }
      const data = { ...outcome, fields, pending, isUnconfirmed }
      views.page(ctx, 'profile', data, data.wrong.length ? 400 : 200)
    }

    async function submit(ctx: Context, { form, ...user }: Submitted) {
      const { id } = user.account
      const { changed, typed, wrong, name, email } = readChanges(
        form,
        user.account,
      )
      if (wrong.length) return show(ctx, user, typed, { wrong })
      if (email && !(await requestAddress(ctx, user, email, typed))) return
      const rename = (current: Account) => ({ ...current, name })
      const renamed = changed.includes('name')
        ? await directory.change(id, rename)
        : undefined
      if (renamed) note(ctx, 'name_changed', { account: id })
      const outcome = {
        pending: email,
        isSaved: renamed !== undefined,
        isUnchanged: changed.length === 0,
      }
      await show(
        ctx,
        { ...user, account: renamed ?? user.account },
        {},
        outcome,
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
    ) {
      const { id: account } = user.account
      const back = `${PROFILE_PAGE}?kept=${site.keepForm(user, typed)}`
      if (!(await site.mayChange(ctx, user, 'email_change_requested', back)))
        return false
      await countForm(ctx, attempts, [`addresses of ${account}`, OF_ACCOUNT])
      await mails.enqueue({
        account,
        address,
        lang: views.words(ctx).lang,
      })
      note(ctx, 'email_change_requested', { account })
      return true
    }
    return { show, submit }
  }

  return {
    areas: [
      {
        path: PROFILE_PAGE,
        icon: 'pen',
        label: t => t('profile.title'),
        isFor,
      },
    ],
    addPages(pages, site) {
      const { show, submit } = pageOf(site)
      pages.get(PROFILE_PAGE, site.signedIn(show, RECENT_SECONDS))
      pages.post(PROFILE_PAGE, site.signedIn(submit, RECENT_SECONDS))
    },
  }
}

/**
 * Returns the page of a link that confirms an address. It needs a sign-in to
 * the account that asked for the address: otherwise anyone could ask for an
 * address of another user, who confirms it, and whose sign-in at an upstream
 * issuer with `link_by_verified_email` then leads to the account of a stranger.
 */
export function confirmAddressPage(site: Site, own: Own) {
  const { views, settings, browserSession } = site
  const { directory, links } = own

  /** The user, if it is the account that asked for the address. */
  async function ownerOf(ctx: Context, { account: asking }: FoundLink) {
    const session = await browserSession.read(ctx)
    if (session?.accountId !== asking.id) return undefined
    const account = await directory.findEnabled(asking.id, session.since)
    return account && { account, session }
  }

  async function show(ctx: Context, found: FoundLink, isDone = false) {
    const { email = '' } = found.link
    const { username } = found.account
    const data = {
      email,
      username,
      isOwner: isDone || Boolean(await ownerOf(ctx, found)),
      isDone,
    }
    views.page(ctx, 'confirm-address', data)
  }

  return {
    show,
    async submit(ctx: Context, found: FoundLink) {
      const owner = await ownerOf(ctx, found)
      if (!owner) {
        const { username } = found.account
        return site.signIn(ctx, {
          ...FOR_CHANGE,
          prompt: 'login',
          login_hint: username,
        })
      }
      // Without a new address, the user confirms the one that the account has.
      const isReplaced = owner.account.email !== found.link.email
      // A factor may have been added since the request.
      if (isReplaced && !(await site.mayChange(ctx, owner, 'email_changed')))
        return
      const before = await links.confirm(found)
      if (!before) return false
      note(ctx, 'email_changed', { account: before.id })
      // The notice goes to the former address, which the audit log does not
      // have.
      const formerEmail = isReplaced ? before.email : undefined
      const change = {
        event: 'account_changed',
        account: before.id,
        formerEmail,
      }
      await queueNotice(settings, own, [change], views.words(ctx).lang)
      await show(ctx, found, true)
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
  const page = (site: Site) => signUpPage(site, mails)
  const isWanted = ({ oidc: { result } }: { oidc: Oidc }) =>
    mapOf(result?.create).isWanted === true
  const check = new Check(
    'sign_up',
    'the user wants an account',
    'interaction_required',
    isWanted,
  )
  return {
    prompts: { create: { isFirst: true, requestable: true, page } },
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
  async function render(
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
      render(ctx, interaction, {
        email: shownHint(interaction.loginHint) ?? '',
      }),

    async submit(ctx, interaction, form) {
      // The user who is signed in has another account.
      const isOver = form.value('decision') === 'sign_in'
      if (isOver) return { create: {}, select_account: { another: true } }
      const email = form.value('email').slice(0, 256)
      const newcomer = readAddress(email)
      if (!isAdmitted(settings, newcomer)) {
        return render(ctx, interaction, { email, isWrong: true })
      }
      await countFormOfNetwork(ctx, attempts, 'sign-up')
      const mail = { newcomer, lang: views.words(ctx).lang }
      await mails.enqueue(mail)
      return render(ctx, interaction, { isSent: true })
    },
  }
}
