// Mail: links for passwords (links.ts) and notices about changes, sent from the queues (mail-queue.ts) and never while
// a user waits. A mailbox whose owner has not asked for a mail gets few of them (pauses.ts).
//
// The page for a forgotten password stores what was typed, and nothing else. Whether an account has that name is
// looked up later: the page and its time are the same for every name.

import type { Context } from 'koa'
import {
  countForm,
  countFormOfNetwork,
  type Mail,
  mailQueues,
  type Notice,
} from '../../account/mail-queue.ts'
import type { PageFeature } from '../../account/page-feature.ts'
import { BOUNDS } from '../../oidc/bounds.ts'
import { valuesOf } from '../../oidc/clients.ts'
import { createBrowserBinding } from '../../oidc/interactions.ts'
import { readForm } from '../../operation/forms.ts'
import { PLACES } from '../../pages/page-data.ts'
import type { Views } from '../../pages/views.ts'
import { type Account, newAccountId, typedName } from '../../sign-in/account.ts'
import type { Dependencies } from '../../sign-in/dependencies.ts'
import type { SignedIn, Site } from '../../sign-in/site.ts'
import { holdsAddress, type Own } from '../links.ts'
import { createMailPauses } from './pauses.ts'
import { sendMessage } from './smtp.ts'

declare module '../../pages/page-data.ts' {
  interface PageData {
    /** The page on which users ask for a mail that confirms their address. `isSent`: after the form. */
    'confirm-own-address': { email: string; isSent: boolean }
    /** A mail as HTML. */
    mail: { subject: string; paragraphs: string[]; link: string; end: string }
  }
}

/** A mail with its receiver, before it is written in a language. */
interface Letter {
  /** The kind of the mail, whose texts are `mail.KEY` and `mail.KEY_text`. */
  key: 'invitation' | 'forgot' | 'no_link' | 'address' | 'sign_up' | 'known' | 'notice'
  to: string
  account?: Account
  /** The path of the link. */
  path: string
  /** Epoch seconds. */
  until?: number
  notice?: Notice
}

/** The lifetime of a link that a form has caused. */
const FORM_LINK_SECONDS = 3600

/** A mail in the queue. `attempt`: 1 for the first. */
type Queued = Mail & { attempt: number }

/** Returns the feature: it sends mails, and has the page for a forgotten password. Off without `mail`. */
export function mail(dependencies: Dependencies, views: Views, own?: Own): PageFeature {
  const { settings, records } = dependencies
  const { mail: set, issuer } = settings
  const brand = settings.branding.name
  if (!set || !own) return {}
  const { directory, links } = own
  const queues = mailQueues(records)
  const pauses = createMailPauses(records)
  const { bind } = createBrowserBinding(settings)

  /** Returns what to send; undefined if nothing, `later` for an account that is not added yet. */
  async function letterOf(item: Queued): Promise<Letter | 'later' | undefined> {
    const { newcomer, typed, address, notice } = item
    if (newcomer) return confirmation(item, 'sign_up', newcomer)
    if (typed !== undefined) return answerTo(item, typed)
    const account = await directory.find(item.account ?? '')
    if (!account) return notice ? undefined : 'later'
    if (!account.enabled) return undefined
    if (notice) return noticeTo(item, account, notice)
    return address ? confirmation(item, 'address', address, account) : invitation(item, account)
  }

  /**
   * Returns the lifetime of the link in a mail that began a pause; undefined if another mail did, and this one is not
   * sent. The link is open as long as the pause lasts: until the next mail, its receiver has one that works.
   */
  function lifetimeIn(pause: number | undefined, { attempt }: Queued): number | undefined {
    // The first attempt has begun it. Since then, another mail may have begun the next one.
    const isBegun = pause !== undefined || attempt > 1
    return isBegun ? Math.max(pause ?? 0, FORM_LINK_SECONDS) : undefined
  }

  /** Begins the pause of a mailbox that may not have asked for the mail; see `lifetimeIn`. */
  const dueTo = async (address: string, item: Queued) =>
    lifetimeIn(await pauses.beginOfMailbox(address, item.id), item)

  /** Returns the mail of an operator: a link for a password. */
  async function invitation(item: Queued, account: Account): Promise<Letter | undefined> {
    const { email, password } = account
    if (!email) return undefined
    const { seconds, resetFactors } = item
    const link = await links.makeForMail(item, account, seconds, {
      email,
      resetFactors,
    })
    const key = password === undefined ? 'invitation' : 'forgot'
    return link && { key, to: email, account, ...link }
  }

  /** Returns the answer to the form for a forgotten password. */
  async function answerTo(item: Queued, typed: string): Promise<Letter | undefined> {
    const account = await ownerOf(typed)
    if (!account) return noLink(item, typed)
    const { enabled, email } = account
    if (!enabled || !email) return undefined
    const pause = await pauses.beginOfAccount(account.id, email, item.id)
    const seconds = lifetimeIn(pause, item)
    if (!seconds) return undefined
    const link = await links.makeForMail(item, account, seconds, {
      purpose: 'forgot',
      email,
    })
    return link && { key: 'forgot', to: email, account, ...link }
  }

  /** Returns the account of a typed name, if a link can be sent safely. */
  async function ownerOf(typed: string): Promise<Account | undefined> {
    const { known } = await directory.candidate(typedName(typed), ['email'])
    const account = known && (await directory.find(known.id))
    const { email, email_verified, password, links: upstreams = [] } = account ?? {}
    const isSafe = email !== undefined && email_verified && (password || !upstreams.length)
    if (!account || !isSafe) return undefined
    // Another account may have the address: one that does not verify it changes nothing.
    const holder = await directory.candidate(email, ['email'])
    return holder.known?.id === account.id ? account : undefined
  }

  /**
   * Returns the mail for an address that is not verified, or that several accounts have. It goes only where the user
   * typed the address itself: only its mailbox learns that there is an account.
   */
  async function noLink(item: Queued, typed: string): Promise<Letter | undefined> {
    const holders = (await directory.findByEmail(typedName(typed))).filter(holdsAddress)
    const isUsual = holders.length === 1 && holders[0]?.email_verified
    const { email: to } = holders.find(({ enabled }) => enabled) ?? {}
    if (!to || isUsual || !(await dueTo(to, item))) return undefined
    return { key: 'no_link', to, path: PLACES.home }
  }

  /** Returns the mail with a link that confirms an address; another one if an account has it already. */
  async function confirmation(
    item: Queued,
    purpose: 'address' | 'sign_up',
    email: string,
    account?: Account,
  ): Promise<Letter | undefined> {
    const seconds = await dueTo(email, item)
    if (!seconds) return undefined
    const holders = (await directory.findByEmail(email)).filter(holdsAddress)
    // A new account has its address as username.
    const namesake = account ? undefined : await directory.findByUsername(email)
    if (namesake || holders.some(({ id }) => id !== account?.id))
      return { key: 'known', to: email, path: PLACES.home }
    const to = account ?? { id: newAccountId() }
    const link = await links.makeForMail(item, to, seconds, { purpose, email })
    return link && { key: purpose, to: email, account, ...link }
  }

  /** Returns a notice. An address that is not confirmed gets few, as it may be that of a stranger. */
  async function noticeTo(item: Queued, account: Account, notice: Notice) {
    const isDue = notice.isVerified || (await dueTo(notice.to, item))
    const letter: Letter = { key: 'notice', to: notice.to, account, path: PLACES.home, notice }
    return isDue ? letter : undefined
  }

  /** Returns the message. */
  function compose({ key, account, path, until, notice }: Letter, { id, lang }: Queued) {
    const [own = ''] = account ? valuesOf(account.attributes, 'locale') : []
    const words = views.find(lang ?? own) ?? views.english
    const { t } = words
    const { username = '', name = username } = account ?? {}
    const date = words.minute(notice?.at ?? until ?? 0)
    // Users choose their names: no mailbox gets the text of a stranger.
    const isOfOwner = key === 'invitation' || key === 'forgot' || notice?.isVerified
    const paragraphs = [
      isOfOwner ? t('mail.hello', { name }) : '',
      t(`mail.${key}_text`, { brand, date }),
      ...(notice?.changes ?? []).map(change => t(`notice.${change}`)),
      isOfOwner ? t('mail.username', { username }) : '',
    ].filter(Boolean)
    const subject = t(`mail.${key}`, { brand })
    const link = issuer + path
    const otherwise = notice ? t('mail.notice_end') : t('mail.otherwise')
    const end = until ? t('mail.end', { date }) : otherwise
    return {
      from: { name: brand, address: set?.from ?? '' },
      subject,
      // All attempts have the same id: a mailbox that gets two of them can tell.
      messageId: `<${id}@${new URL(issuer).hostname}>`,
      // RFC 3834 §5: no answer of a machine is wanted.
      headers: { 'Auto-Submitted': 'auto-generated' },
      text: [...paragraphs, link, end].join('\n\n'),
      html: views.render(words, 'mail', { subject, paragraphs, link, end }),
      // Quoted-printable breaks long lines, such as links, for programs that do not decode it.
      textEncoding: 'base64' as const,
    }
  }

  return {
    deliver: (_provider, due, attempt) =>
      queues.deliverDue(due, async (item, isLast) => {
        const letter = await letterOf(item)
        if (!letter) return false
        if (letter === 'later') return true
        const about = { accountId: letter.account?.id ?? item.account, attempt: item.attempt }
        const sent = sendMessage(set, letter.to, compose(letter, item))
        return attempt('mail', about, isLast, sent)
      }),
    async notices({ t }, { account }) {
      const { email, email_verified } = account
      if (!email || email_verified) return []
      const text = t('address.own_notice', { email })
      return [{ icon: 'alert', text, path: PLACES.confirmAddress }]
    },

    addPages(pages, site) {
      pages.get(PLACES.confirmAddress, site.signedIn(confirmAddress))
      pages.post(PLACES.confirmAddress, site.signedIn(confirmAddress))
      pages.get(PLACES.forgot, ctx => forgot(ctx, site))
      pages.post(PLACES.forgot, ctx => forgot(ctx, site))
    },
  }

  /** The page on which users confirm the address that they have, and its form. */
  async function confirmAddress(ctx: Context, { account }: SignedIn) {
    const { id, email, email_verified } = account
    if (!email || email_verified) return ctx.redirect(PLACES.home)
    const isSent = ctx.method === 'POST'
    if (isSent) {
      await countForm(ctx, records, [`addresses of ${id}`, BOUNDS.newAddresses])
      await queues.enqueue({ account: id, address: email, lang: views.words(ctx).lang })
    }
    views.page(ctx, 'confirm-own-address', { email, isSent })
  }

  /** The page, and its form: the same for every name. */
  async function forgot(ctx: Context, { checkForm }: Site) {
    const form = await readForm(ctx)
    checkForm(ctx, form, `forgot ${bind(ctx).browser}`)
    if (ctx.method !== 'POST') return views.page(ctx, 'forgot', { isSent: false })
    await countFormOfNetwork(ctx, records, 'forgot')
    const typed = form.value('username').slice(0, 256)
    await queues.enqueue({ typed, lang: views.words(ctx).lang })
    views.page(ctx, 'forgot', { isSent: true })
  }
}
