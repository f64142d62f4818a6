// SMTP servers that answer late, and a service that dies while one has the message.

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { SMTPServerOptions } from 'smtp-server'
import { expect, test } from 'vitest'
import { createMailQueues, type Mail, queueLink } from '../../src/account/mail-queue.ts'
import { openInstallation } from '../../src/store/open.ts'
import { directoryIn } from '../support/directory.ts'
import { temporaryFolder } from '../support/folder.ts'
import { linkIn, startMailServer } from '../support/mail-server.ts'
import { startService } from '../support/service.ts'
import { ADA, startUsher, writeConfig } from '../support/usher.ts'

const folder = temporaryFolder()
/** Longer than ten seconds, after which many clients give up. */
const LATE_MS = 12_000

type Cleanup = (end: () => Promise<void> | void) => void
async function serve(onTestFinished: Cleanup, options: SMTPServerOptions = {}) {
  const server = await startMailServer({ authOptional: true, ...options })
  onTestFinished(() => server.close())
  return server
}
const late = (done: () => void) => void setTimeout(LATE_MS).then(done)
const LATE: Record<string, SMTPServerOptions> = {
  greeting: { onConnect: (_session, done) => late(done) },
  'RCPT TO': { onRcptTo: (_address, _session, done) => late(done) },
}

test.concurrent.for([...Object.keys(LATE), 'message'])(
  'a server that answers the %s after twelve seconds gets each mail once',
  { timeout: 60_000 },
  async (what, { onTestFinished }) => {
    const server = await serve(onTestFinished, LATE[what])
    if (what === 'message') server.state.delayMs = LATE_MS
    const usher = await startUsher({ usher: { mail: server.settings } })
    onTestFinished(() => usher.close())
    const account = await usher.addAccount(ADA)
    await queueLink(usher.settings, usher.mails, account, { lang: 'en' })
    // Another round begins meanwhile.
    const first = usher.deliver('new')
    await setTimeout(LATE_MS / 2)
    await Promise.all([first, usher.deliver('new')])
    await usher.deliver('again')
    expect(server.state.received).toHaveLength(1)
    expect(usher.output.join('')).toContain('"event":"mail_delivered"')
  },
)

test('forms of strangers and a slow server do not delay the notices of users', {
  timeout: 60_000,
}, async ({ onTestFinished }) => {
  const server = await serve(onTestFinished)
  const sign_up = { email_domains: ['flood.example'] }
  const usher = await startUsher({ usher: { mail: server.settings, sign_up } })
  onTestFinished(() => usher.close())
  const { id } = await usher.addAccount(ADA)
  const { promise, resolve } = Promise.withResolvers<void>()
  server.state.isHeld = to => (to.endsWith('@flood.example') ? promise : undefined)
  const queues = usher.mails
  for (let i = 0; i < 300; i++) await queues.enqueue({ newcomer: `a${i}@flood.example` })
  const flood = usher.deliver('new')
  const changes: ['password_changed'] = ['password_changed']
  const notice = { changes, to: ADA.email, isVerified: true, at: 0 }
  await queues.enqueue({ account: id, notice })
  const round = usher.deliver('new')
  await expect.poll(() => server.state.received.map(({ to }) => to)).toEqual([ADA.email])
  resolve()
  await Promise.all([flood, round])
})

/** A mail of each kind, for an account whose address is `NAME@example.org`. */
const MAILS: Record<string, (account: string) => Partial<Mail>> = {
  forgotten: () => ({ typed: 'forgotten' }),
  unconfirmed: () => ({ typed: 'unconfirmed@example.org' }),
  newcomer: () => ({ newcomer: 'newcomer@example.org' }),
  invited: account => ({ account }),
  moving: account => ({ account, address: 'moving@example.org' }),
  changed: account => ({
    account,
    notice: { changes: ['password_changed'], to: 'changed@example.org', at: 0 },
  }),
}
const NAMES = Object.keys(MAILS)
const RECEIVERS = NAMES.map(name => `${name}@example.org`).toSorted()

test('mails are sent again, with the same links, if the service dies while the server has them', {
  timeout: 120_000,
}, async ({ onTestFinished }) => {
  const server = await serve(onTestFinished)
  const config = join(folder, 'config')
  mkdirSync(config)
  const sign_up = { email_domains: ['example.org'] }
  writeConfig(config, { usher: { mail: server.settings, sign_up } })
  const location = `sqlite:${join(folder, 'usher.db')}`
  const secret = Buffer.alloc(32, 'crash')
  const { records, store } = await openInstallation(location, [secret])
  const directory = directoryIn(records)
  for (const name of NAMES) {
    const profile = { username: name, email_verified: name === 'forgotten' }
    const email = `${name}@example.org`
    const hasAccount = name !== 'newcomer'
    const account = hasAccount ? await directory.add({ ...profile, email }) : undefined
    await createMailQueues(records).enqueue(MAILS[name]?.(account?.id ?? '') ?? {})
  }
  await store.close()

  const { promise: isOver, resolve: end } = Promise.withResolvers<void>()
  const held: string[] = []
  server.state.isHeld = to => {
    held.push(to)
    return isOver
  }
  const env = {
    USHER_CONFIG: config,
    USHER_STORE: location,
    USHER_SECRET: secret.toString('base64url'),
  }
  const first = await startService(env)
  await expect.poll(() => held.toSorted(), { timeout: 30_000 }).toEqual(RECEIVERS)
  first.child.kill('SIGKILL')
  server.state.isHeld = undefined
  const second = await startService(env)
  onTestFinished(async () => void (await second.stop()))
  const receivers = () => server.state.received.map(({ to }) => to).toSorted()
  await expect.poll(receivers, { timeout: 60_000 }).toEqual(RECEIVERS)
  end()
  await expect.poll(receivers, { timeout: 30_000 }).toHaveLength(2 * RECEIVERS.length)
  const links = new Set(server.state.received.map(linkIn))
  // Two mails have no link.
  expect(links.size).toBe(RECEIVERS.length - 1)
})
