// Mail by SMTP servers with TLS: STARTTLS and implicit TLS, with certificates of an authority of this test.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { queueLink } from '../../src/account/mail-queue.ts'
import { checkMail } from '../../src/features/mail/smtp.ts'
import { type Made, makeCertificate } from '../support/certificates.ts'
import { run } from '../support/command.ts'
import { temporaryFolder } from '../support/folder.ts'
import { type MailServer, startMailServer } from '../support/mail-server.ts'
import { ADA, startUsher } from '../support/usher.ts'

const folder = temporaryFolder()
const LOOPBACK = ['subjectAltName=IP:127.0.0.1']
const trusted = getCACertificates('default')
let authority: Made
/** Certificates by name: of the authority, of another one, and of another host. */
let certificates: Record<string, Made>
const open: MailServer[] = []

beforeAll(() => {
  const extensions = ['basicConstraints=critical,CA:TRUE']
  authority = makeCertificate(folder, 'authority', { extensions })
  const stranger = makeCertificate(folder, 'stranger', { extensions })
  const make = (name: string, issuer: Made, extensions = LOOPBACK) =>
    makeCertificate(folder, name, { issuer, extensions })
  certificates = {
    right: make('right', authority),
    untrusted: make('untrusted', stranger),
    'of another host': make('other', authority, ['subjectAltName=DNS:smtp.example.org']),
  }
  setDefaultCACertificates([...trusted, authority.pem])
})
afterAll(() => {
  setDefaultCACertificates(trusted)
})
afterEach(async () => {
  for (const server of open.splice(0)) await server.close()
})

type Offered = 'starttls' | 'implicit'

/** Starts a server with TLS. It accepts the password on an encrypted connection only. */
async function serve(offered: Offered, certificate = 'right') {
  const { cert, key } = certificates[certificate] ?? authority
  const files = { cert: readFileSync(cert), key: readFileSync(key) }
  const options = {
    secure: offered === 'implicit',
    disabledCommands: [],
    allowInsecureAuth: false,
    // A client that does not begin TLS waits for a greeting, for minutes.
    socketTimeout: 5000,
  }
  const server = await startMailServer({ ...options, ...files })
  open.push(server)
  return server
}

/** The settings for a server: its port, and the password in a file of its own. */
function mailTo({ port, passwordFile }: MailServer, tls: Offered | 'none') {
  const smtp = { host: '127.0.0.1', port, username: 'usher', password_file: passwordFile, tls }
  return { from: 'id@example.org', smtp }
}

/** Sends an invitation, and returns the reason in the log if it is not delivered. */
async function invite(mail: ReturnType<typeof mailTo>) {
  const usher = await startUsher({ usher: { mail } })
  try {
    const account = await usher.addAccount(ADA)
    await queueLink(usher.settings, usher.mails, account, { lang: 'en' })
    await usher.deliver('new')
    const line = usher.output.find(one => /"event":"mail_(delivered|failed)"/.test(one)) ?? '{}'
    return JSON.parse(line) as { event?: string; reason?: string }
  } finally {
    await usher.close()
  }
}

test.each(['starttls', 'implicit'] as const)('mail is delivered with %s, encrypted', async tls => {
  const server = await serve(tls)
  const mail = mailTo(server, tls)
  expect(await invite(mail)).toMatchObject({ event: 'mail_delivered' })
  expect(server.state.received).toMatchObject([{ to: ADA.email, isEncrypted: true }])
  expect(await checkMail(mail, 'the fix')).toMatchObject({ state: 'ok' })
})

const REFUSED: [tls: Offered, certificate: string][] = [
  ['starttls', 'untrusted'],
  ['starttls', 'of another host'],
  ['implicit', 'untrusted'],
]
test.each(REFUSED)(
  'with %s, a certificate that is %s gets no mail and no password',
  async (tls, certificate) => {
    const server = await serve(tls, certificate)
    const mail = mailTo(server, tls)
    const { event, reason } = await invite(mail)
    expect(event).toBe('mail_failed')
    expect(reason).toMatch(/certificate|altnames/)
    expect(await checkMail(mail, 'the fix')).toMatchObject({ state: 'wrong', fix: 'the fix' })
    expect(server.state).toMatchObject({ received: [], attempts: 0 })
  },
)

test.each([
  ['starttls', 'implicit'],
  ['implicit', 'starttls'],
] as const)(
  'a server with %s gets no mail where %s is set',
  { timeout: 60_000 },
  async (offered, tls) => {
    const server = await serve(offered)
    const { event } = await invite(mailTo(server, tls))
    expect(event).toBe('mail_failed')
    expect(server.state).toMatchObject({ received: [], attempts: 0 })
  },
)

test('a server that offers STARTTLS gets no password where tls is none', async () => {
  const server = await serve('starttls')
  expect(await invite(mailTo(server, 'none'))).toMatchObject({ event: 'mail_failed' })
  expect(server.state.received).toEqual([])
})

test.each([
  ['with', 'accepts the connection'],
  ['without', 'certificate'],
])(
  'doctor connects %s the authority in NODE_EXTRA_CA_CERTS',
  { timeout: 60_000 },
  async (how, found) => {
    const server = await serve('starttls')
    const usher = await startUsher({ usher: { mail: mailTo(server, 'starttls') } })
    const env = {
      USHER_CONFIG: usher.settings.folder,
      USHER_STORE: `sqlite:${join(folder, `${how}.db`)}`,
      ...(how === 'with' && { NODE_EXTRA_CA_CERTS: authority.cert }),
    }
    // A process: Node reads the variable when it starts.
    const { stdout } = await run(['src/cli.ts', 'doctor'], env)
    await usher.close()
    expect(stdout.split('\n').find(line => / mail/.test(line))).toMatch(new RegExp(found))
  },
)
