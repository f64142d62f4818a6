// The SMTP client: its time limits, and what an answer of the server means for
// a mail.

import { readFileSync } from 'node:fs'
import { domainToASCII } from 'node:url'
import type { SendMailOptions } from 'nodemailer'
import type { Settings } from '../../config/load.ts'
import { type Check, ok, wrong } from '../../store/store.ts'

type MailSettings = NonNullable<Settings['mail']>
type TimeLimits = {
  connectionTimeout: number
  greetingTimeout: number
  socketTimeout: number
}

const MINUTE_MS = 60_000
/**
 * RFC 5321 §4.5.3.2: five minutes for the greeting, and ten for the answer to
 * the message. With a shorter limit, a server that is slow accepts a mail that
 * is then sent again. The library counts the greeting as part of the
 * connection.
 */
const TIME_LIMITS: TimeLimits = {
  connectionTimeout: 6 * MINUTE_MS,
  greetingTimeout: 5 * MINUTE_MS,
  socketTimeout: 10 * MINUTE_MS,
}
/** An operator waits for the result of `usher doctor`. */
const CHECK_TIME_LIMITS: TimeLimits = {
  connectionTimeout: MINUTE_MS,
  greetingTimeout: MINUTE_MS,
  socketTimeout: MINUTE_MS,
}

/**
 * The server refused a mail, or did not answer. `isFinal`: another attempt
 * would be refused, too.
 */
class SmtpFailure extends Error {
  override name = 'SmtpFailure'
  readonly isFinal: boolean

  constructor(message: string, isFinal = false) {
    super(message)
    this.isFinal = isFinal
  }
}

/** Returns the SMTP client. Its library is loaded only where `mail` is set. */
async function createClient({ from, smtp }: MailSettings, limits: TimeLimits) {
  const { host, port, username, password_file, tls, ehlo } = smtp
  const { createTransport } = await import('nodemailer')
  const pass = password_file && readFileSync(password_file, 'utf8').trim()
  const [, domain = ''] = from.split('@')
  return createTransport({
    host,
    port,
    name: ehlo ?? domainToASCII(domain),
    ...(username && { auth: { user: username, pass } }),
    secure: tls === 'implicit',
    requireTLS: tls === 'starttls',
    ignoreTLS: tls === 'none',
    ...limits,
  })
}

/** A message without its receiver. */
export type Message = Omit<SendMailOptions, 'to'>

/**
 * Characters of quoted local parts (RFC 5322 §3.2.4). The library replaces them
 * by a space: that is another mailbox.
 */
const REPLACED = /[<>]/

/**
 * Sends a message to one receiver. Rejects with an error whose `isFinal` says
 * whether to try again.
 */
export async function sendMessage(
  mail: MailSettings,
  to: string,
  message: Message,
): Promise<void> {
  if (REPLACED.test(to))
    throw new SmtpFailure('the address cannot be sent to', true)
  const client = await createClient(mail, TIME_LIMITS)
  await client
    .sendMail({ ...message, to: { name: '', address: to } })
    .catch(error => {
      throw failureOf(error, to)
    })
}

/**
 * Connects to the SMTP server, and signs in. `fix`: the remedy, for operators.
 */
export async function checkMail(
  mail: MailSettings,
  fix: string,
): Promise<Check> {
  const { host } = mail.smtp
  try {
    const client = await createClient(mail, CHECK_TIME_LIMITS)
    await client.verify()
    return ok('mail', `${host} accepts the connection`)
  } catch (error) {
    return wrong(
      'mail',
      `${host}: ${failureOf(error as SmtpError).message}`,
      fix,
    )
  }
}

/** An error of the library. `command`: the last one that was sent. */
type SmtpError = Error & {
  command?: string
  responseCode?: number
  response?: string
}

/**
 * Commands about this mail. Answers to others are about the connection, which
 * an operator can repair.
 */
const OF_MAIL = ['MAIL FROM', 'RCPT TO', 'DATA']
/** RFC 4954 §6: the server demands a sign-in, or another one. */
const OF_AUTHENTICATION = [530, 534, 535, 538]

/**
 * Returns the failure with its reason for the log. `to`: the receiver, whose
 * address is left out.
 */
function failureOf(
  { command = '', responseCode = 0, response, message }: SmtpError,
  to = '',
) {
  if (!responseCode) return new SmtpFailure(withoutSecrets(message, to))
  // RFC 5321 §4.2.1: 5yz is permanent.
  const isPermanent =
    responseCode >= 500 && !OF_AUTHENTICATION.includes(responseCode)
  const words = withoutSecrets(String(response).slice(3), to)
  const reason = `SMTP ${responseCode} after ${command}: ${words}`
  return new SmtpFailure(reason, isPermanent && OF_MAIL.includes(command))
}

const MAX_REASON_CHARS = 300
const ADDRESS = /[^\s<>()",:;]+@[^\s<>()",;]+/g
const TOKEN = /[\w-]{43,}/g

/** The words of a server may repeat the address, and the link of the mail. */
function withoutSecrets(text: string, to: string): string {
  const [local = ''] = to.split('@')
  const name = local
    ? new RegExp(`(?<!\\w)${RegExp.escape(local)}(?!\\w)`, 'gi')
    : /$^/
  return text
    .replace(/[\s\p{C}]+/gu, ' ')
    .replace(ADDRESS, '…')
    .replace(name, '…')
    .replace(TOKEN, '…')
    .trim()
    .slice(0, MAX_REASON_CHARS)
}
