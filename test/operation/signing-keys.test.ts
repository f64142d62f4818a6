// The signing keys: their algorithms, their storage, their publication and their rotation.

import { createPrivateKey, createPublicKey } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { calculateJwkThumbprint } from 'jose'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { SigningKey } from '../../src/oidc/dependencies.ts'
import { makeKey, openSigningKeys } from '../../src/operation/signing-keys.ts'
import { type Installation, openInstallation } from '../../src/store/open.ts'
import type { Records } from '../../src/store/records.ts'
import { temporaryFolder } from '../support/folder.ts'
import { startUsher, type Usher } from '../support/usher.ts'

const folder = temporaryFolder()
const STORE = `sqlite:${folder}/usher.db`
const PRIVATE = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv']

const DAY = 24 * 3600
const pemOf = (key: SigningKey) =>
  createPrivateKey({ key, format: 'jwk' }).export({ type: 'pkcs8', format: 'pem' }).toString()
/** The keys of an installation with the default settings. */
const open = (records: Records, imported: SigningKey[] = []) =>
  openSigningKeys(records, { ...usher.settings, importedKeys: imported.map(pemOf) })
const loadSigningKeys = async (records: Records) => (await open(records)).load()

let first: Installation
let second: Installation
let keys: SigningKey[]
let others: SigningKey[]
let usher: Usher
beforeAll(async () => {
  first = await openInstallation(STORE, [])
  second = await openInstallation(STORE, [])
  usher = await startUsher()
  const both = [first, second].map(({ records }) => loadSigningKeys(records))
  const [mine = [], theirs = []] = await Promise.all(both)
  keys = mine
  others = theirs
})
afterAll(() => Promise.all([usher.close(), first.store.close(), second.store.close()]))

test('there is a key for each algorithm, RS256 first, of 2048 bits, P-256 and Ed25519', () => {
  const [rsa, ec, ed, ...others] = keys
  if (!rsa || !ec || !ed) throw new Error('a key is missing')
  const publicKey = createPublicKey({ key: rsa, format: 'jwk' })
  expect(publicKey.asymmetricKeyDetails?.modulusLength).toBe(2048)
  expect(rsa).toMatchObject({ alg: 'RS256', use: 'sig', e: 'AQAB' })
  expect(ec).toMatchObject({ alg: 'ES256', use: 'sig', kty: 'EC', crv: 'P-256' })
  expect(ed).toMatchObject({ alg: 'EdDSA', use: 'sig', kty: 'OKP', crv: 'Ed25519' })
  expect(others).toEqual([])
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
  const load = async (...imported: SigningKey[]) => (await open(records, imported)).load()
  const rotate = async (seconds?: number) => (await open(records)).rotate(seconds)
  const retire = async (kid: string) => (await open(records)).retire(kid)
  const states = async () =>
    (await (await open(records)).list()).map(({ alg, state }) => `${state} ${alg}`)
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
    const [first] = await load()
    at(89 * DAY - 10)
    expect(await load()).toHaveLength(3)
    at(89 * DAY + 10)
    const announced = await load()
    expect(announced).toHaveLength(6)
    expect(announced[0]).toEqual(first)
    expect(await states()).toEqual([...ALL('current'), ...ALL('next')])
    at(90 * DAY + 20)
    const [signing, ...others] = await load()
    expect(signing?.kid).toBe(
      announced.find(({ kid, alg }) => alg === 'RS256' && kid !== first?.kid)?.kid,
    )
    expect(others).toContainEqual(first)
    expect(await states()).toEqual([...ALL('current'), ...ALL('retired')])
    at(120 * DAY + 700)
    expect(await states()).toEqual(ALL('current'))
  })

  test('nodes that look at the same moment make one next key of each kind', async () => {
    await load()
    at(89 * DAY + 10)
    const loads = await Promise.all(Array.from({ length: 4 }, () => load()))
    for (const load of loads) expect(load).toEqual(loads[0])
    expect(loads[0]).toHaveLength(6)
  })

  test('after a year without a running service, a new key is announced before it signs', async () => {
    const before = await load()
    at(365 * DAY)
    expect(signersIn(await load())).toEqual(before)
    expect(await states()).toEqual([...ALL('current'), ...ALL('next')])
  })

  test('a rotation by an operator is announced, or signs at once', async () => {
    const before = await load()
    await rotate()
    expect(signersIn(await load())).toEqual(before)
    expect(await states()).toEqual([...ALL('current'), ...ALL('next')])
    await rotate(0)
    expect((await load())[0]).not.toEqual(before[0])
    expect(await states()).toEqual([...ALL('current'), ...ALL('retired')])
  })

  test('keys of one algorithm stand together, the current one first, during rotations and with imported keys', async () => {
    const algs = async (...imported: SigningKey[]) =>
      (await load(...imported)).map(({ alg }) => alg)
    const expectTogether = async (length: number, ...imported: SigningKey[]) => {
      const found = await algs(...imported)
      expect(found).toHaveLength(length)
      const runs = found.filter((alg, i) => alg !== found[i - 1])
      expect(runs).toEqual(['RS256', 'ES256', 'EdDSA'])
    }
    const current = await load()
    await rotate()
    await expectTogether(6)
    at(2 * DAY)
    const turned = signersIn(await load())
    expect(turned).not.toEqual(current)
    await rotate()
    await expectTogether(9)
    expect(signersIn(await load())).toEqual(turned)
    const imported = await Promise.all(['EdDSA', 'RS256', 'ES256', 'RS256'].map(makeKey))
    await expectTogether(13, ...imported)
    at(4 * DAY)
    await expectTogether(13, ...imported)
    const [ed, , ec, rsa] = imported
    expect(signersIn(await load(...imported))).toEqual([rsa, ec, ed])
    await expectTogether(13)
  })

  test('a compromised key is removed at once, but not the one that signs', async () => {
    const [leaked] = await load()
    const { kid = '' } = leaked ?? {}
    expect(await retire(kid)).toBe('current')
    await rotate(0)
    expect(await retire(kid)).toBe('retired')
    expect(await load()).not.toContainEqual(leaked)
    expect(await retire(kid)).toBeUndefined()
  })

  test('imported keys sign after they were announced, and generated keys sign after their removal', async () => {
    const own = await load()
    const [one, two] = [await makeKey('RS256'), await makeKey('RS256')]
    expect((await load(one))[0]).toEqual(own[0])
    at(DAY + 10)
    expect((await load(one))[0]).toEqual(one)
    await load(one, two)
    at(2 * DAY + 20)
    const keys = await load(one, two)
    expect(keys[0]).toEqual(two)
    expect(keys).toContainEqual(one)
    at(3 * DAY)
    const without = await load(two)
    expect(without[0]).toEqual(two)
    const { d, p, q, dp, dq, qi, ...publicOne } = one
    expect(without).toContainEqual(publicOne)
    expect((await load())[0]?.kid).toBe(own[0]?.kid)
  })

  test('a removed imported key stays published until another key replaces it', async () => {
    const [one, two, three] = await Promise.all(['RS256', 'RS256', 'RS256'].map(makeKey))
    if (!one || !two || !three) throw new Error('a key is missing')
    const kids = async (...imported: SigningKey[]) =>
      (await load(...imported)).map(({ kid }) => kid)
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

  test('in a store without keys, the last imported key of each algorithm signs, and no earlier one', async () => {
    const made = ['RS256', 'ES256', 'RS256'].map(makeKey)
    const [, ec, rsa] = await Promise.all(made)
    const loaded = await load(...(await Promise.all(made)))
    expect(loaded.map(({ kid }) => kid)).toEqual([rsa?.kid, ec?.kid])
  })

  test('a retired imported key is not imported again from its file', async () => {
    const imported = await Promise.all([makeKey('RS256'), makeKey('RS256')])
    await load(...imported.slice(0, 1))
    await load(...imported)
    for (const day of [2, 40, 41, 42, 80]) {
      at(day * DAY)
      expect((await load(...imported))[0], `day ${day}`).toEqual(imported[1])
    }
    expect(await load(...imported)).toHaveLength(1)
  })

  test('the private part of an imported key is not in the store', async () => {
    const imported = [await makeKey('EdDSA')]
    await load(...imported)
    const { value } = await records.of('SigningKeys').read('current')
    expect(JSON.stringify(value)).toContain(imported[0]?.x)
    expect(JSON.stringify(value)).not.toContain(imported[0]?.d)
  })
})

/** The first key of each algorithm. The library signs with it. */
const signersIn = (keys: SigningKey[]) =>
  keys.filter(({ alg }, i) => keys.findIndex(key => key.alg === alg) === i)
const ALL = (state: string) => ['RS256', 'ES256', 'EdDSA'].map(alg => `${state} ${alg}`)
