// Mail: links for passwords (links.ts) and notices about changes, sent from the queue (mail-queue.ts) and never while
// a user waits.
//
// The page for a forgotten password stores what was typed, and nothing else. Whether an account has that name is
// looked up later: the page and its time are the same for every name.

import { readFileSync } from 'node:fs'
import type { Context } from 'koa'
import { type Account, newAccountId, typedName, valuesOf } from '../accounts/account.ts'
import { createDirectory } from '../accounts/directory.ts'
import type { Settings } from '../config/load.ts'
import { networkOf } from '../http/client-info.ts'
import { readForm } from '../http/forms.ts'
import { PLACES } from '../pages/page-data.ts'
import type { PageFeature } from '../pages/routes.ts'
import type { Site } from '../pages/site.ts'
import type { Views } from '../pages/views.ts'
import type { Dependencies } from '../provider/feature.ts'
import { createBrowserBinding } from '../provider/interactions.ts'
import type { Found } from '../storage/records.ts'
import { type Check, now, ok, wrong } from '../storage/store.ts'
import { createLinks, holdsAddress } from './links.ts'
import { countForm, type Mail, mailQueue, type Notice, OF_NETWORK } from './mail-queue.ts'

declare module '../pages/page-data.ts' {
  interface PageData {
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

/** One mail of an account in this time, however often a user asks. */
const PAUSE_SECONDS = 5 * 60
const FORGOT_SECONDS = 3600
const TIMEOUT_MS = 10_000

/** Epoch seconds as `2026-12-01T12:00`, in UTC. */
const minuteOf = (seconds: number) => new Date(seconds * 1000).toISOString().slice(0, 16)

/** Returns the SMTP client. Its library is loaded only where `mail` is set. */
async function transportOf({ smtp }: NonNullable<Settings['mail']>) {
  const { host, port, username, password_file, tls } = smtp
  const { createTransport } = await import('nodemailer')
  const pass = password_file && readFileSync(password_file, 'utf8').trim()
  return createTransport({
    host,
    port,
    ...(username && { auth: { user: username, pass } }),
    secure: tls === 'implicit',
    requireTLS: tls === 'starttls',
    ignoreTLS: tls === 'none',
    connectionTimeout: TIMEOUT_MS,
    socketTimeout: TIMEOUT_MS,
  })
}

type SmtpError = Error & { responseCode?: number; code?: string }
/** The reason for the log, without an address: answers of the server, and errors of the envelope, may repeat it. */
const smtpFailure = ({ responseCode, code, message }: SmtpError) => {
  const reason = code === 'EENVELOPE' ? code : message
  return new Error(responseCode ? `SMTP ${responseCode}` : reason)
}

/** Connects to the SMTP server, and signs in. `fix`: the remedy, for operators. */
export async function checkMail(mail: NonNullable<Settings['mail']>, fix: string): Promise<Check> {
  const { host } = mail.smtp
  const verified = transportOf(mail).then(transport => transport.verify())
  return verified.then(
    () => ok('mail', `${host} accepts the connection`),
    error => wrong('mail', `${host}: ${smtpFailure(error).message}`, fix),
  )
}

/** Returns the feature: it sends mails, and has the page for a forgotten password. Off without `mail`. */
export function mail(dependencies: Dependencies, views: Views): PageFeature {
  const { settings, records, sessions } = dependencies
  const { mail: set, issuer } = settings
  const brand = settings.branding.name
  if (!set || settings.accounts.module) return {}
  const directory = createDirectory(records, sessions)
  const links = createLinks(records, directory)
  const queue = mailQueue(records)
  const { bind } = createBrowserBinding(settings)

  /** Returns what to send; undefined if nothing. A link in it is made now. */
  async function letterOf(item: Mail & { attempt: number }): Promise<Letter | undefined> {
    const { notice, address, newcomer, seconds = FORGOT_SECONDS, resetFactors, attempt } = item
    if (newcomer) {
      const isFirst = await isDue(newcomer.toLowerCase(), attempt)
      return isFirst ? confirmation('sign_up', newcomer) : undefined
    }
    const account = await (item.account ? directory.find(item.account) : forgetful(item))
    if (!account && item.typed) return noLink(item.typed, attempt)
    if (!account?.enabled) return undefined
    if (notice) return { key: 'notice', to: notice.to, account, path: PLACES.home, notice }
    if (address) return confirmation('address', address, account)
    const { email, password } = account
    if (!email) return undefined
    const purpose = item.typed === undefined ? undefined : 'forgot'
    const link = await links.make(account, seconds, { purpose, email, resetFactors })
    return { key: password === undefined ? 'invitation' : 'forgot', to: email, account, ...link }
  }

  /**
   * Returns the mail for an address that is not verified, or that several accounts have. It goes only where the user
   * typed the address itself: only its mailbox learns that there is an account.
   */
  async function noLink(typed: string, attempt: number): Promise<Letter | undefined> {
    const holders = (await directory.findByEmail(typedName(typed))).filter(holdsAddress)
    const isUsual = holders.length === 1 && holders[0]?.email_verified
    const { email: to } = holders.find(({ enabled }) => enabled) ?? {}
    if (!to || isUsual || !(await isDue(to.toLowerCase(), attempt))) return undefined
    return { key: 'no_link', to, path: PLACES.home }
  }

  /** Returns the mail with a link that confirms an address; another one if an account has it already. */
  async function confirmation(
    purpose: 'address' | 'sign_up',
    email: string,
    account?: Account,
  ): Promise<Letter> {
    const holders = (await directory.findByEmail(email)).filter(holdsAddress)
    // A new account has its address as username.
    const namesake = account ? undefined : await directory.findByUsername(email)
    if (namesake || holders.some(({ id }) => id !== account?.id))
      return { key: 'known', to: email, path: PLACES.home }
    const to = account ?? { id: newAccountId() }
    const link = await links.make(to, FORGOT_SECONDS, { purpose, email })
    return { key: purpose, to: email, account, ...link }
  }

  /** Returns the message. */
  async function compose({ key, to, account, path, until, notice }: Letter, lang?: string) {
    const [own = ''] = account ? valuesOf(account.attributes, 'locale') : []
    const words = views.find(lang ?? own) ?? views.english
    const { t } = words
    const { username = '', name = username } = account ?? {}
    const date = minuteOf(notice?.at ?? until ?? 0)
    // A user can enter any address, and any name: the name is for the user's own address only.
    const isOwn = notice || to === account?.email
    const paragraphs = [
      isOwn ? t('mail.hello', { name }) : '',
      t(`mail.${key}_text`, { brand, date }),
      ...(notice?.changes ?? []).map(change => t(`notice.${change}`)),
      account ? t('mail.username', { username }) : '',
    ].filter(Boolean)
    const subject = t(`mail.${key}`, { brand })
    const link = issuer + path
    const otherwise = notice ? t('mail.notice_end') : t('mail.otherwise')
    const end = until ? t('mail.end', { date }) : otherwise
    return {
      from: { name: brand, address: set?.from ?? '' },
      to: { name: '', address: to },
      subject,
      text: [...paragraphs, link, end].join('\n\n'),
      html: views.render(words, 'mail', { subject, paragraphs, link, end }),
    }
  }

  const send = async (letter: Letter, lang?: string): Promise<void> => {
    const transport = await transportOf(set)
    const message = await compose(letter, lang)
    await transport.sendMail(message).catch(error => Promise.reject(smtpFailure(error)))
  }

  return {
    deliver: (_provider, due, attempt) =>
      queue.deliverDue(due, async (item, isLast) => {
        const letter = await letterOf(item)
        if (!letter) return false
        const about = { accountId: letter.account?.id ?? item.account, attempt: item.attempt }
        return attempt('mail', about, isLast, send(letter, item.lang))
      }),
    addPages(pages, site) {
      pages.get(PLACES.forgot, ctx => forgot(ctx, site))
      pages.post(PLACES.forgot, ctx => forgot(ctx, site))
    },
  }

  /** The account of a typed name, if a link can be sent safely, and none was a moment ago. */
  async function forgetful({ typed = '', attempt }: Mail & { attempt: number }) {
    const { known } = await directory.candidate(typedName(typed), ['email'])
    const account = known && (await directory.find(known.id))
    const { email, email_verified, password, links: upstreams = [] } = account ?? {}
    const isSafe = email !== undefined && email_verified && (password || !upstreams.length)
    if (!account || !isSafe) return undefined
    // Another account may have the address: one that does not verify it changes nothing.
    if ((await directory.candidate(email, ['email'])).known?.id !== account.id) return undefined
    return (await isDue(account.id, attempt)) ? account : undefined
  }

  /** Returns false within the pause: one of several forms gets a mail. */
  async function isDue(name: string, attempt: number): Promise<boolean> {
    if (attempt > 1) return true
    const begin = ({ value: last }: Found<{ at: number }>) =>
      last && last.at > now() - PAUSE_SECONDS ? undefined : { at: now() }
    const options = { ttl: PAUSE_SECONDS }
    return (await records.change('ForgotPause', name, begin, options)).isWritten
  }

  /** The page, and its form: the same for every name. */
  async function forgot(ctx: Context, { checkForm }: Site) {
    const form = await readForm(ctx)
    checkForm(ctx, form, `forgot ${bind(ctx).browser}`)
    if (ctx.method !== 'POST') return views.page(ctx, 'forgot', { isSent: false })
    await countForm(ctx, records, [`forgot network ${networkOf(ctx.ip)}`, OF_NETWORK])
    const typed = form.value('username').slice(0, 256)
    await queue.enqueue({ typed, lang: views.words(ctx).lang })
    views.page(ctx, 'forgot', { isSent: true })
  }
}
