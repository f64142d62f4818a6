// The pages of links (links.ts): a user chooses a password, or confirms an
// address. A GET changes nothing, because mail scanners open links. The form
// works in the browser that opened the page, and begins no session: the user
// signs in afterwards, or before for the confirmation of an address.
//
//   GET, POST /welcome/TOKEN → openLink → passwordPage, or confirmAddressPage → 410 if the link is not open any more

import type { Context } from 'koa'
import { queueNotice } from '../account/mail-queue.ts'
import type { PageFeature } from '../account/page-feature.ts'
import { BOUNDS } from '../oidc/bounds.ts'
import { bindBrowser } from '../oidc/browser.ts'
import { countStored } from '../oidc/requests.ts'
import { note } from '../operation/audit.ts'
import { networkOf } from '../operation/client-info.ts'
import { type Form, readForm } from '../operation/forms.ts'
import { type PageData, PLACES } from '../pages/page-data.ts'
import { problemsOfPassword } from '../sign-in/change-password-step.ts'
import { FOR_CHANGE } from '../sign-in/changes.ts'
import type { Dependencies } from '../sign-in/dependencies.ts'
import { admit, guessableWords } from '../sign-in/password.ts'
import type { RateLimit } from '../sign-in/rate-limit.ts'
import type { SignedIn, Site } from '../sign-in/site.ts'
import type { FactorStore } from './factors/factors.ts'
import type { FoundLink, Links, Own } from './links.ts'
import { isAdmitted } from './self-service.ts'

declare module '../pages/page-data.ts' {
  interface PageData {
    /**
     * The page of a link. `isNew`: the account has no password yet;
     * `resetsFactors`: its use removes second factors.
     */
    welcome: {
      isNew: boolean
      resetsFactors: boolean
      problems: PageData['password']['problems']
    }
    /**
     * `signIn`: the address of the sign-in page, with the username filled in.
     */
    'welcome-done': { isNew: boolean; signIn: string }
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
  }
}

/** The size of the counter of a network. */
const COUNTER_BYTES = 512

/** A page of a link. */
interface LinkPage {
  show(ctx: Context, found: FoundLink): Promise<void> | void
  /** Returns false, without an answer, if the link is not open any more. */
  submit(ctx: Context, found: FoundLink, form: Form): Promise<boolean>
}

/**
 * Returns the feature. With `accounts.module`, accounts are kept elsewhere, and
 * there are no links.
 */
export function accountLinks(
  dependencies: Dependencies,
  factors: FactorStore,
  own?: Own,
): PageFeature {
  if (!own) return {}
  const { links } = own

  return {
    addPages(pages, site) {
      const password = passwordPage(site, links, factors)
      const address = confirmAddressPage(site, own)

      async function answer(ctx: Context) {
        const form = await readForm(ctx)
        const found = await openLink(ctx, dependencies, links)
        const { account, link, handle } = found
        ctx.state.account = account
        // The form is valid in this browser alone.
        const { browser } = bindBrowser(ctx, dependencies.settings)
        site.checkForm(ctx, form, `link ${handle} ${browser}`)
        const page = link.purpose === 'address' ? address : password
        if (ctx.method === 'POST') {
          const isAnswered = await page.submit(ctx, found, form)
          if (!isAnswered) gone(ctx, 'the link was used')
          return
        }
        note(ctx, 'link_opened', { account: account.id })
        await page.show(ctx, found)
      }

      pages.get('/welcome/:token', answer).post('/welcome/:token', answer)
    },
  }
}

/**
 * Returns the open link of the request. Throws 410 without one, and 429 after
 * many unknown ones.
 */
async function openLink(
  ctx: Context,
  { settings, attempts }: Dependencies,
  links: Links,
): Promise<FoundLink> {
  const found = await links.find(String(ctx.params.token))
  if (!found) {
    await countUnknown(ctx, attempts)
    return gone(ctx, 'the link is unknown or replaced')
  }
  const { link, account, isOpen, isUsed } = found
  const isOff = link.purpose === 'sign_up' && !isAdmitted(settings, link.email)
  // The form of a use that a fault has interrupted is sent again.
  const isRepeated = isUsed && ctx.method === 'POST'
  if (!isOff && (isOpen || isRepeated)) return found
  note(ctx, 'link_expired', { account: account.id })
  return gone(ctx, 'the link has expired')
}

async function countUnknown(ctx: Context, attempts: RateLimit) {
  countStored(ctx, COUNTER_BYTES)
  const counter = `links network ${networkOf(ctx.ip)}`
  const isInTime = await attempts.count([[counter, BOUNDS.unknownLinks]])
  if (!isInTime)
    ctx.throw(429, 'too many unknown links were opened from this network')
}

function gone(ctx: Context, error_description: string): never {
  ctx.throw(410, { error: 'link_gone', error_description })
}

/** Returns the page on which a user chooses a password. */
function passwordPage(
  { settings, views, authentication }: Site,
  links: Links,
  factors: FactorStore,
): LinkPage {
  const isNew = ({ account }: FoundLink) => account.password === undefined

  function showForm(
    ctx: Context,
    found: FoundLink,
    problems: PageData['password']['problems'],
  ) {
    const resetsFactors = found.link.resetFactors === true
    const data = { isNew: isNew(found), resetsFactors, problems }
    const status = Object.keys(problems).length ? 400 : 200
    views.page(ctx, 'welcome', data, status)
  }

  /** Removes the second factors, after the old password has stopped working. */
  async function resetFactors(ctx: Context, account: string) {
    const removed = await factors.reset(account)
    note(ctx, 'second_factors_reset', {
      account,
      factors: removed.map(({ type }) => type),
    })
  }

  /** Logs the use of a link. */
  function noteUse(ctx: Context, { link, account }: FoundLink) {
    const { id } = account
    note(ctx, 'link_used', { account: id })
    if (link.purpose === 'sign_up') {
      note(ctx, 'account_added', { account: id })
      return
    }
    const hadSignIn = account.password !== undefined || account.links?.length
    const is_first = hadSignIn ? undefined : true
    note(ctx, 'password_changed', { account: id, is_first })
  }

  return {
    show(ctx, found) {
      showForm(ctx, found, {})
    },

    async submit(ctx, found, form) {
      const problems = await problemsOfPassword(
        views.words(ctx),
        form,
        guessableWords(found.account, settings),
        () => false,
      )
      if (problems) {
        showForm(ctx, found, problems)
        return true
      }
      const { id, username } = found.account
      await authentication.countForm(ctx, id)
      const finish = found.link.resetFactors
        ? () => resetFactors(ctx, id)
        : undefined
      const password = form.value('password')
      const isSet = await admit(ctx, () => links.use(found, password, finish))
      if (!isSet) return false
      noteUse(ctx, found)
      const query = new URLSearchParams({ login_hint: username })
      const signIn = `${PLACES.home}?${query}`
      views.page(ctx, 'welcome-done', { isNew: isNew(found), signIn })
      return true
    },
  }
}

/**
 * Returns the page of a link that confirms an address. It needs a sign-in to
 * the account that asked for the address: otherwise anyone could ask for an
 * address of another user, who confirms it, and whose sign-in at an upstream
 * issuer with `link_by_verified_email` then leads to the account of a stranger.
 */
function confirmAddressPage(site: Site, own: Own): LinkPage {
  const { views, settings, browserSession } = site
  const { directory, links } = own

  /** Returns the user, if it is the account that asked for the address. */
  async function ownerOf(
    ctx: Context,
    { account: asking }: FoundLink,
  ): Promise<SignedIn | undefined> {
    const session = await browserSession.read(ctx)
    if (session?.accountId !== asking.id) return undefined
    const account = await directory.findEnabled(asking.id, session.signedInAt)
    return account && { account, session }
  }

  function showAddress(
    ctx: Context,
    { link, account }: FoundLink,
    state: { isOwner: boolean; isDone: boolean },
  ) {
    const { email = '' } = link
    const { username } = account
    views.page(ctx, 'confirm-address', { email, username, ...state })
  }

  return {
    async show(ctx, found) {
      const owner = await ownerOf(ctx, found)
      showAddress(ctx, found, { isOwner: owner !== undefined, isDone: false })
    },

    async submit(ctx, found) {
      const owner = await ownerOf(ctx, found)
      if (!owner) {
        const login_hint = found.account.username
        site.signIn(ctx, { ...FOR_CHANGE, prompt: 'login', login_hint })
        return true
      }
      // Without a new address, the user confirms the one that the account has.
      const isReplaced = owner.account.email !== found.link.email
      // A factor may have been added since the request.
      if (isReplaced && !(await site.mayChange(ctx, owner, 'email_changed')))
        return true
      const before = await links.confirm(found)
      if (!before) return false
      note(ctx, 'email_changed', { account: before.id })
      // The notice goes to the former address, which the audit log does not
      // have.
      const change = {
        event: 'account_changed',
        account: before.id,
        formerEmail: isReplaced ? before.email : undefined,
      }
      await queueNotice(settings, own, [change], views.words(ctx).lang)
      showAddress(ctx, found, { isOwner: true, isDone: true })
      return true
    },
  }
}
