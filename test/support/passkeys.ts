// A soft authenticator: passkeys with real ES256 keys, which answers as a browser does, or wrongly on purpose.

import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import type { Browser } from './browser.ts'
import { FACTORS } from './factors.ts'
import { confirmed, words } from './people.ts'

/** Differences from a right answer. */
interface Wrong {
  origin?: string
  rpId?: string
  challenge?: unknown
  type?: string
  isVerified?: boolean
  isPresent?: boolean
  counter?: number
  userHandle?: string
  id?: string
  key?: KeyObject
  format?: string
  crossOrigin?: boolean
  topOrigin?: string
  /** The length of the id of a new passkey. */
  idBytes?: number
  /** Further members of a new key, or all of them. */
  members?: readonly (readonly [number, unknown])[]
  publicKey?: readonly (readonly [number, unknown])[]
  /** Text of a base64 decoder that ignores unknown characters says that there are no certificates. */
  isHidden?: boolean
}

interface Credential {
  id: string
  key: KeyObject
  userHandle: string
}

const FLAGS = { present: 1, verified: 4, eligible: 8, backedUp: 16, attested: 64 }

const base64url = (bytes: Uint8Array | string) => Buffer.from(bytes).toString('base64url')
const sha256 = (text: string | Uint8Array) => createHash('sha256').update(text).digest()

/** One authenticator with its passkeys. */
export class Authenticator {
  credentials: Credential[] = []
  /** Undefined for one that does not count. */
  counter: number | undefined
  isVerified = true
  /** Whether its keys are copied to other devices. */
  isSynced = false
  origin: string

  constructor(issuer: string) {
    this.origin = issuer
  }

  #authenticatorData(rpId: string, { isVerified, isPresent = true, counter }: Wrong, more = 0) {
    const flags =
      (isPresent ? FLAGS.present : 0) |
      ((isVerified ?? this.isVerified) ? FLAGS.verified : 0) |
      (this.isSynced ? FLAGS.eligible | FLAGS.backedUp : 0) |
      more
    const count = Buffer.alloc(4)
    if (this.counter !== undefined) this.counter++
    count.writeUInt32BE(counter ?? this.counter ?? 0)
    return Buffer.concat([sha256(rpId), Buffer.from([flags]), count])
  }

  #clientData(type: string, challenge: string, wrong: Wrong) {
    return base64url(
      JSON.stringify({
        type: wrong.type ?? type,
        challenge: wrong.challenge ?? challenge,
        origin: wrong.origin ?? this.origin,
        crossOrigin: wrong.crossOrigin ?? false,
        topOrigin: wrong.topOrigin,
      }),
    )
  }

  /** Answers `navigator.credentials.create` as JSON. */
  create(options: string, wrong: Wrong = {}): string {
    const { challenge, rp, user } = JSON.parse(options)
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const { x = '', y = '' } = publicKey.export({ format: 'jwk' })
    const id = randomBytes(wrong.idBytes ?? 32)
    const coseKey = cbor(
      new Map<number, unknown>([
        ...(wrong.publicKey ?? [
          [1, 2],
          [3, -7],
          [-1, 1],
          [-2, Buffer.from(x, 'base64url')],
          [-3, Buffer.from(y, 'base64url')],
        ]),
        ...(wrong.members ?? []),
      ]),
    )
    const length = Buffer.from([id.length >> 8, id.length & 255])
    const authData = Buffer.concat([
      this.#authenticatorData(wrong.rpId ?? rp.id, wrong, FLAGS.attested),
      Buffer.alloc(16),
      length,
      id,
      coseKey,
    ])
    const statement = wrong.format
      ? new Map<string, unknown>([
          ['alg', -7],
          ['sig', Buffer.alloc(8)],
          ['x5c', [Buffer.from('certificate')]],
        ])
      : new Map()
    const attestation = new Map<string, unknown>([
      ['fmt', wrong.format ?? 'none'],
      ['attStmt', statement],
      ['authData', authData],
    ])
    const encoded = base64url(cbor(attestation))
    this.credentials.push({ id: base64url(id), key: privateKey, userHandle: user.id })
    return JSON.stringify({
      id: base64url(id),
      rawId: base64url(id),
      type: 'public-key',
      clientExtensionResults: {},
      response: {
        clientDataJSON: this.#clientData('webauthn.create', challenge, wrong),
        attestationObject: wrong.isHidden ? hidden(attestation, authData) : encoded,
        transports: ['internal', 'unknown'],
      },
    })
  }

  /** Answers `navigator.credentials.get` as JSON, with the first passkey that is allowed. */
  get(options: string, wrong: Wrong = {}): string {
    const { challenge, rpId, allowCredentials } = JSON.parse(options)
    const isAllowed = ({ id }: Credential) =>
      allowCredentials?.some((allowed: { id: string }) => allowed.id === id) ?? true
    const credential = this.credentials.find(isAllowed) ?? this.credentials[0]
    if (!credential) throw new Error('the authenticator has no passkey')
    const { key, userHandle } = credential
    const id = wrong.id ?? credential.id
    const authenticatorData = this.#authenticatorData(wrong.rpId ?? rpId, wrong)
    const clientDataJSON = this.#clientData('webauthn.get', challenge, wrong)
    const signed = Buffer.concat([
      authenticatorData,
      sha256(Buffer.from(clientDataJSON, 'base64url')),
    ])
    return JSON.stringify({
      id,
      rawId: id,
      type: 'public-key',
      clientExtensionResults: {},
      response: {
        clientDataJSON,
        authenticatorData: base64url(authenticatorData),
        signature: base64url(sign('sha256', signed, wrong.key ?? key)),
        userHandle: wrong.userHandle ?? userHandle,
      },
    })
  }
}

/**
 * Hides an attestation: a byte string that is full of unknown characters, or of the attestation for a decoder that
 * ignores them. For this one, an attestation without certificates follows.
 */
function hidden(attestation: Map<string, unknown>, authData: Buffer): string {
  const entries = cbor(attestation).subarray(1)
  const padded = Buffer.concat([entries, Buffer.alloc(3 - (entries.length % 3))])
  // The map has four entries: the byte string, and those of one attestation.
  const start = Buffer.from([0xa4, 0x61, 0x61, 0x59, padded.length >> 8, padded.length & 255])
  const [attStmt, fmt] = [new Map(), 'none']
  const end = cbor(new Map<string, unknown>(Object.entries({ fmt, attStmt, authData }))).subarray(1)
  return (
    base64url(start) + '!'.repeat((padded.length / 3) * 4) + base64url(Buffer.concat([padded, end]))
  )
}

/** Encodes integers, texts, bytes, lists and maps (RFC 8949). */
function cbor(value: unknown): Buffer {
  const head = (major: number, count: number) => {
    if (count < 24) return Buffer.from([(major << 5) | count])
    if (count < 256) return Buffer.from([(major << 5) | 24, count])
    return Buffer.from([(major << 5) | 25, count >> 8, count & 255])
  }
  if (typeof value === 'number') return value < 0 ? head(1, -1 - value) : head(0, value)
  if (typeof value === 'string') return Buffer.concat([head(3, value.length), Buffer.from(value)])
  if (Buffer.isBuffer(value)) return Buffer.concat([head(2, value.length), value])
  if (Array.isArray(value)) return Buffer.concat([head(4, value.length), ...value.map(cbor)])
  if (value instanceof Map) {
    return Buffer.concat([head(5, value.size), ...[...value].flat().map(cbor)])
  }
  throw new Error(`no CBOR for ${value}`)
}

/** What the page tells the browser about passkeys. */
export function optionsOn({ page }: Browser): string {
  const place = page.html.querySelector('[data-get], [data-create]')
  const options = place?.getAttribute('data-get') ?? place?.getAttribute('data-create')
  if (!options) throw new Error(`no passkey is asked for: "${page.html.querySelector('h1')?.text}"`)
  return options
}

/** Uses a passkey on the page. */
export const usePasskey = (browser: Browser, authenticator: Authenticator, wrong: Wrong = {}) =>
  browser.submit({ passkey: authenticator.get(optionsOn(browser), wrong) })

/** Adds a passkey on the account page of a browser that is signed in. */
export async function addPasskey(browser: Browser, authenticator: Authenticator) {
  await browser.open(`${FACTORS}?add=passkey`)
  await confirmed(browser)
  await browser.submit({ passkey: authenticator.create(optionsOn(browser)) })
  if (browser.page.status !== 200 || browser.heading === words('factors.add_passkey')) {
    throw new Error(`no passkey was added: "${browser.heading}" ${browser.page.text}`)
  }
}
