// A real SMTP server on loopback, which keeps the mails that it accepts.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import { listen } from './ports.ts'
import type { Usher } from './usher.ts'

export interface Received {
  from: string
  to: string
  /** As it was sent, with its parts decoded. */
  content: string
  /** As it was sent. */
  raw: string
  /** Whether the connection had TLS. */
  isEncrypted: boolean
}

export type MailServer = Awaited<ReturnType<typeof startMailServer>>

/** Starts the server. Its user is `usher` with the password `letters`. Without `options` it has no TLS. */
export async function startMailServer(options: SMTPServerOptions = {}) {
  const state = {
    received: [] as Received[],
    /** Mails that were refused after their content. */
    refused: [] as Received[],
    /** The answer to the next mails; absent: accepted. */
    refusal: undefined as { responseCode: number; message?: string } | undefined,
    /** The command that gets the `refusal`. */
    refusedAt: 'DATA' as 'MAIL FROM' | 'RCPT TO' | 'DATA',
    /** Time before the answer to a message. */
    delayMs: 0,
    /** Keeps the answer to a message back until the promise resolves. */
    isHeld: undefined as ((to: string) => Promise<void> | undefined) | undefined,
    /** The names in the EHLO of the clients. */
    names: [] as string[],
    /** How often a password was sent. */
    attempts: 0,
  }
  const refusalAt = (command: typeof state.refusedAt) =>
    state.refusal && state.refusedAt === command
      ? Object.assign(new Error(state.refusal.message ?? 'not now'), state.refusal)
      : null
  const server = new SMTPServer({
    onMailFrom(_address, { hostNameAppearsAs }, done) {
      state.names.push(hostNameAppearsAs)
      done(refusalAt('MAIL FROM'))
    },
    onRcptTo: (_address, _session, done) => done(refusalAt('RCPT TO')),
    disabledCommands: ['STARTTLS'],
    allowInsecureAuth: true,
    ...options,
    onAuth({ username, password }, _session, done) {
      state.attempts++
      if (username === 'usher' && password === 'letters') return done(null, { user: username })
      done(new Error('wrong'))
    },
    async onData(stream, { envelope, secure: isEncrypted }, done) {
      const raw = await text(stream)
      const content = decoded(raw)
      const to = envelope.rcptTo.map(({ address }) => address).join()
      await state.isHeld?.(to)
      await setTimeout(state.delayMs)
      const refusal = refusalAt('DATA')
      const from = envelope.mailFrom ? envelope.mailFrom.address : ''
      const mail = { from, to, content, raw, isEncrypted }
      if (refusal) {
        state.refused.push(mail)
        return done(refusal)
      }
      state.received.push(mail)
      done()
    },
  })
  server.on('error', () => {})
  const port = await listen(server.server)
  const folder = mkdtempSync(join(tmpdir(), 'usher-mail-server-'))
  const passwordFile = join(folder, 'password')
  writeFileSync(passwordFile, 'letters\n')
  return {
    state,
    port,
    passwordFile,
    /** `mail` of usher.yaml for a server without a password. */
    settings: { from: 'id@example.org', smtp: { host: '127.0.0.1', port, tls: 'none' as const } },
    /** Returns the mails that the queue of an Usher sends now. */
    async sentBy(usher: Pick<Usher, 'deliver'>): Promise<Received[]> {
      state.received = []
      await usher.deliver('new')
      return state.received
    },
    async close() {
      rmSync(folder, { recursive: true })
      await new Promise<void>(resolve => server.close(() => resolve()))
    },
  }
}

/** Returns a mail with its parts as text. */
const decoded = (raw: string) =>
  raw.replaceAll(
    /(Content-Transfer-Encoding: base64\r\n\r\n)([\w+/=\r\n]+)/g,
    (_, header: string, body: string) => `${header}${Buffer.from(body, 'base64').toString()}\r\n`,
  )

/** The path of the link in a mail. */
export const linkIn = ({ content }: Received) =>
  /http\S+(\/welcome\/[\w-]{65})/.exec(content)?.[1] ?? ''
