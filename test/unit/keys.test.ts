// The signing keys: their algorithms, their storage, their publication and their rotation.

import { createPublicKey } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { calculateJwkThumbprint } from 'jose'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import {
  createSigningKeys,
  type KeyRules,
  makeKey,
  type SigningKey,
} from '../../src/keys/signing-keys.ts'
import { type Installation, openInstallation } from '../../src/storage/open.ts'
import type { Records } from '../../src/storage/records.ts'
import { startUsher, type Usher } from '../support/usher.ts'

const folder = mkdtempSync(join(tmpdir(), 'usher-keys-'))
const STORE = `sqlite:${folder}/usher.db`
const PRIVATE = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv']

const DAY = 24 * 3600
const RULES: KeyRules = {
  rotate_every: 90 * DAY,
  announce: DAY,
  retain: 30 * DAY,
  wanted: [],
  imported: [],
}
const loadSigningKeys = (records: Records) => createSigningKeys(records, RULES).load()

let first: Installation
let second: Installation
let keys: SigningKey[]
let others: SigningKey[]
let usher: Usher
beforeAll(async () => {
  first = await openInstallation(STORE, [])
  second = await openInstallation(STORE, [])
  const [mine, theirs, started] = await Promise.all([
    loadSigningKeys(first.records),
    loadSigningKeys(second.records),
    startUsher(),
  ])
  keys = mine
  others = theirs
  usher = started
})
afterAll(async () => {
  await Promise.all([usher.close(), first.store.close(), second.store.close()])
  rmSync(folder, { recursive: true, force: true })
})

test('there is a key for each algorithm, RS256 first', () => {
  expect(keys.map(({ alg, use }) => [alg, use])).toEqual([
    ['RS256', 'sig'],
    ['ES256', 'sig'],
    ['EdDSA', 'sig'],
  ])
})

test('a generated RSA key has 2048 bits, EC is P-256, EdDSA is Ed25519', () => {
  const [rsa, ec, ed] = keys
  if (!rsa || !ec || !ed) throw new Error('a key is missing')
  const publicKey = createPublicKey({ key: rsa, format: 'jwk' })
  expect(publicKey.asymmetricKeyDetails?.modulusLength).toBe(2048)
  expect(rsa.e).toBe('AQAB')
  expect(ec).toMatchObject({ kty: 'EC', crv: 'P-256' })
  expect(ed).toMatchObject({ kty: 'OKP', crv: 'Ed25519' })
})

test('kid is the RFC 7638 thumbprint of the public key, and unique', async () => {
  for (const { kid, alg, use, d, p, q, dp, dq, qi, ...publicKey } of keys) {
    expect(kid).toBe(await calculateJwkThumbprint(publicKey))
  }
  expect(new Set(keys.map(({ kid }) => kid)).size).toBe(keys.length)
})

test('two nodes that start together on an empty store agree on the keys', () => {
  expect(others).toEqual(keys)
})

test('loads at the same moment on an empty store agree on the keys', async () => {
  const { records, store } = await openInstallation('sqlite::memory:', [])
  const loads = await Promise.all(Array.from({ length: 4 }, () => loadSigningKeys(records)))
  for (const load of loads) expect(load).toEqual(loads[0])
  await store.close()
})

test('the keys survive a restart', async () => {
  const again = await openInstallation(STORE, [])
  expect(await loadSigningKeys(again.records)).toEqual(keys)
  await again.store.close()
})

test('the private keys are not readable in the store', () => {
  const bytes = readdirSync(folder).map(name => readFileSync(join(folder, name), 'latin1'))
  for (const { d = '' } of keys) {
    expect(d.length).toBeGreaterThan(40)
    expect(bytes.some(text => text.includes(d.slice(0, 40)))).toBe(false)
  }
  expect(bytes.some(text => text.includes('"kty"'))).toBe(false)
})

test('/api/oauth/jwks shows the public part of every key, and no private member', async () => {
  const response = await fetch(new URL('/api/oauth/jwks', usher.issuer))
  const { keys: published } = (await response.json()) as { keys: Record<string, unknown>[] }
  expect(response.status).toBe(200)
  expect(published.map(({ alg }) => alg).toSorted()).toEqual(['ES256', 'EdDSA', 'RS256'])
  for (const key of published) {
    expect(Object.keys(key).filter(member => PRIVATE.includes(member))).toEqual([])
    expect(key.kid).toEqual(expect.any(String))
    expect(createPublicKey({ key, format: 'jwk' }).type).toBe('public')
  }
})

describe('as time passes', () => {
  let records: Records
  let close: () => Promise<void>
  const start = Date.now()
  const at = (seconds: number) =>
    vi.useFakeTimers({ toFake: ['Date'], now: start + seconds * 1000 })
  const open = (rules: Partial<KeyRules> = {}) => createSigningKeys(records, { ...RULES, ...rules })
  const states = async (keys = open()) =>
    (await keys.list()).map(({ alg, state }) => `${state} ${alg}`)
  beforeEach(async () => {
    const { records: opened, store } = await openInstallation('sqlite::memory:', [])
    records = opened
    close = () => store.close()
    at(0)
  })
  afterEach(async () => {
    vi.useRealTimers()
    await close()
  })

  test('a key is published a day before it signs, and until its last signature expires', async () => {
    const [first] = await open().load()
    at(89 * DAY - 10)
    expect(await open().load()).toHaveLength(3)
    at(89 * DAY + 10)
    const announced = await open().load()
    expect(announced).toHaveLength(6)
    expect(announced[0]).toEqual(first)
    expect(await states()).toEqual([...ALL('current'), ...ALL('next')])
    at(90 * DAY + 20)
    const [signing, ...others] = await open().load()
    expect(signing?.kid).toBe(
      announced.find(({ kid, alg }) => alg === 'RS256' && kid !== first?.kid)?.kid,
    )
    expect(others).toContainEqual(first)
    expect(await states()).toEqual([...ALL('current'), ...ALL('retired')])
    at(120 * DAY + 30)
    expect(await states()).toEqual(ALL('current'))
  })

  test('nodes that look at the same moment make one next key of each kind', async () => {
    await open().load()
    at(89 * DAY + 10)
    const loads = await Promise.all(Array.from({ length: 4 }, () => open().load()))
    for (const load of loads) expect(load).toEqual(loads[0])
    expect(loads[0]).toHaveLength(6)
  })

  test('after a year without a running service, a new key is announced before it signs', async () => {
    const before = await open().load()
    at(365 * DAY)
    expect((await open().load()).slice(0, 3)).toEqual(before)
    expect(await states()).toEqual([...ALL('current'), ...ALL('next')])
  })

  test('a rotation by an operator is announced, or signs at once', async () => {
    const before = await open().load()
    await open().rotate()
    expect((await open().load()).slice(0, 3)).toEqual(before)
    expect(await states()).toEqual([...ALL('current'), ...ALL('next')])
    await open().rotate(0)
    expect((await open().load())[0]).not.toEqual(before[0])
    expect(await states()).toEqual([...ALL('current'), ...ALL('retired')])
  })

  test('a compromised key is removed at once, but not the one that signs', async () => {
    const [leaked] = await open().load()
    const { kid = '' } = leaked ?? {}
    expect(await open().retire(kid)).toBe('current')
    await open().rotate(0)
    expect(await open().retire(kid)).toBe('retired')
    expect(await open().load()).not.toContainEqual(leaked)
    expect(await open().retire(kid)).toBeUndefined()
  })

  test('imported keys sign after they were announced, and generated keys sign after their removal', async () => {
    const own = await open().load()
    const [one, two] = [await makeKey('RS256'), await makeKey('RS256')]
    expect((await open({ imported: [one] }).load())[0]).toEqual(own[0])
    at(DAY + 10)
    expect((await open({ imported: [one] }).load())[0]).toEqual(one)
    await open({ imported: [one, two] }).load()
    at(2 * DAY + 20)
    const keys = await open({ imported: [one, two] }).load()
    expect(keys[0]).toEqual(two)
    expect(keys).toContainEqual(one)
    at(3 * DAY)
    const without = await open({ imported: [two] }).load()
    expect(without[0]).toEqual(two)
    const { d, p, q, dp, dq, qi, ...publicOne } = one
    expect(without).toContainEqual(publicOne)
    expect((await open().load())[0]?.kid).toBe(own[0]?.kid)
  })

  test('a removed imported key stays published until another key replaces it', async () => {
    const [one, two, three] = await Promise.all(['RS256', 'RS256', 'RS256'].map(makeKey))
    if (!one || !two || !three) throw new Error('a key is missing')
    const kids = async (...imported: SigningKey[]) =>
      (await open({ imported }).load()).map(({ kid }) => kid)
    await kids(one)
    at(50 * DAY)
    await kids(one, two)
    at(60 * DAY)
    expect((await kids(one, two))[0]).toBe(two.kid)
    expect(await kids(one)).toEqual([one.kid, two.kid])
    expect(await kids(one, three)).toEqual([one.kid, three.kid, two.kid])
    at(62 * DAY)
    expect(await kids(one, three)).toEqual([three.kid, one.kid, two.kid])
    at(92 * DAY)
    expect(await kids(three)).toEqual([three.kid])
  })

  test('a retired imported key is not imported again from its file', async () => {
    const imported = await Promise.all([makeKey('RS256'), makeKey('RS256')])
    await open({ imported: imported.slice(0, 1) }).load()
    await open({ imported }).load()
    for (const day of [2, 40, 41, 42, 80]) {
      at(day * DAY)
      expect((await open({ imported }).load())[0], `day ${day}`).toEqual(imported[1])
    }
    expect(await open({ imported }).load()).toHaveLength(1)
  })

  test('the private part of an imported key is not in the store', async () => {
    const imported = [await makeKey('EdDSA')]
    await open({ imported }).load()
    const { value } = await records.read('SigningKeys', 'current')
    expect(JSON.stringify(value)).toContain(imported[0]?.x)
    expect(JSON.stringify(value)).not.toContain(imported[0]?.d)
  })
})

const ALL = (state: string) => ['RS256', 'ES256', 'EdDSA'].map(alg => `${state} ${alg}`)
