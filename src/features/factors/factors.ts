// Second factors of accounts: passkeys, one-time codes and recovery codes. One record for each account:
//
//   Factors accountId → Factors     indexed under 'factors'
//   PasskeyHost host → { host }     indexed under 'passkey hosts': the hosts that passkeys of this store are for
//
// Every use of a factor is one compare-and-set of the record, so that it has exactly one winner on all nodes.

import { randomInt } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { namesIn } from '../../config/schema/values.ts'
import type { ClientInfo } from '../../oidc/adapter/session-record.ts'
import { BOUNDS } from '../../oidc/bounds.ts'
import type { Found, Records } from '../../store/records.ts'
import { now } from '../../store/store.ts'

/** The latest use of a factor. `at`: epoch seconds. */
export interface Use {
  at: number
  client?: ClientInfo
}

interface FactorBase {
  id: string
  /** The name that the user gave it; empty for the usual name. */
  name: string
  /** Epoch seconds. */
  created: number
  used?: Use
}

/** An app that generates one-time codes (RFC 6238). */
export interface Totp extends FactorBase {
  type: 'totp'
  /** Base32. */
  secret: string
  /** The time step of the latest code that was used. Codes up to it are refused. */
  step: number
}

/** How a browser reaches a passkey (WebAuthn Level 3 §5.8.4). */
export const TRANSPORTS = namesIn('ble cable hybrid internal nfc smart-card usb')

/** A passkey (WebAuthn Level 3). Its id is the id of the credential, base64url. */
export interface Passkey extends FactorBase {
  type: 'passkey'
  /** The host of the issuer (RP ID). It works at no other. */
  host: string
  /** COSE key, base64url. */
  key: string
  /** The signature counter of its latest use; 0 for passkeys that do not count. */
  counter: number
  transports: (typeof TRANSPORTS)[number][]
  /** Whether the key stays on one device: a password manager copies it to others. */
  isDeviceBound: boolean
}

/** A factor of an account. */
export type Factor = Totp | Passkey

/** A host (RP ID) that passkeys of the store are for. */
export interface PasskeyHost {
  host: string
}

/** The second factors of an account. */
export interface Factors {
  accountId: string
  factors: Factor[]
  /** Keyed hashes of the recovery codes that were not used. */
  recovery: string[]
  /** The user can sign in without a second factor until then (epoch seconds). */
  due?: number
  /** A keyed hash of the interaction in which the latest factor was added. */
  addedIn?: string
}

/** The means by which a user passed the step: for the audit log and the metrics. */
export type Method = Factor['type'] | 'recovery_code'

/** Whether a factor is a passkey. */
export const isPasskey = (factor: Factor): factor is Passkey => factor.type === 'passkey'

/** See `createFactors`. */
export type FactorStore = ReturnType<typeof createFactors>

const MAX_FACTORS = BOUNDS.factors.max
/** As JSON: 20 usual ones have 12 kB. Each use rewrites the record. */
const MAX_FACTORS_CHARS = BOUNDS.factorsSize.max
const RECOVERY_CODES = 10
/** 31 characters, none of which looks like another. */
const ALPHABET = 'abcdefghjkmnpqrstuvwxyz23456789'

/** Returns the operations on the second factors in a store. */
export function createFactors(records: Records) {
  const kind = 'Factors'
  const none = (accountId: string): Factors => ({ accountId, factors: [], recovery: [] })
  function change(accountId: string, decide: (found: Factors) => Factors | undefined) {
    const next = ({ value }: Found<Factors>) => decide({ ...none(accountId), ...value })
    return records.change<Factors>(kind, accountId, next, { indexes: [['factors', 'all']] })
  }
  const hashOf = (accountId: string, code: string) =>
    records.keyedHash('recovery code', `${accountId} ${code}`).toString('base64url')
  const interactionHash = (uid: string) =>
    records.keyedHash('factor added', uid).toString('base64url')

  const hashed = (accountId: string, codes: string[]) => ({
    codes,
    recovery: codes.map(code => hashOf(accountId, plainCode(code))),
  })

  /** Ten new codes, as text and as hashes. */
  const newCodes = (accountId: string) =>
    hashed(accountId, Array.from({ length: RECOVERY_CODES }, newCode))

  /**
   * The codes that come with a factor. Only this installation can make them: if the page with them was lost, it is shown
   * again without a copy of them in the store.
   */
  function codesWith(accountId: string, factorId: string) {
    const bytesOf = (i: number) =>
      records.keyedHash('codes with a factor', `${accountId} ${factorId} ${i}`)
    return hashed(
      accountId,
      Array.from({ length: RECOVERY_CODES }, (_, i) => codeFrom(bytesOf(i))),
    )
  }

  return {
    /** Every account has a result. */
    async read(accountId: string): Promise<Factors> {
      const { value } = await records.read<Factors>(kind, accountId)
      return { ...none(accountId), ...value }
    },

    /**
     * Adds a factor, and recovery codes if there are none. Returns the new codes, which exist as hashes only
     * from then on; undefined if the account has too many factors, or this one. `uid`: of the interaction.
     */
    async add(accountId: string, factor: Factor, uid?: string): Promise<string[] | undefined> {
      const fresh = codesWith(accountId, factor.id)
      const { before, isWritten } = await change(accountId, found => {
        const isKnown = found.factors.some(({ id }) => id === factor.id)
        if (isKnown || found.factors.length >= MAX_FACTORS) return undefined
        const factors = [...found.factors, factor]
        if (JSON.stringify(factors).length > MAX_FACTORS_CHARS) return undefined
        return {
          ...found,
          factors,
          recovery: found.recovery.length ? found.recovery : fresh.recovery,
          addedIn: uid && interactionHash(uid),
        }
      })
      if (!isWritten) return undefined
      return before?.recovery.length ? [] : fresh.codes
    },

    /** Returns the recovery codes that came with a factor, while none of them was used or replaced. */
    codesOf({ accountId, recovery }: Factors, factorId: string): string[] {
      const known = codesWith(accountId, factorId)
      return isDeepStrictEqual(known.recovery, recovery) ? known.codes : []
    },

    /** Whether the interaction with this uid added the latest factor. */
    isAddedIn: ({ addedIn }: Factors, uid: string) => addedIn === interactionHash(uid),

    /**
     * Removes a factor; with the last one also the recovery codes. Returns it. `isEnough`: whether the user may have
     * the remaining factors only.
     */
    async remove(accountId: string, id: string, isEnough = (_remaining: Factors) => true) {
      const { before, isWritten } = await change(accountId, found => {
        const factors = found.factors.filter(factor => factor.id !== id)
        const isKnown = factors.length < found.factors.length
        if (!isKnown || !isEnough({ ...found, factors })) return undefined
        const recovery = factors.length ? found.recovery : []
        // A sign-in that has just added the factor needs it again.
        return { ...found, factors, recovery, addedIn: undefined }
      })
      return isWritten ? before?.factors.find(factor => factor.id === id) : undefined
    },

    /** Removes everything: for a user who has lost it all. Returns the factors that there were. */
    async reset(accountId: string): Promise<Factor[]> {
      const { before } = await change(accountId, () => none(accountId))
      return before?.factors ?? []
    },

    /** Replaces the recovery codes. Returns undefined for an account without a factor. */
    async renewRecovery(accountId: string): Promise<string[] | undefined> {
      const { codes, recovery } = newCodes(accountId)
      const { isWritten } = await change(accountId, found =>
        found.factors.length ? { ...found, recovery } : undefined,
      )
      return isWritten ? codes : undefined
    },

    /** Uses a recovery code. True for one caller. */
    async useRecovery(accountId: string, typed: string): Promise<boolean> {
      const hash = hashOf(accountId, plainCode(typed))
      const { isWritten } = await change(accountId, found => {
        const recovery = found.recovery.filter(known => known !== hash)
        return recovery.length < found.recovery.length ? { ...found, recovery } : undefined
      })
      return isWritten
    },

    /** Replaces the factor for which `use` returns its next state. True for one caller. */
    async use(accountId: string, use: (factor: Factor) => Factor | undefined): Promise<boolean> {
      const { isWritten } = await change(accountId, found => {
        const next = found.factors.map(factor => use(factor) ?? factor)
        const isUsed = next.some((factor, i) => factor !== found.factors[i])
        return isUsed ? { ...found, factors: next } : undefined
      })
      return isWritten
    },

    /** Returns the end of the grace period (epoch seconds), which begins now if it has not begun. */
    async startGrace(accountId: string, seconds: number): Promise<number> {
      const due = now() + seconds
      const { before } = await change(accountId, found =>
        found.due === undefined ? { ...found, due } : undefined,
      )
      return before?.due ?? due
    },

    /** A secret that only this installation can make, from a random text on the page that shows it. */
    secretOf(accountId: string, nonce: string): Buffer {
      const part = (n: number) => records.keyedHash('one-time codes', `${accountId} ${nonce} ${n}`)
      return Buffer.concat([part(1), part(2)]).subarray(0, 20)
    },

    /** The hosts that the passkeys of this store are for. */
    passkeyHosts: () => records.list<PasskeyHost>('passkey hosts', 'all'),

    /** Adds a host, before its first passkey. */
    addPasskeyHost: (host: string) =>
      records.save('PasskeyHost', host, { host }, { indexes: [['passkey hosts', 'all']] }),
  }
}

/** Returns the factors of a backup. No code that was used since is valid again; the user makes new recovery codes. */
export function restored(found: Factors): Factors {
  const step = Math.floor(now() / 30) + 1
  const factors = found.factors.map(one => (one.type === 'totp' ? { ...one, step } : one))
  return { ...found, factors, recovery: [] }
}

/** Factors without their secrets, for commands. */
export const withoutSecrets = ({ factors, recovery }: Factors) => ({
  factors: factors.map(({ id, type, name, created, used }) => ({ id, type, name, created, used })),
  recovery_codes: recovery.length,
})

/** Returns a sentence about the second factors of an account; empty without any. */
export function describeFactors({ factors, recovery }: Factors): string {
  const types = factors.map(({ type }) => type).join(', ')
  return types && ` Second factors: ${types}; recovery codes: ${recovery.length}.`
}

/** Three groups of four characters: 59 bits. */
function newCode(): string {
  const group = () => Array.from({ length: 4 }, () => ALPHABET[randomInt(ALPHABET.length)]).join('')
  return [group(), group(), group()].join('-')
}

/** A code from 16 bytes, of which it has 59 bits. */
function codeFrom(bytes: Buffer): string {
  let left = BigInt(`0x${bytes.toString('hex')}`)
  const next = () => {
    const index = Number(left % BigInt(ALPHABET.length))
    left /= BigInt(ALPHABET.length)
    return ALPHABET[index]
  }
  const group = () => Array.from({ length: 4 }, next).join('')
  return [group(), group(), group()].join('-')
}

const plainCode = (typed: string) =>
  asciiDigits(typed)
    .toLowerCase()
    .replace(/[^a-z\d]/g, '')

/** Returns a text with the decimal digits of any script as those of ASCII, and compatible characters as the usual ones. */
export function asciiDigits(text: string): string {
  return text.normalize('NFKC').replace(/\p{Nd}/gu, digit => {
    // The ten digits of a script stand together, zero first.
    let value = 0
    const isDigit = (code: number) => /\p{Nd}/u.test(String.fromCodePoint(code))
    while (isDigit((digit.codePointAt(0) ?? 0) - value - 1)) value++
    return String(value % 10)
  })
}
