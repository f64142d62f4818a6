// Mail: links for passwords and notices about changes. A mail is never sent
// while a user waits.
//
//   1  a page or a command queues what to send         account/mail-queue.ts
//   2  the queue delivers it: a letter, or nothing     letters.ts; links.ts makes its link
//   3  the letter becomes a message in a language      message.ts
//   4  the message is sent                             smtp.ts
//
// The page for a forgotten password stores what was typed, and nothing else.
// Whether an account has that name is looked up later: the page and its time
// are the same for every name.
//
// The folder features/mail/: letters, and how they are sent. Not here: what
// queues a mail (account/mail-queue.ts), and the links in it (features/links.ts).

import type { Context } from 'koa'
import { countForm, countFormOfNetwork } from '../../account/mail-queue.ts'
import type { PageFeature } from '../../account/page-feature.ts'
import { BOUNDS } from '../../oidc/bounds.ts'
import { bindBrowser } from '../../oidc/browser.ts'
import { readForm } from '../../operation/forms.ts'
import { PLACES } from '../../pages/page-data.ts'
import type { Views } from '../../pages/views.ts'
import type { Dependencies } from '../../sign-in/dependencies.ts'
import type { Counter } from '../../sign-in/rate-limit.ts'
import type { SignedIn, Site } from '../../sign-in/site.ts'
import type { Own } from '../links.ts'
import { createLetters } from './letters.ts'
import { messageOf } from './message.ts'
import { sendMessage } from './smtp.ts'

declare module '../../pages/page-data.ts' {
  interface PageData {
    /**
     * The page on which users ask for a mail that confirms their address.
     * `isSent`: after the form.
     */
    'confirm-own-address': { email: string; isSent: boolean }
    /** `isSent`: after the form, for every name. */
    forgot: { isSent: boolean }
  }
}

/**
 * Returns the feature: it sends mails, and has the page for a forgotten
 * password. Off without `mail`.
 */
export function mail(
  dependencies: Dependencies,
  views: Views,
  own?: Own,
): PageFeature {
  const { settings, records, attempts } = dependencies
  const { mail: set } = settings
  if (!set || !own) return {}
  const { mails } = own
  const letterOf = createLetters(records, own)

  return {
    deliver: (_provider, due, attempt) =>
      mails.deliverDue(due, async (item, isLast) => {
        const letter = await letterOf(item)
        if (!letter) return false
        if (letter === 'later') return true
        const about = {
          accountId: letter.account?.id ?? item.account,
          attempt: item.attempt,
        }
        const message = messageOf(letter, item, settings, views)
        return attempt(
          'mail',
          about,
          isLast,
          sendMessage(set, letter.to, message),
        )
      }),

    addPages(pages, site) {
      pages.get(PLACES.confirmAddress, site.signedIn(confirmAddress))
      pages.post(PLACES.confirmAddress, site.signedIn(confirmAddress))
      pages.get(PLACES.forgot, ctx => forgot(ctx, site))
      pages.post(PLACES.forgot, ctx => forgot(ctx, site))
    },
  }

  /**
   * The page on which users confirm the address that they have, and its form.
   */
  async function confirmAddress(ctx: Context, { account }: SignedIn) {
    const { id, email, email_verified } = account
    if (!email || email_verified) return ctx.redirect(PLACES.home)
    const isSent = ctx.method === 'POST'
    if (isSent) {
      const counter: Counter = [`addresses of ${id}`, BOUNDS.newAddresses]
      await countForm(ctx, attempts, counter)
      await mails.enqueue({
        account: id,
        address: email,
        lang: views.words(ctx).lang,
      })
    }
    views.page(ctx, 'confirm-own-address', { email, isSent })
  }

  /** The page, and its form: the same for every name. */
  async function forgot(ctx: Context, { checkForm }: Site) {
    const form = await readForm(ctx)
    checkForm(ctx, form, `forgot ${bindBrowser(ctx, settings).browser}`)
    if (ctx.method !== 'POST')
      return views.page(ctx, 'forgot', { isSent: false })
    await countFormOfNetwork(ctx, attempts, 'forgot')
    const typed = form.value('username').slice(0, 256)
    await mails.enqueue({ typed, lang: views.words(ctx).lang })
    views.page(ctx, 'forgot', { isSent: true })
  }
}
