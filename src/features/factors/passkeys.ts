// Passkeys (WebAuthn Level 3): what the browser needs to add or use one, and
// the checks of its answers.
//
//   add   page: addOptions → the browser makes a key pair → form: confirm → FactorStore.add (add-factor.ts)
//   use   page: useOptions → the browser signs           → form: use → FactorStore.use stores the counter
//
// A challenge is the time, 12 random bytes, and a keyed hash of both and of the
// place where it is answered: an interaction or a session, which are bound to a
// browser. It is stored when it was used, so that one of several answers
// succeeds:
//
//   PasskeyChallenge challenge → {}
//
// The user handle is the id of the account: a passkey leads to its account
// without an index.

import { randomBytes } from 'node:crypto'
import {
  generateAuthenticationOptions,
  generateRegistrationOptions,
  type RegistrationResponseJSON,
  verifyAuthenticationResponse,
  verifyRegistrationResponse,
} from '@simplewebauthn/server'
import {
  COSEALG,
  decodeAttestationObject,
  decodeCredentialPublicKey,
  isoBase64URL,
  isoCBOR,
} from '@simplewebauthn/server/helpers'
import type { Context } from 'koa'
import type { Settings } from '../../config/load.ts'
import { redact } from '../../oidc/display-text.ts'
import type { Login } from '../../oidc/interactions.ts'
import { PHISHING_RESISTANT_ACR } from '../../oidc/vocabulary.ts'
import type { Account } from '../../sign-in/account.ts'
import { reasonOf } from '../../store/reasons.ts'
import type { Records } from '../../store/records.ts'
import { now } from '../../store/store.ts'
import { mapOf, readJson } from '../../store/values.ts'
import { Refused } from './attempts.ts'
import {
  type FactorStore,
  isPasskey,
  type Passkey,
  TRANSPORTS,
  type Use,
} from './factors.ts'
import { passkeyHostOf } from './rules.ts'

/** See `createPasskeys`. */
export type Passkeys = ReturnType<typeof createPasskeys>

/** An answer of the browser, as a form has it. */
export interface Answer {
  text: string
  /** The place of its challenge; see `placeOf`. */
  place: string
  use: Use
  /** The request: after a 503 its form can be sent again. */
  ctx?: Context
}

/** The values that the package compares with an answer. */
interface Expected {
  expectedOrigin: string
  expectedRPID: string
  expectedChallenge(challenge: string): boolean
}

/**
 * The algorithms of new passkeys. The package would also offer ML-DSA, which is
 * an experimental feature of Node.
 */
const ALGORITHMS = [COSEALG.EdDSA, COSEALG.ES256, COSEALG.RS256]
/** The time and the random bytes of a challenge, before the keyed hash. */
const START_BYTES = 16
/** Challenges that one process remembers. */
const MAX_INTERRUPTED = 1000
/** A user handle has at most so many bytes (WebAuthn Level 3 §5.4.3). */
const MAX_HANDLE_BYTES = 64

const base64url = (bytes: Uint8Array) =>
  Buffer.from(bytes).toString('base64url')
/**
 * Returns a member of an answer; empty if it is no text. Of a list or map,
 * `Buffer.from` could make gigabytes.
 */
const textOf = (value: unknown) => (typeof value === 'string' ? value : '')

/**
 * The sign-in after the use of a passkey (RFC 8176). A passkey alone has two
 * factors, too.
 */
export function raised(login: Login, { isDeviceBound }: Passkey): Login {
  const amr = [...login.amr, isDeviceBound ? 'hwk' : 'swk', 'user', 'mfa']
  return { ...login, amr: [...new Set(amr)], acr: PHISHING_RESISTANT_ACR }
}

/**
 * Returns the id of the passkey in an answer of the browser, and the account
 * that it names.
 */
export function credentialIn(answer: string): { id: string; account: string } {
  const { id, response } = mapOf(readJson(answer))
  const { userHandle } = mapOf(response)
  const handle = Buffer.from(textOf(userHandle), 'base64url').subarray(
    0,
    MAX_HANDLE_BYTES,
  )
  return { id: textOf(id), account: handle.toString() }
}

/** Returns the challenges of an issuer, which are valid for `ttl` seconds. */
function createChallenges(records: Records, ttl: number) {
  const used = records.of<object>('PasskeyChallenge')
  /**
   * Challenges that were taken by requests that the store then interrupted: the
   * same form is sent again.
   */
  const interrupted = new Set<string>()

  const withHash = (place: string, start: Buffer) =>
    Buffer.concat([
      start,
      records.keyedHash('passkey challenge', `${base64url(start)} ${place}`),
    ])

  /** Remembers the challenge of a request that is answered with 503. */
  function watch(ctx: Context, challenge: string) {
    ctx.res.once('close', () => {
      if (ctx.status !== 503) return
      if (interrupted.size >= MAX_INTERRUPTED) interrupted.clear()
      interrupted.add(challenge)
    })
  }

  return {
    create(place: string) {
      const start = randomBytes(START_BYTES)
      start.writeUInt32BE(now())
      return new Uint8Array(withHash(place, start))
    },

    /** Whether a challenge is one of this place that has not expired. */
    isValid(place: string, challenge: string): boolean {
      const start = Buffer.from(challenge, 'base64url').subarray(0, START_BYTES)
      if (start.length < START_BYTES) return false
      if (base64url(withHash(place, start)) !== challenge) return false
      return start.readUInt32BE() + ttl >= now()
    },

    /**
     * Takes a challenge, which one answer can. `isRepeated`: a request that was
     * answered with 503 had taken it. Throws `Refused` if it was taken
     * otherwise.
     */
    async take(
      challenge: string,
      ctx?: Context,
    ): Promise<{ isRepeated: boolean }> {
      if (ctx) watch(ctx, challenge)
      if (await used.save(challenge, {}, { ttl })) return { isRepeated: false }
      if (interrupted.delete(challenge)) return { isRepeated: true }
      throw new Refused('passkey_replayed')
    },
  }
}

/**
 * Returns the functions for the passkeys of an issuer. The RP ID is its host.
 */
export function createPasskeys(
  settings: Settings,
  records: Records,
  factors: FactorStore,
) {
  const { issuer, branding, lifetimes, sign_in } = settings
  const rpID = passkeyHostOf(settings)
  const timeout = lifetimes.interaction * 1000
  const challenges = createChallenges(records, lifetimes.interaction)
  // A security key without a PIN is enough as a second factor, and not alone.
  const isAlone = sign_in.second_factor === 'off'
  const wanted = isAlone ? 'required' : 'preferred'

  /** Verifies an answer, and takes its challenge. Throws `Refused`. */
  async function check<T extends object>(
    { place, ctx }: Answer,
    verify: (expected: Expected) => Promise<T | undefined>,
  ): Promise<T & { isRepeated: boolean }> {
    let challenge = ''
    const expected: Expected = {
      expectedOrigin: issuer,
      expectedRPID: rpID,
      expectedChallenge(sent) {
        challenge = textOf(sent)
        return challenges.isValid(place, challenge)
      },
    }
    // The package throws for most wrong answers, whatever is wrong.
    const verified = await verify(expected).catch(error => {
      throw new Refused('passkey_wrong', redact(reasonOf(error)))
    })
    if (!verified) throw new Refused('passkey_wrong', 'wrong signature')
    const { isRepeated } = await challenges.take(challenge, ctx)
    return { ...verified, isRepeated }
  }

  async function findPasskey(
    accountId: string,
    id: string,
  ): Promise<Passkey | undefined> {
    const { factors: known } = await factors.read(accountId)
    return known.filter(isPasskey).find(one => one.id === id)
  }

  /** The values that the browser needs to find a passkey. */
  const descriptorOf = ({ id, transports }: Passkey) => ({ id, transports })

  return {
    rpID,

    /**
     * Returns the options with which the browser uses one of these passkeys; by
     * default any, with user verification.
     */
    async useOptions(place: string, own?: Passkey[]): Promise<string> {
      const options = await generateAuthenticationOptions({
        rpID,
        challenge: challenges.create(place),
        timeout,
        userVerification: own ? 'preferred' : 'required',
        allowCredentials: own?.map(descriptorOf),
      })
      return JSON.stringify(options)
    },

    /** Returns the options with which the browser adds a passkey. */
    async addOptions(
      place: string,
      account: Account,
      own: Passkey[],
    ): Promise<string> {
      const options = await generateRegistrationOptions({
        rpID,
        rpName: branding.name,
        userID: new Uint8Array(Buffer.from(account.id)),
        userName: account.username,
        userDisplayName: account.name ?? account.username,
        challenge: challenges.create(place),
        timeout,
        authenticatorSelection: {
          residentKey: wanted,
          userVerification: wanted,
        },
        excludeCredentials: own.map(descriptorOf),
        supportedAlgorithmIDs: ALGORITHMS,
      })
      return JSON.stringify(options)
    },

    /**
     * Returns the new passkey of an answer, with this name. Throws `Refused`.
     */
    async confirm(answer: Answer, name: string): Promise<Passkey> {
      const registered = await check(answer, async expected => {
        const sent = readJson(answer.text)
        refuseOtherOrigins(sent)
        const { registrationInfo } = await verifyRegistrationResponse({
          ...expected,
          response: withoutCertificates(sent),
          requireUserVerification: isAlone,
          supportedAlgorithmIDs: ALGORITHMS,
        })
        if (registrationInfo) refuseOddKeys(registrationInfo.credential)
        return registrationInfo
      })
      await factors.addPasskeyHost(rpID)
      const { id, publicKey, counter, transports } = registered.credential
      return {
        type: 'passkey',
        id,
        name,
        created: answer.use.at,
        used: answer.use,
        host: rpID,
        key: base64url(publicKey),
        counter,
        transports: TRANSPORTS.filter(known =>
          [transports].flat().includes(known),
        ),
        isDeviceBound: registered.credentialDeviceType === 'singleDevice',
      }
    },

    /** Whether an account has the passkey with this id. */
    async has(accountId: string, id: string): Promise<boolean> {
      return (await findPasskey(accountId, id)) !== undefined
    },

    /**
     * Uses a passkey of an account, and returns it. `mustVerify`: the browser
     * must have verified the user, because the passkey is the only factor.
     * Throws `Refused`.
     */
    async use(
      accountId: string,
      answer: Answer,
      { mustVerify }: { mustVerify: boolean },
    ): Promise<Passkey> {
      const { id } = credentialIn(answer.text)
      const passkey = await findPasskey(accountId, id)
      if (!passkey) throw new Refused('passkey_unknown')
      const publicKey = new Uint8Array(Buffer.from(passkey.key, 'base64url'))
      const { newCounter, isRepeated } = await check(answer, async expected => {
        const response = readJson(answer.text)
        refuseOtherOrigins(response)
        const result = await verifyAuthenticationResponse({
          ...expected,
          response,
          // The counter is compared below, in the change of the record.
          credential: { id, publicKey, counter: 0 },
          requireUserVerification: mustVerify,
        })
        return result.verified ? result.authenticationInfo : undefined
      })
      const isUsed = await factors.replaceFactor(accountId, factor => {
        if (factor.id !== id || !isPasskey(factor)) return undefined
        if (!isCounterValid(factor.counter, newCounter, isRepeated))
          return undefined
        return { ...factor, counter: newCounter, used: answer.use }
      })
      if (!isUsed) throw new Refused('passkey_counter')
      return passkey
    },
  }
}

/**
 * Whether a signature counter is later than the stored one. An equal one: of a
 * passkey that does not count, or a retry.
 */
function isCounterValid(
  stored: number,
  sent: number,
  isRepeated: boolean,
): boolean {
  if (sent > stored) return true
  // Passkeys that do not count always have 0 (WebAuthn Level 3 §6.1.1).
  return sent === stored && (isRepeated || sent === 0)
}

/**
 * Returns the answer of a new passkey, without a statement of its maker. Usher
 * asks for none, but some browsers send one anyway. The package would fetch the
 * revocation lists that its certificates name. A key that signs for itself
 * (packed, without certificates) keeps its statement, which is verified.
 */
function withoutCertificates(answer: unknown): RegistrationResponseJSON {
  const sent = answer as RegistrationResponseJSON
  // The decoder of the package: others read some texts differently.
  const text = textOf(mapOf(mapOf(answer).response).attestationObject)
  const attestation = decodeAttestationObject(isoBase64URL.toBuffer(text))
  const format = attestation.get('fmt')
  const isSelf = format === 'packed' && !attestation.get('attStmt').get('x5c')
  if (format === 'none' || isSelf) return sent
  const none = new Map<string, string | Map<string, string> | Uint8Array>([
    ['fmt', 'none'],
    ['attStmt', new Map<string, string>()],
    ['authData', attestation.get('authData')],
  ])
  const attestationObject = base64url(isoCBOR.encode(none))
  return { ...sent, response: { ...sent.response, attestationObject } }
}

/**
 * Throws for an answer of a page that another origin has framed (WebAuthn Level
 * 3 §7.1, §7.2).
 */
function refuseOtherOrigins(answer: unknown): void {
  const encoded = textOf(mapOf(mapOf(answer).response).clientDataJSON)
  const { crossOrigin, topOrigin } = mapOf(
    readJson(Buffer.from(encoded, 'base64url').toString()),
  )
  if (crossOrigin === true || topOrigin !== undefined)
    throw new Error('a page of another origin')
}

/** WebAuthn Level 3 §7.1. */
const MAX_ID_BYTES = 1023
/** 2,048 to 4,096 bits. */
const RSA_MODULUS_BYTES = { min: 256, max: 512 }
/** Longer exponents cost much time for each answer, and are not in use. */
const MAX_RSA_EXPONENT_BYTES = 4
/** Labels of COSE (RFC 9053): type, algorithm, and the parameters by type. */
const COSE = { type: 1, rsaModulus: -1, rsaExponent: -2 }
/** Types of keys (RFC 9053 §7, RFC 8230 §4). */
const OKP = 1
const EC2 = 2
const RSA = 3
/** The number of parameters of a key by its type, with type and algorithm. */
const PARAMETERS = new Map([
  [OKP, 4],
  [EC2, 5],
  [RSA, 4],
])

/**
 * Throws for a credential that costs too much to store or to use. A key has no
 * other members (§6.5.1.1).
 */
function refuseOddKeys({
  id,
  publicKey,
}: {
  id: string
  publicKey: Uint8Array<ArrayBuffer>
}) {
  if (Buffer.from(id, 'base64url').length > MAX_ID_BYTES)
    throw new Error('the id is too long')
  const key = decodeCredentialPublicKey(publicKey) as unknown as Map<
    number,
    unknown
  >
  const type = key.get(COSE.type)
  if (key.size !== PARAMETERS.get(Number(type)))
    throw new Error('the key has other members')
  if (type !== RSA) return
  const sizeOf = (label: number) =>
    Buffer.from(key.get(label) as Uint8Array).length
  const modulusBytes = sizeOf(COSE.rsaModulus)
  const isTooShort = modulusBytes < RSA_MODULUS_BYTES.min
  const isTooLong = modulusBytes > RSA_MODULUS_BYTES.max
  if (isTooShort || isTooLong)
    throw new Error('the modulus of the key has an unusual length')
  if (sizeOf(COSE.rsaExponent) > MAX_RSA_EXPONENT_BYTES)
    throw new Error('the exponent is too long')
}
