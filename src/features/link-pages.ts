// The page of a link (links.ts), such as that on which a user chooses a
// password. A GET changes nothing, because mail scanners open links. The form
// works in the browser that opened the page, and begins no session: the user
// signs in afterwards, or before for the confirmation of an address.

import type { Context } from 'koa'
import { problemsOf } from '../account/overview.ts'
import type { PageFeature } from '../account/page-feature.ts'
import { BOUNDS } from '../oidc/bounds.ts'
import { bindBrowser } from '../oidc/interactions.ts'
import { countStored } from '../oidc/requests.ts'
import { note } from '../operation/audit.ts'
import { networkOf } from '../operation/client-info.ts'
import { type Form, readForm } from '../operation/forms.ts'
import { type PageData, PLACES } from '../pages/page-data.ts'
import type { Dependencies } from '../sign-in/dependencies.ts'
import type { Site } from '../sign-in/site.ts'
import type { FactorStore } from './factors/factors.ts'
import type { FoundLink, Links, Own } from './links.ts'
import { confirmAddressPage, isAdmitted } from './self-service.ts'

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
    /** `isSent`: after the form, for every name. */
    forgot: { isSent: boolean }
  }
}

/** The size of the counter of a network. */
const COUNTER_BYTES = 512

/**
 * Returns the feature. With `accounts.module`, accounts are kept elsewhere, and
 * there are no links.
 */
export function accountLinks(
  { settings, attempts }: Dependencies,
  factors: FactorStore,
  own?: Own,
): PageFeature {
  if (!own) return {}
  const { links } = own

  /**
   * Returns the open link of the request. Throws 410 without one, and 429 after
   * many unknown ones.
   */
  async function openLink(ctx: Context): Promise<FoundLink> {
    const found = await links.find(String(ctx.params.token))
    if (!found) {
      await countUnknown(ctx)
      return gone(ctx, 'the link is unknown or replaced')
    }
    const { link, account, isOpen, isUsed } = found
    const isOff =
      link.purpose === 'sign_up' && !isAdmitted(settings, link.email)
    // The form of a use that a fault has interrupted is sent again.
    const isRepeated = isUsed && ctx.method === 'POST'
    if (!isOff && (isOpen || isRepeated)) return found
    note(ctx, 'link_expired', { account: account.id })
    return gone(ctx, 'the link has expired')
  }

  async function countUnknown(ctx: Context) {
    countStored(ctx, COUNTER_BYTES)
    const counter = `links network ${networkOf(ctx.ip)}`
    const isInTime = await attempts.count([[counter, BOUNDS.unknownLinks]])
    if (!isInTime)
      ctx.throw(429, 'too many unknown links were opened from this network')
  }

  function gone(ctx: Context, error_description: string): never {
    ctx.throw(410, { error: 'link_gone', error_description })
  }

  return {
    addPages(pages, site) {
      const password = passwordPage(site, links, factors)
      const address = confirmAddressPage(site, own)
      const pageOf = ({ link }: FoundLink) =>
        link.purpose === 'address' ? address : password
      async function answer(ctx: Context) {
        const form = await readForm(ctx)
        const found = await openLink(ctx)
        ctx.state.account = found.account
        // The form is valid in this browser alone.
        const { browser } = bindBrowser(ctx, settings)
        site.checkForm(ctx, form, `link ${found.handle} ${browser}`)
        if (ctx.method === 'POST') {
          const isUsed = await pageOf(found).submit(ctx, found, form)
          if (isUsed === false) gone(ctx, 'the link was used')
          return
        }
        note(ctx, 'link_opened', { account: found.account.id })
        await pageOf(found).show(ctx, found)
      }
      pages.get('/welcome/:token', answer).post('/welcome/:token', answer)
    },
  }
}

/** Returns the page on which a user chooses a password. */
function passwordPage(
  { views, authentication }: Site,
  links: Links,
  factors: FactorStore,
) {
  const isNew = ({ account }: FoundLink) => account.password === undefined
  const isFirst = ({ account }: FoundLink) =>
    account.password === undefined && !account.links?.length
  function render(
    ctx: Context,
    found: FoundLink,
    problems: PageData['password']['problems'],
  ) {
    const resetsFactors = found.link.resetFactors === true
    const status = Object.keys(problems).length ? 400 : 200
    views.page(
      ctx,
      'welcome',
      { isNew: isNew(found), resetsFactors, problems },
      status,
    )
  }

  /** Removes the second factors, after the old password has stopped working. */
  async function reset(ctx: Context, account: string) {
    const removed = await factors.reset(account)
    note(ctx, 'second_factors_reset', {
      account,
      factors: removed.map(({ type }) => type),
    })
  }

  return {
    show(ctx: Context, found: FoundLink) {
      render(ctx, found, {})
    },

    /** Returns false, without an answer, if the link is not open any more. */
    async submit(ctx: Context, found: FoundLink, form: Form) {
      const problems = await problemsOf(views.words(ctx), form, () => false)
      if (problems) return render(ctx, found, problems)
      const account = found.account.id
      await authentication.countForm(ctx, account)
      const { purpose, resetFactors } = found.link
      const finish = resetFactors ? () => reset(ctx, account) : undefined
      if (!(await links.use(found, form.value('password'), finish)))
        return false
      note(ctx, 'link_used', { account })
      const is_first = isFirst(found) || undefined
      if (purpose === 'sign_up') note(ctx, 'account_added', { account })
      else note(ctx, 'password_changed', { account, is_first })
      const query = new URLSearchParams({ login_hint: found.account.username })
      views.page(ctx, 'welcome-done', {
        isNew: isNew(found),
        signIn: `${PLACES.home}?${query}`,
      })
    },
  }
}
