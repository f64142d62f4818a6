// Passkeys (WebAuthn Level 3): what the browser needs to add or use one, and the checks of its answers.
//
// A challenge is the time, 12 random bytes, and a keyed hash of both and of the place where it is answered: an
// interaction or a session, which are bound to a browser. It is stored when it was used, so that one of several
// answers succeeds:
//
//   PasskeyChallenge challenge → {}
//
// The user handle is the id of the account: a passkey leads to its account without an index.

import { randomBytes } from 'node:crypto'
import {
  generateAuthenticationOptions,
  generateRegistrationOptions,
  type RegistrationResponseJSON,
  verifyAuthenticationResponse,
  verifyRegistrationResponse,
} from '@simplewebauthn/server'
import {
  decodeAttestationObject,
  decodeCredentialPublicKey,
  isoBase64URL,
  isoCBOR,
} from '@simplewebauthn/server/helpers'
import type { Context } from 'koa'
import type { Settings } from '../../config/load.ts'
import { harmless } from '../../oidc/harmless.ts'
import type { Login } from '../../oidc/interactions.ts'
import { PHISHING_RESISTANT_ACR } from '../../oidc/vocabulary.ts'
import type { Account } from '../../sign-in/account.ts'
import type { Records } from '../../store/records.ts'
import { now, reasonOf } from '../../store/store.ts'
import { mapOf, readJson } from '../../store/values.ts'
import { type FactorStore, isPasskey, type Passkey, TRANSPORTS, type Use } from './factors.ts'
import { hostOf } from './rules.ts'

/** Thrown for a wrong answer or code. The message is the cause, for the log. */
export class Refused extends Error {
  reason: string

  /** `reason`: of the audit event. */
  constructor(reason: string, detail = '') {
    super(detail)
    this.reason = reason
  }
}

/** See `createPasskeys`. */
export type Passkeys = ReturnType<typeof createPasskeys>

type Expected = Record<'expectedOrigin' | 'expectedRPID', string> & {
  expectedChallenge(challenge: string): boolean
}

/** The part of a challenge before the keyed hash. */
const START_BYTES = 16
/** Of each process. */
const MAX_INTERRUPTED = 1000
/** A user handle has at most so many bytes (WebAuthn Level 3 §5.4.3). */
const MAX_HANDLE_BYTES = 64

const base64url = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64url')
/** Returns a member of an answer; empty if it is no text. Of a list or map, `Buffer.from` could make gigabytes. */
const textOf = (value: unknown) => (typeof value === 'string' ? value : '')

/** The sign-in after the use of a passkey (RFC 8176). A passkey alone has two factors, too. */
export function raised(login: Login, { isDeviceBound }: Passkey): Login {
  const amr = [...login.amr, isDeviceBound ? 'hwk' : 'swk', 'user', 'mfa']
  return { ...login, amr: [...new Set(amr)], acr: PHISHING_RESISTANT_ACR }
}

/** Returns the id of the passkey in an answer of the browser, and the account that it names. */
export function credentialIn(answer: string): { id: string; account: string } {
  const { id, response } = mapOf(readJson(answer))
  const { userHandle } = mapOf(response)
  const handle = Buffer.from(textOf(userHandle), 'base64url').subarray(0, MAX_HANDLE_BYTES)
  return { id: textOf(id), account: handle.toString() }
}

/** Returns the functions for the passkeys of an issuer. The RP ID is its host. */
export function createPasskeys(settings: Settings, records: Records, factors: FactorStore) {
  const { issuer, branding, lifetimes, sign_in } = settings
  const rpID = hostOf(settings)
  const ttl = lifetimes.interaction
  // As a second factor, a security key without a PIN is enough.
  const isAlone = sign_in.second_factor === 'off'
  const wanted = isAlone ? 'required' : 'preferred'

  const whole = (place: string, start: Buffer) =>
    Buffer.concat([start, records.keyedHash('passkey challenge', `${base64url(start)} ${place}`)])

  function newChallenge(place: string) {
    const start = randomBytes(START_BYTES)
    start.writeUInt32BE(now())
    return new Uint8Array(whole(place, start))
  }

  function isChallenge(place: string, challenge: unknown): boolean {
    const start = Buffer.from(textOf(challenge), 'base64url').subarray(0, START_BYTES)
    if (start.length < START_BYTES || base64url(whole(place, start)) !== challenge) return false
    return start.readUInt32BE() + ttl >= now()
  }

  /** Challenges that were taken by requests that the store then interrupted: the same form is sent again. */
  const interrupted = new Set<string>()

  function watch(ctx: Context, challenge: string) {
    ctx.res.once('close', () => {
      if (interrupted.size >= MAX_INTERRUPTED) interrupted.clear()
      if (ctx.status === 503) interrupted.add(challenge)
    })
  }

  /**
   * Checks an answer of the browser, and takes its challenge. `isRepeated`: a request that was answered with 503 had
   * taken it. Throws `Refused`.
   */
  async function check<T extends object>(
    place: string,
    verify: (expected: Expected) => Promise<T | undefined>,
    ctx?: Context,
  ) {
    let used = ''
    const expectedChallenge = (challenge: string) => {
      used = challenge
      return isChallenge(place, challenge)
    }
    const expected = { expectedChallenge, expectedOrigin: issuer, expectedRPID: rpID }
    // The package throws for most wrong answers, whatever is wrong.
    const checked = await verify(expected).catch(error => {
      throw new Refused('passkey_wrong', harmless(reasonOf(error)))
    })
    if (!checked) throw new Refused('passkey_wrong', 'wrong signature')
    if (ctx) watch(ctx, used)
    const isTaken = await records.save('PasskeyChallenge', used, {}, { ttl })
    const isRepeated = !isTaken && interrupted.delete(used)
    if (!isTaken && !isRepeated) throw new Refused('passkey_replayed')
    return { ...checked, isRepeated }
  }

  const describe = ({ id, transports }: Passkey) => ({ id, transports })

  return {
    rpID,

    /** Returns the options with which the browser uses one of these passkeys; by default any, with user verification. */
    async useOptions(place: string, own?: Passkey[]): Promise<string> {
      const options = await generateAuthenticationOptions({
        rpID,
        challenge: newChallenge(place),
        timeout: ttl * 1000,
        userVerification: own ? 'preferred' : 'required',
        allowCredentials: own?.map(describe),
      })
      return JSON.stringify(options)
    },

    /** Returns the options with which the browser adds a passkey. */
    async addOptions(place: string, account: Account, own: Passkey[]): Promise<string> {
      const options = await generateRegistrationOptions({
        rpID,
        rpName: branding.name,
        userID: new Uint8Array(Buffer.from(account.id)),
        userName: account.username,
        userDisplayName: account.name ?? account.username,
        challenge: newChallenge(place),
        timeout: ttl * 1000,
        authenticatorSelection: { residentKey: wanted, userVerification: wanted },
        excludeCredentials: own.map(describe),
      })
      return JSON.stringify(options)
    },

    /** Returns the new passkey of an answer. Throws `Refused`. */
    async confirm(
      place: string,
      answer: string,
      name: string,
      use: Use,
      ctx?: Context,
    ): Promise<Passkey> {
      const verify = async (expected: Expected) => {
        const sent = readJson(answer)
        refuseOtherOrigins(sent)
        const response = withoutCertificates(sent)
        const options = { response, ...expected, requireUserVerification: isAlone }
        const { registrationInfo } = await verifyRegistrationResponse(options)
        if (registrationInfo) refuseOddKeys(registrationInfo.credential)
        return registrationInfo
      }
      const { credential, credentialDeviceType } = await check(place, verify, ctx)
      await factors.addPasskeyHost(rpID)
      const { id, publicKey, counter, transports } = credential
      return {
        type: 'passkey',
        id,
        name,
        created: use.at,
        used: use,
        host: rpID,
        key: base64url(publicKey),
        counter,
        transports: TRANSPORTS.filter(known => [transports].flat().includes(known)),
        isDeviceBound: credentialDeviceType === 'singleDevice',
      }
    },

    /** Whether an account has the passkey with this id. */
    async has(account: string, id: string): Promise<boolean> {
      const { factors: known } = await factors.read(account)
      return known.some(one => isPasskey(one) && one.id === id)
    },

    /** Uses a passkey of an account, and returns it. Throws `Refused`. */
    async use(
      account: string,
      place: string,
      answer: string,
      used: Use,
      mustVerify: boolean,
      ctx?: Context,
    ) {
      const { id } = credentialIn(answer)
      const { factors: known } = await factors.read(account)
      const passkey = known.filter(isPasskey).find(one => one.id === id)
      if (!passkey) throw new Refused('passkey_unknown')
      const publicKey = new Uint8Array(Buffer.from(passkey.key, 'base64url'))
      // The counter is compared below, in the change of the record.
      const credential = { id, publicKey, counter: 0 }
      const verify = async (expected: Expected) => {
        const response = readJson(answer)
        refuseOtherOrigins(response)
        const about = { response, credential, requireUserVerification: mustVerify }
        const result = await verifyAuthenticationResponse({ ...about, ...expected })
        return result.verified ? result.authenticationInfo : undefined
      }
      const { newCounter: counter, isRepeated } = await check(place, verify, ctx)
      const isUsed = await factors.use(account, factor => {
        if (factor.id !== id || !isPasskey(factor)) return undefined
        // Passkeys that do not count always have 0 (WebAuthn Level 3 §6.1.1).
        const isSame = counter === factor.counter && (isRepeated || counter === 0)
        const isLater = counter > factor.counter || isSame
        return isLater ? { ...factor, counter, used } : undefined
      })
      if (!isUsed) throw new Refused('passkey_counter')
      return passkey
    },
  }
}

/**
 * Returns the answer of a new passkey, without a statement of its maker. Usher asks for none, but some browsers send one
 * anyway. The package would fetch the revocation lists that its certificates name. A key that signs for itself (packed,
 * without certificates) keeps its statement, which is verified.
 */
function withoutCertificates(answer: unknown): RegistrationResponseJSON {
  const sent = answer as RegistrationResponseJSON
  // The decoder of the package: others read some texts differently.
  const text = textOf(mapOf(mapOf(answer).response).attestationObject)
  const attestation = decodeAttestationObject(isoBase64URL.toBuffer(text))
  const isSelf = attestation.get('fmt') === 'packed' && !attestation.get('attStmt').get('x5c')
  if (attestation.get('fmt') === 'none' || isSelf) return sent
  const none = new Map<string, string | Map<string, string> | Uint8Array>([
    ['fmt', 'none'],
    ['attStmt', new Map<string, string>()],
    ['authData', attestation.get('authData')],
  ])
  const attestationObject = base64url(isoCBOR.encode(none))
  return { ...sent, response: { ...sent.response, attestationObject } }
}

/** Throws for an answer of a page that another origin has framed (WebAuthn Level 3 §7.1, §7.2). */
function refuseOtherOrigins(answer: unknown): void {
  const encoded = textOf(mapOf(mapOf(answer).response).clientDataJSON)
  const { crossOrigin, topOrigin } = mapOf(readJson(Buffer.from(encoded, 'base64url').toString()))
  if (crossOrigin === true || topOrigin !== undefined) throw new Error('a page of another origin')
}

/** WebAuthn Level 3 §7.1. */
const MAX_ID_BYTES = 1023
/** 2,048 to 4,096 bits. */
const RSA_MODULUS_BYTES = { min: 256, max: 512 }
/** Longer exponents cost much time for each answer, and are not in use. */
const MAX_RSA_EXPONENT_BYTES = 4
/** Labels of COSE (RFC 9053): type, algorithm, and the parameters by type. */
const COSE = { type: 1, rsaModulus: -1, rsaExponent: -2 }
/** The number of parameters of a key by its type, with type and algorithm: OKP, EC2, RSA. */
const PARAMETERS = new Map([
  [1, 4],
  [2, 5],
  [3, 4],
])
const RSA = 3

/** Throws for a credential that costs too much to store or to use. A key has no other members (§6.5.1.1). */
function refuseOddKeys({ id, publicKey }: { id: string; publicKey: Uint8Array<ArrayBuffer> }) {
  if (Buffer.from(id, 'base64url').length > MAX_ID_BYTES) throw new Error('the id is too long')
  const key = decodeCredentialPublicKey(publicKey) as unknown as Map<number, unknown>
  const type = key.get(COSE.type)
  if (key.size !== PARAMETERS.get(Number(type))) throw new Error('the key has other members')
  if (type !== RSA) return
  const sizeOf = (label: number) => Buffer.from(key.get(label) as Uint8Array).length
  const modulus = sizeOf(COSE.rsaModulus)
  const isUsual = modulus >= RSA_MODULUS_BYTES.min && modulus <= RSA_MODULUS_BYTES.max
  if (!isUsual) throw new Error('the modulus of the key has an unusual length')
  if (sizeOf(COSE.rsaExponent) > MAX_RSA_EXPONENT_BYTES) throw new Error('the exponent is too long')
}
