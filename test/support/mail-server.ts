// A real SMTP server on loopback, which keeps the mails that it accepts.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'

export interface Received {
  from: string
  to: string
  /** As it was sent, with soft line breaks removed. */
  content: string
  /** Whether the connection had TLS. */
  isEncrypted: boolean
}

export type MailServer = Awaited<ReturnType<typeof startMailServer>>

/** Starts the server. Its user is `usher` with the password `letters`. Without `options` it has no TLS. */
export async function startMailServer(options: SMTPServerOptions = {}) {
  const state = {
    received: [] as Received[],
    /** The answer to the next mails; absent: accepted. */
    refusal: undefined as { responseCode: number } | undefined,
    /** How often a password was sent. */
    attempts: 0,
  }
  const server = new SMTPServer({
    disabledCommands: ['STARTTLS'],
    allowInsecureAuth: true,
    ...options,
    onAuth({ username, password }, _session, done) {
      state.attempts++
      if (username === 'usher' && password === 'letters') return done(null, { user: username })
      done(new Error('wrong'))
    },
    async onData(stream, { envelope, secure: isEncrypted }, done) {
      const content = (await text(stream)).replaceAll('=\r\n', '').replaceAll('=3D', '=')
      if (state.refusal) return done(Object.assign(new Error('not now'), state.refusal))
      const to = envelope.rcptTo.map(({ address }) => address).join()
      const from = envelope.mailFrom ? envelope.mailFrom.address : ''
      state.received.push({ from, to, content, isEncrypted })
      done()
    },
  })
  server.on('error', () => {})
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.server.address() as AddressInfo
  const folder = mkdtempSync(join(tmpdir(), 'usher-mail-server-'))
  const passwordFile = join(folder, 'password')
  writeFileSync(passwordFile, 'letters\n')
  return {
    state,
    port,
    passwordFile,
    async close() {
      rmSync(folder, { recursive: true })
      await new Promise<void>(resolve => server.close(() => resolve()))
    },
  }
}

/** The path of the link in a mail. */
export const linkIn = ({ content }: Received) =>
  /http\S+(\/welcome\/[\w-]{65})/.exec(content)?.[1] ?? ''
