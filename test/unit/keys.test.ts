// The signing keys: which there are, whose they stay, and what of them is published.

import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { calculateJwkThumbprint } from 'jose'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { loadSigningKeys, type SigningKey } from '../../src/keys/signing-keys.ts'
import { type Installation, openInstallation } from '../../src/store/open.ts'
import { startUsher, type Usher } from '../support/usher.ts'

const folder = mkdtempSync(join(tmpdir(), 'usher-keys-'))
const STORE = `sqlite:${folder}/usher.db`
const PRIVATE = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv']

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

test('KY1: there is a key for each algorithm, RS256 first', () => {
  expect(keys.map(({ alg, use }) => [alg, use])).toEqual([
    ['RS256', 'sig'],
    ['ES256', 'sig'],
    ['EdDSA', 'sig'],
  ])
})

test('KY1: RSA has 3072 bits, EC is P-256, EdDSA is Ed25519', () => {
  const [rsa, ec, ed] = keys
  if (!rsa || !ec || !ed) throw new Error('a key is missing')
  const publicKey = createPublicKey({ key: rsa, format: 'jwk' })
  expect(publicKey.asymmetricKeyDetails?.modulusLength).toBe(3072)
  expect(rsa.e).toBe('AQAB')
  expect(ec).toMatchObject({ kty: 'EC', crv: 'P-256' })
  expect(ed).toMatchObject({ kty: 'OKP', crv: 'Ed25519' })
})

test('KY1: kid is the RFC 7638 thumbprint of the public key, and unique', async () => {
  for (const { kid, alg, use, d, p, q, dp, dq, qi, ...publicKey } of keys) {
    expect(kid).toBe(await calculateJwkThumbprint(publicKey))
  }
  expect(new Set(keys.map(({ kid }) => kid)).size).toBe(keys.length)
})

test('KY1: two nodes that start together on an empty store agree on the keys', () => {
  expect(others).toEqual(keys)
})

test('KY1: loads at the same moment on an empty store agree on the keys', async () => {
  const { records, store } = await openInstallation('sqlite::memory:', [])
  const loads = await Promise.all(Array.from({ length: 4 }, () => loadSigningKeys(records)))
  for (const load of loads) expect(load).toEqual(loads[0])
  await store.close()
})

test('KY1: the keys survive a restart', async () => {
  const again = await openInstallation(STORE, [])
  expect(await loadSigningKeys(again.records)).toEqual(keys)
  await again.store.close()
})

test('KY6: the private keys are not readable in the store', () => {
  const bytes = readdirSync(folder).map(name => readFileSync(join(folder, name), 'latin1'))
  for (const { d = '' } of keys) {
    expect(d.length).toBeGreaterThan(40)
    expect(bytes.some(text => text.includes(d.slice(0, 40)))).toBe(false)
  }
  expect(bytes.some(text => text.includes('"kty"'))).toBe(false)
})

test('KY2: /api/oauth/jwks shows the public part of every key, and no private member', async () => {
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

test('KY1: keys that were put into the store are used as they are', async () => {
  const { records, store } = await openInstallation('sqlite::memory:', [])
  const { privateKey } = generateKeyPairSync('ed25519')
  const mine = { ...privateKey.export({ format: 'jwk' }), kid: 'ada', alg: 'EdDSA', use: 'sig' }
  await records.save('SigningKeys', 'current', { keys: [mine] }, { version: 0 })
  expect(await loadSigningKeys(records)).toEqual([mine])
  await store.close()
})
