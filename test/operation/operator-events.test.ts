import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { recentActivity } from '../../src/account/activity.ts'
import type { AuditEvent } from '../../src/operation/audit.ts'
import { queueAuditEvent, takeAuditEvents } from '../../src/operation/operator-events.ts'
import { openInstallation } from '../../src/store/open.ts'
import { runUsher } from '../support/command.ts'
import { temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/ports.ts'
import { type Service, startService } from '../support/service.ts'

const folder = temporaryFolder()
const store = `sqlite:${join(folder, 'usher.db')}`
const USHER_SECRET = Buffer.alloc(32, 'operator').toString('base64url')
let service: Service
/** The port of the metrics. */
const port = await freePort()
const start = () =>
  startService({ USHER_STORE: store, USHER_SECRET, USHER_METRICS_PORT: String(port) })
beforeAll(async () => {
  service = await start()
})
afterAll(() => service.stop())

async function usher(...args: string[]): Promise<string> {
  const { stdout, stderr, code } = await runUsher(args, service.env)
  if (code !== 0) throw new Error(stderr)
  return stdout
}
const operatorEvents = () => service.log().filter(({ log, by }) => log === 'audit' && by)
const names = () => operatorEvents().map(({ event }) => event)

/** The states of the keys for RS256 in the metrics, and the time of the next change. */
async function keyMetrics() {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  const lines = text.matchAll(/^usher_signing_keys\{alg="RS256",state="(\w+)"\} 1$/gm)
  const change = /^usher_signing_keys_change_timestamp_seconds (\S+)$/m.exec(text)?.[1]
  return { states: [...lines].map(([, state]) => state), change: Number(change) }
}

test('a running node logs an operator command once, without a name, and its metrics show rotated keys', async () => {
  const account = (await usher('accounts', 'add', '--username', 'ada.lovelace')).trim()
  await usher('accounts', 'disable', 'ada.lovelace')
  expect(await keyMetrics()).toEqual({ states: ['current'], change: 0 })
  const rotated: { keys: { state: string; from: number }[] } = JSON.parse(
    await usher('keys', 'rotate', '--json'),
  )
  const [first, second, third] = ['account_added', 'account_disabled', 'keys_rotated']
  await expect.poll(names).toEqual([first, second, third])
  expect(operatorEvents()[0]).toMatchObject({
    account,
    by: expect.any(String),
    at: expect.any(String),
  })
  expect(operatorEvents()[1]).toMatchObject({ account })
  await expect.poll(service.stdout).toContain('"log":"audit","event":"keys_changed"')
  expect(service.stdout()).not.toContain('lovelace')
  const next = rotated.keys.filter(({ state }) => state === 'next').map(({ from }) => from)
  const metrics = { states: ['current', 'next'], change: Math.min(...next) }
  await expect.poll(keyMetrics).toEqual(metrics)
})

test('a command that ran while the service was stopped is logged at its next start, and is in the activity of the user', async () => {
  await service.stop()
  await usher('accounts', 'enable', 'ada.lovelace')
  await usher('accounts', 'password', 'ada.lovelace')
  const { id } = JSON.parse(await usher('accounts', 'show', 'ada.lovelace', '--json'))
  await usher('store', 'reseal')
  const secret = Buffer.alloc(32, 'operator')
  const { records, store: opened } = await openInstallation(store, [secret])
  expect(await recentActivity(records, id)).toMatchObject([{ event: 'password_set' }])
  await opened.close()
  service = await start()
  await expect.poll(names).toEqual(['account_enabled', 'password_set', 'store_resealed'])
})

test('an event is removed after it was logged: a node that dies before is followed by another', async () => {
  const { records, store: opened } = await openInstallation('sqlite::memory:', [])
  await queueAuditEvent(records, 'account_changed', { account: 'usr_1' })
  const logged: AuditEvent[] = []
  const write = (event: AuditEvent) => logged.push(event)
  const flush = () => Promise.reject(new Error('the node dies'))
  await expect(takeAuditEvents(records, write, { flush })).rejects.toThrow('the node dies')
  await takeAuditEvents(records, write)
  expect(logged).toHaveLength(1)
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 60_000 })
  await takeAuditEvents(records, write)
  await takeAuditEvents(records, write)
  vi.useRealTimers()
  expect(logged).toHaveLength(2)
  expect(logged[1]).toEqual(logged[0])
  expect(logged[0]).not.toHaveProperty('due')
  await opened.close()
})

test('an event that cannot be decrypted is reported, stays, and does not stop the others', async () => {
  const path = `sqlite:${join(folder, 'damaged.db')}`
  const { records, store: opened } = await openInstallation(path, [Buffer.alloc(32, 'operator')])
  for (const account of ['usr_1', 'usr_2', 'usr_3']) {
    await queueAuditEvent(records, 'account_changed', { account })
  }
  const entries = await Array.fromAsync(opened.scan())
  const { key = '', value, version } = entries.find(({ indexes }) => indexes) ?? {}
  value?.fill(0, -16)
  await opened.write({ key, value: value ?? new Uint8Array(), version: version ?? 0 })
  const logged: AuditEvent[] = []
  const reports: string[] = []
  const unreadable = (...about: string[]) => reports.push(about.join(': '))
  await takeAuditEvents(records, event => logged.push(event), { unreadable })
  expect(logged).toHaveLength(2)
  expect(reports).toEqual([`${key}: a record in the store was changed by someone else`])
  expect((await opened.get(key))?.value).toBeDefined()
  await opened.close()
})

test('only one of several nodes logs each command', async () => {
  const { records, store: opened } = await openInstallation('sqlite::memory:', [])
  for (let i = 0; i < 20; i++)
    await queueAuditEvent(records, 'account_changed', { account: `usr_${i}` })
  const operatorEvents: AuditEvent[] = []
  const node = () => takeAuditEvents(records, fact => operatorEvents.push(fact))
  await Promise.all([node(), node(), node()])
  await node()
  expect(operatorEvents.map(({ account }) => account).toSorted()).toEqual(
    Array.from({ length: 20 }, (_, i) => `usr_${i}`).toSorted(),
  )
  await opened.close()
})
