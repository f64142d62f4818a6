// Mail: links for passwords (links.ts) and notices about changes, sent from the queue (mail-queue.ts) and never while
// a user waits.
//
// The page for a forgotten password stores what was typed, and nothing else. Whether an account has that name is
// looked up later: the page and its time are the same for every name.

import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Context } from 'koa'
import { type Account, isUsername, tidy } from '../accounts/account.ts'
import { createDirectory } from '../accounts/directory.ts'
import { createRateLimit, type Limit } from '../accounts/rate-limit.ts'
import type { Settings } from '../config/load.ts'
import { networkOf } from '../http/client-info.ts'
import { readForm } from '../http/forms.ts'
import { PLACES } from '../pages/page-data.ts'
import type { PageFeature } from '../pages/routes.ts'
import type { Site } from '../pages/site.ts'
import type { Views } from '../pages/views.ts'
import type { Words } from '../pages/words.ts'
import type { Dependencies } from '../provider/feature.ts'
import { createBrowserBinding } from '../provider/interactions.ts'
import type { Found } from '../storage/records.ts'
import { type Check, now, ok, wrong } from '../storage/store.ts'
import { createLinks } from './links.ts'
import { type Mail, mailQueue, type Notice } from './mail-queue.ts'

declare module '../pages/page-data.ts' {
  interface PageData {
    /** A mail as HTML. */
    mail: { subject: string; paragraphs: string[]; link: string; end: string }
  }
}

/** One mail of an account in this time, however often a user asks. */
const PAUSE_SECONDS = 5 * 60
const FORGOT_SECONDS = 3600
/** Forms of a network. */
const OF_NETWORK: Limit = { attempts: 30, maxWaitSeconds: 60 }
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
/** The reason for the log: answers of the server may repeat the address. */
const smtpFailure = ({ responseCode, code, message }: SmtpError) =>
  new Error(responseCode ? `SMTP ${responseCode}` : (code ?? message))

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

  /** Makes the link, and returns the texts. */
  async function linkTexts({ t }: Words, account: Account, item: Mail) {
    const { email, username } = account
    const { seconds = FORGOT_SECONDS, resetFactors } = item
    const isNew = account.password === undefined
    const { path, until } = await links.make(account, seconds, { email, resetFactors })
    return {
      subject: t(isNew ? 'mail.invitation' : 'mail.forgot', { brand }),
      paragraphs: [
        t(isNew ? 'mail.invitation_text' : 'mail.forgot_text', { brand }),
        t('mail.username', { username }),
      ],
      link: issuer + path,
      end: t('mail.end', { date: minuteOf(until) }),
    }
  }

  function noticeTexts({ t }: Words, { username }: Account, { changes, at }: Notice) {
    return {
      subject: t('mail.notice', { brand }),
      paragraphs: [
        t('mail.notice_text', { brand, date: minuteOf(at) }),
        ...changes.map(change => t(`notice.${change}`)),
        t('mail.username', { username }),
      ],
      link: issuer + PLACES.home,
      end: t('mail.notice_end'),
    }
  }

  /** Returns the message. */
  async function compose(account: Account, address: string, item: Mail) {
    const { name = account.username, attributes } = account
    const words = views.find(item.lang ?? String(attributes.locale)) ?? views.english
    const { notice } = item
    const texts = notice
      ? noticeTexts(words, account, notice)
      : await linkTexts(words, account, item)
    const paragraphs = [words.t('mail.hello', { name }), ...texts.paragraphs]
    return {
      from: { name: brand, address: set?.from ?? '' },
      to: { name: '', address },
      subject: texts.subject,
      text: [...paragraphs, texts.link, texts.end].join('\n\n'),
      html: views.render(words, 'mail', { ...texts, paragraphs }),
    }
  }

  return {
    deliver: (_provider, due, attempt) =>
      queue.deliverDue(due, async (item, isLast) => {
        const account = await (item.account ? directory.find(item.account) : forgetful(item))
        const address = item.notice?.to ?? account?.email
        if (!account?.enabled || !address) return false
        const sent = Promise.all([transportOf(set), compose(account, address, item)]).then(
          ([transport, message]) =>
            transport.sendMail(message).catch(error => Promise.reject(smtpFailure(error))),
        )
        const about = { accountId: account.id, attempt: item.attempt }
        return attempt(
          'mail',
          about,
          isLast,
          sent.then(() => undefined),
        )
      }),
    addPages(pages, site) {
      pages.get(PLACES.forgot, ctx => forgot(ctx, site))
      pages.post(PLACES.forgot, ctx => forgot(ctx, site))
    },
  }

  /** The account of a typed name, if a link can be sent safely, and none was a moment ago. */
  async function forgetful({ typed = '', attempt }: Mail & { attempt: number }) {
    const name = tidy(typed).normalize('NFC')
    const { known } = await directory.candidate(isUsername(name) ? name : '', ['email'])
    const account = known && (await directory.find(known.id))
    const { email, email_verified, password, links: upstreams = [] } = account ?? {}
    const isSafe = email !== undefined && email_verified && (password || !upstreams.length)
    if (!account || !isSafe || (await directory.findByEmail(email)).length > 1) return undefined
    if (attempt > 1) return account
    // One of several forms within the pause gets a mail.
    const begin = ({ value: last }: Found<{ at: number }>) =>
      last && last.at > now() - PAUSE_SECONDS ? undefined : { at: now() }
    const options = { ttl: PAUSE_SECONDS }
    const { isWritten } = await records.change('ForgotPause', account.id, begin, options)
    return isWritten ? account : undefined
  }

  /** The page, and its form: the same for every name. */
  async function forgot(ctx: Context, { csrf }: Site) {
    const subject = `forgot ${createBrowserBinding(settings).bind(ctx).browser}`
    ctx.state.csrf = csrf.token(subject)
    if (ctx.method !== 'POST') return views.page(ctx, 'forgot', { isSent: false })
    const form = await readForm(ctx)
    csrf.check(ctx, form, subject)
    const network = `forgot network ${networkOf(ctx.ip)}`
    const isInTime = await createRateLimit(records).count([[network, OF_NETWORK]])
    if (!isInTime) return ctx.throw(429, 'too many links were requested from this network')
    const typed = form.value('username').slice(0, 256)
    await queue.enqueue({ id: randomUUID(), typed, lang: views.words(ctx).lang })
    views.page(ctx, 'forgot', { isSent: true })
  }
}
