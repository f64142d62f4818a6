// Forged JWTs, made from a valid one. No recipient may accept them.

import {
  createHmac,
  createPublicKey,
  generateKeyPairSync,
  type JsonWebKey,
  sign,
} from 'node:crypto'
import { deflateRawSync } from 'node:zlib'
import { CompactEncrypt, importJWK } from 'jose'

interface Honest {
  jwt: string
  /** The public key that verifies it. */
  key: JsonWebKey
  /** The client secret, if there is one. */
  secret: string
  /** A URL that counts its requests. */
  elsewhere: string
}

const attacker = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const encode = (part: object | string) =>
  Buffer.from(typeof part === 'string' ? part : JSON.stringify(part)).toString('base64url')
const decode = (part = '') => JSON.parse(Buffer.from(part, 'base64url').toString())

const signed = (header: object, payload: object) => {
  const data = `${encode(header)}.${encode(payload)}`
  const key = { key: attacker.privateKey, dsaEncoding: 'ieee-p1363' } as const
  return `${data}.${sign('sha256', Buffer.from(data), key).toString('base64url')}`
}
const hashed = (header: { alg: string }, payload: object, secret: string) => {
  const data = `${encode(header)}.${encode(payload)}`
  const digest = header.alg.replace('HS', 'sha')
  return `${data}.${createHmac(digest, secret).update(data).digest('base64url')}`
}

/** Returns the forged JWTs by their defect. */
export async function forgeries({ jwt, key, secret, elsewhere }: Honest) {
  const [first = '', second = '', third = ''] = jwt.split('.')
  const [header, payload] = [decode(first), decode(second)]
  const { kid } = header
  const pem = createPublicKey({ key, format: 'jwk' }).export({ type: 'spki', format: 'pem' })
  const own = attacker.publicKey.export({ format: 'jwk' })
  const es = { alg: 'ES256', kid }
  const unsigned = (alg: unknown, signature = '') =>
    `${encode({ ...header, alg })}.${second}.${signature}`
  const secrets = { JWK: JSON.stringify(key), PEM: String(pem), 'trimmed PEM': String(pem).trim() }
  const zeros = (bytes: number) => Buffer.alloc(bytes).toString('base64url')
  const bomb = deflateRawSync(Buffer.alloc(10_000_000)).toString('base64url')
  const jwe = (more: object, text = zeros(64)) =>
    `${encode({ enc: 'A128GCM', ...more })}.${zeros(32)}.${zeros(12)}.${text}.${zeros(16)}`
  const isRsa = key.kty === 'RSA'
  const encrypted = await new CompactEncrypt(Buffer.from(JSON.stringify(payload)))
    .setProtectedHeader({
      alg: isRsa ? 'RSA-OAEP-256' : 'ECDH-ES',
      enc: 'A256GCM',
      kid,
      cty: 'json',
    })
    .encrypt(await importJWK(key, isRsa ? 'RSA-OAEP-256' : 'ECDH-ES'))

  return {
    'alg none': unsigned('none'),
    'alg None': unsigned('None'),
    'alg NONE': unsigned('NONE'),
    'alg nOnE': unsigned('nOnE'),
    'alg none, with the signature': unsigned('none', third),
    'no alg': unsigned(undefined, third),
    'an empty alg': unsigned('', third),
    'a list of algs': unsigned(['none', header.alg], third),
    'alg null': unsigned(null),
    'another alg over the same signature': unsigned(isRsa ? 'PS256' : 'RS256', third),
    'no signature': `${first}.${second}.`,
    'two parts': `${first}.${second}`,
    'half a signature': `${first}.${second}.${third.slice(0, 40)}`,
    'a signature of zeros': `${first}.${second}.${zeros(64)}`,
    'a signature of zeros, ES256': `${encode(es)}.${second}.${zeros(64)}`,
    'another payload': `${first}.${encode({ ...payload, jti: 'another' })}.${third}`,
    'another header': `${encode({ ...header, x: 1 })}.${second}.${third}`,
    'a key of the attacker, with the valid kid': signed(es, payload),
    'a key of the attacker, without a kid': signed({ alg: 'ES256' }, payload),
    'the key of the attacker in jwk': signed({ ...es, jwk: own }, payload),
    'the key of the attacker in jwk alone': signed({ alg: 'ES256', jwk: own }, payload),
    'the key of the attacker at jku': signed({ ...es, jku: `${elsewhere}/jwks` }, payload),
    'the key of the attacker at x5u': signed({ ...es, x5u: `${elsewhere}/x5c` }, payload),
    'the key of the attacker in x5c': signed({ ...es, x5c: [encode('a certificate')] }, payload),
    'a kid that is a URL': signed({ alg: 'ES256', kid: `${elsewhere}/kid` }, payload),
    'a kid that is a path': hashed({ alg: 'HS256', ...{ kid: '../../dev/null' } }, payload, ''),
    'a kid that is SQL': signed({ alg: 'ES256', kid: "' OR 1=1 --" }, payload),
    'a kid that is an object': signed({ alg: 'ES256', kid: {} }, payload),
    'an unknown crit': signed({ ...es, crit: ['x'], x: 1 }, payload),
    'a payload that is not encoded': signed({ ...es, crit: ['b64'], b64: false }, payload),
    ...Object.fromEntries(
      Object.entries(secrets).flatMap(([name, text]) =>
        ['HS256', 'HS512'].map(alg => [
          `${alg} with the verifying key as ${name}`,
          hashed({ alg, ...{ kid } }, payload, text),
        ]),
      ),
    ),
    'HS256 with the secret': hashed({ alg: 'HS256' }, payload, secret),
    'HS384 with the secret': hashed({ alg: 'HS384' }, payload, secret),
    'HS256 with an empty secret': hashed({ alg: 'HS256' }, payload, ''),
    'encrypted to the verifying key, without a signature': encrypted,
    'encrypted, dir': jwe({ alg: 'dir' }),
    'encrypted, A256KW': jwe({ alg: 'A256KW' }),
    'encrypted, RSA-OAEP': jwe({ alg: 'RSA-OAEP', kid }),
    'encrypted, RSA1_5': jwe({ alg: 'RSA1_5', kid }),
    'PBES2 of two thousand million rounds': jwe({
      alg: 'PBES2-HS256+A128KW',
      p2c: 2 ** 31,
      p2s: zeros(16),
    }),
    'a zip bomb': jwe({ alg: 'RSA-OAEP-256', zip: 'DEF', kid }, bomb.slice(0, 4000)),
    'a header of 5 kB': signed({ ...es, x: 'x'.repeat(3800) }, payload),
    'JSON in place of compact': JSON.stringify({
      payload: second,
      protected: first,
      signature: third,
    }),
    'four parts': `${jwt}.${third}`,
    'a payload that is a list': `${first}.${encode('[]')}.${third}`,
    'a header that is a list': `${encode('[]')}.${second}.${third}`,
    'no JSON': `${encode('{')}.${second}.${third}`,
    'nothing encoded': '..',
  }
}
