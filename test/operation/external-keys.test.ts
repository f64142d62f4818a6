// Signing keys in a KMS or HSM: `keys.module` signs, and Usher has the public keys only.

import { generateKeyPairSync } from 'node:crypto'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  createRemoteJWKSet,
  decodeProtectedHeader,
  exportJWK,
  generateKeyPair,
  jwtVerify,
} from 'jose'
import { expect } from 'vitest'
import { loadExternalKeys } from '../../src/operation/external-keys.ts'
import { CHAT_SERVER, EXCHANGING, exchange, ID_JAG, ID_TOKEN } from '../support/exchange.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import { temporaryFolder } from '../support/folder.ts'
import { authorize, redeem, tokens } from '../support/journey.ts'
import { send } from '../support/wire.ts'

const folder = temporaryFolder()
const DOWN = join(folder, 'down')

const privateKeys = await Promise.all(
  ['RS256', 'PS256', 'ES256'].map(async alg => {
    const { privateKey } = await generateKeyPair(alg, { extractable: true })
    return { ...(await exportJWK(privateKey)), kid: `kms-${alg}`, alg }
  }),
)
const publicKeys = privateKeys.map(({ d, p, q, dp, dq, qi, ...key }) => key)

/** A module as a KMS has it. `options`: how it signs, by algorithm. */
const moduleOf = (keys: object[], options = '') => `
import { sign as signature } from 'node:crypto'
import { existsSync } from 'node:fs'
const all = ${JSON.stringify(privateKeys)}
export const keys = ${JSON.stringify(keys)}
const HOW = { PS256: { padding: 6, saltLength: 32 }, ES256: { dsaEncoding: 'ieee-p1363' }${options} }
export async function sign(kid, data) {
  if (existsSync(${JSON.stringify(DOWN)})) throw new Error('the KMS is down')
  const key = all.find(key => key.kid === kid)
  return signature('sha256', data, { key, format: 'jwk', ...HOW[key.alg] })
}
`

// The store has a key for RS256: that of the module signs later. It has none for PS256.
const test = usherTest({
  usher: { keys: { module: 'kms.mjs' } },
  files: { 'kms.mjs': moduleOf(publicKeys) },
  clients: {
    ...EXCHANGING.clients,
    web: { ...EXCHANGING.clients.web, id_token_signed_response_alg: 'PS256' },
  },
  resources: EXCHANGING.resources,
})

test('an ID token is signed by the module, and the JWKS has its public key', async () => {
  const { code, request } = await authorize(usher)
  const { body } = await redeem(usher, code, request)
  expect(decodeProtectedHeader(body.id_token)).toMatchObject({ alg: 'PS256', kid: 'kms-PS256' })
  const jwks = createRemoteJWKSet(new URL(`${usher.issuer}/api/oauth/jwks`))
  await jwtVerify(body.id_token, jwks, { issuer: usher.issuer, audience: 'web' })
  const { json } = await send<{ keys: { kid?: string }[] }>(usher, '/api/oauth/jwks')
  const ours = json.keys.filter(({ kid }) => kid?.startsWith('kms-'))
  expect(ours.map(({ kid }) => kid).toSorted()).toEqual(['kms-ES256', 'kms-PS256', 'kms-RS256'])
  for (const key of json.keys) expect(Object.keys(key)).not.toContain('d')
})

test('an identity assertion is signed by the module', async () => {
  const { id_token } = await tokens(usher)
  const form = { client_id: 'web', requested_token_type: ID_JAG, subject_token_type: ID_TOKEN }
  const { body } = await exchange(usher, id_token, { ...form, audience: CHAT_SERVER })
  const jwks = createRemoteJWKSet(new URL(`${usher.issuer}/api/oauth/jwks`))
  const expected = { issuer: usher.issuer, audience: CHAT_SERVER, typ: 'oauth-id-jag+jwt' }
  const { protectedHeader } = await jwtVerify(body.access_token, jwks, expected)
  expect(protectedHeader).toMatchObject({ alg: 'PS256', kid: 'kms-PS256' })
})

test('while the module does not sign, the answer is 503, and the code is not used up', async () => {
  const { code, request } = await authorize(usher)
  writeFileSync(DOWN, '')
  const { status, body } = await redeem(usher, code, request)
  rmSync(DOWN)
  expect([status, body.error]).toEqual([503, 'temporarily_unavailable'])
  expect((await redeem(usher, code, request)).status).toBe(200)
})

const [rsa, pss, ec] = publicKeys
const short = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey.export({
  format: 'jwk',
})
test.each<[string, string, string]>([
  ['no sign', 'export const keys = [{}]', 'a function sign'],
  ['no keys', 'export const keys = []; export const sign = () => {}', 'at least one key'],
  ['a fault', 'throw new Error("no PIN")', 'cannot be imported: no PIN'],
  ['no key for RS256', moduleOf([pss ?? {}]), 'has no key for RS256'],
  ['a private key', moduleOf(privateKeys), 'keys.0 is a private key'],
  ['a key without kid', moduleOf([{ ...rsa, kid: '' }]), 'keys.0 has no kid'],
  ['another type of key', moduleOf([{ ...ec, alg: 'RS256' }]), 'does not fit RS256'],
  ['a shared secret', moduleOf([rsa ?? {}, { kid: 'a', alg: 'HS256' }]), 'none of RS256'],
  ['a short key', moduleOf([{ ...short, kid: 'short', alg: 'RS256' }]), 'has 1024 bits'],
  ['signatures as DER', moduleOf([rsa ?? {}, ec ?? {}], ', ES256: {}'), 'keys.1 does not verify'],
])('a module with %s is refused', async (name, text, message) => {
  const path = join(folder, `${name.replaceAll(' ', '-')}.mjs`)
  writeFileSync(path, text)
  await expect(loadExternalKeys(path)).rejects.toThrow(message)
})
