// Stores that former versions wrote (`npm run former-stores`): this version reads them, and their users and
// clients notice nothing. The clock of this process is that of the store, a minute later: today its tokens would have expired.

import { copyFileSync, globSync, mkdtempSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { Redis } from 'ioredis'
import { afterEach, describe, expect, test, vi } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { copyStore } from '../../src/commands/store.ts'
import { openRecord } from '../../src/store/records.ts'
import { createSeal } from '../../src/store/seal.ts'
import { runUsher } from '../support/command.ts'
import { atFactor, codeOf, factorsOf } from '../support/factors.ts'
import { temporaryFolder } from '../support/folder.ts'
import { refresh, tokens, userinfo } from '../support/journey.ts'
import { isSignedIn } from '../support/people.ts'
import { freePort } from '../support/ports.ts'
import { openPatientStore, startRedis } from '../support/redis.ts'
import { manage } from '../support/registration.ts'
import { GRACE, startUsher, type Usher } from '../support/usher.ts'
import { type Facts, type RedisKey, USHER_OPTIONS, USHER_SECRET } from './former/facts.ts'

const FORMER = globSync(join(import.meta.dirname, 'former/*/facts.jsonl')).map(dirname)
const folder = temporaryFolder()
afterEach(() => {
  vi.useRealTimers()
})

/** The kinds of records that a backup has. */
const IN_BACKUP = [
  'Account',
  'Client',
  'Consent',
  'Factors',
  'PasskeyHost',
  'RegistrationAccessToken',
  'Username',
]
/** Those of the other records that outlive an hour. */
const OTHERS = ['Grant', 'RefreshToken', 'Session', 'SigningKeys']

test('there is a store of this minor version', () => {
  const [major, minor] = packageJson.version.split('.')
  expect(FORMER.map(path => basename(path))).toContain(`${major}.${minor}.0`)
})

describe.each(FORMER)('%s', path => {
  const facts: Facts = JSON.parse(readFileSync(join(path, 'facts.jsonl'), 'utf8'))
  const start = (store: string) => startUsher({ ...USHER_OPTIONS, store, env: { USHER_SECRET } })
  const newFile = () => join(mkdtempSync(join(folder, 'store-')), 'usher.db')
  const turnBack = (minutes = 1) => {
    vi.useFakeTimers({ toFake: ['Date'], now: (facts.made + minutes * 60) * 1000 })
  }

  test('a SQLite file', async () => {
    turnBack()
    const file = newFile()
    copyFileSync(join(path, 'usher.db'), file)
    expect(await kindsIn(`sqlite:${file}`)).toEqual(
      expect.arrayContaining([...IN_BACKUP, ...OTHERS]),
    )
    const usher = await start(`sqlite:${file}`)
    await noticeNothing(usher, facts)
    await useTokens(usher, facts)
    await usher.close()
  })

  // Redis has a clock of its own, in which everything would have expired. So the store is copied to a file.
  test('Redis', async () => {
    const server = await startRedis({ port: await freePort() })
    await load(server.url, readFileSync(join(path, 'redis.jsonl'), 'utf8'))
    turnBack()
    const location = `sqlite:${newFile()}`
    const source = await openPatientStore(server.url)
    const target = await openPatientStore(location)
    await copyStore(source, target)
    await Promise.all([source.close(), target.close()])
    await server.stop()
    const usher = await start(location)
    await noticeNothing(usher, facts)
    await useTokens(usher, facts)
    await usher.close()
  })

  test('a backup file', async () => {
    turnBack()
    const location = `sqlite:${newFile()}`
    const env = { USHER_SECRET, USHER_STORE: location }
    const { code, stderr } = await runUsher(['store', 'restore', join(path, 'backup.jsonl')], env)
    expect(code, stderr).toBe(0)
    // After a restore, one-time codes of that moment are refused.
    turnBack(3)
    expect(await kindsIn(location)).toEqual(expect.arrayContaining(IN_BACKUP))
    const usher = await start(location)
    await noticeNothing(usher, facts)
    await usher.close()
  })
})

/** Accounts, factors, consents and registered clients are as before. */
async function noticeNothing(usher: Usher, { accounts, app, client }: Facts) {
  const { browser } = await atFactor(usher, 'ada')
  await browser.submit({ code: codeOf(app, 1) })
  expect(await isSignedIn(browser)).toBe(true)
  const [passkey] = (await factorsOf(usher, accounts.grace)).factors
  expect(passkey).toMatchObject({ type: 'passkey', host: 'localhost' })
  expect((await usher.directory.find(accounts.grace))?.email).toBe(GRACE.email)
  expect(await usher.consents.find(accounts.alan, 'web')).toMatchObject({ client_id: 'web' })
  const again = await tokens(usher, { username: 'alan' })
  expect((await userinfo(usher, again.access_token)).body.sub).toBe(accounts.alan)
  expect((await manage(usher, client)).json).toMatchObject({ client_id: client.client_id })
}

/** Recovery codes, tokens and signing keys, which a backup leaves out. */
async function useTokens(usher: Usher, { accounts, recovery, keys, ...held }: Facts) {
  expect((await userinfo(usher, held.access_token)).body.sub).toBe(accounts.alan)
  const { body } = await refresh(usher, held.refresh_token)
  expect((await userinfo(usher, body.access_token)).body.sub).toBe(accounts.alan)
  const { browser } = await atFactor(usher, 'ada')
  await browser.submit({ code: '', recovery })
  expect(await isSignedIn(browser)).toBe(true)
  const published = await (await fetch(`${usher.issuer}/api/oauth/jwks`)).json()
  expect(published).toMatchObject({ keys: keys.map(kid => ({ kid })) })
}

/** The kinds of all records, in the order of the alphabet. */
async function kindsIn(location: string): Promise<string[]> {
  const store = await openPatientStore(location)
  const seal = createSeal([Buffer.from(USHER_SECRET, 'base64url')])
  const kinds = new Set<string>()
  for await (const entry of store.scan()) {
    const record = openRecord(seal, entry)
    if (record) kinds.add(record.kind)
  }
  await store.close()
  return [...kinds].toSorted()
}

/** Writes the lines of redis.jsonl. Keys have as much time left as they had. */
async function load(url: string, lines: string) {
  const redis = new Redis(url)
  for (const line of lines.trim().split('\n')) {
    const { name, ttl, value, members = [] }: RedisKey = JSON.parse(line)
    if (value !== undefined) await redis.set(name, Buffer.from(value, 'base64'))
    const pairs = members.flatMap((member, i) => (i % 2 ? [] : [members[i + 1] ?? '', member]))
    if (pairs.length) await redis.zadd(name, ...pairs)
    if (ttl >= 0) await redis.expire(name, Math.max(ttl, 60))
  }
  redis.disconnect()
}
