// Second factors of accounts: passkeys, one-time codes and recovery codes. One
// record for each account:
//
//   Factors accountId → Factors     indexed under 'factors'
//   PasskeyHost host → { host }     indexed under 'passkey hosts': the hosts that passkeys of this store are for
//
// Every use of a factor is one compare-and-set of the record, so that it has
// exactly one winner on all nodes.

import { randomInt } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { ClientInfo } from '../../oidc/adapter/session-record.ts'
import { BOUNDS } from '../../oidc/bounds.ts'
import { recordsOfAccounts } from '../../sign-in/account-records.ts'
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
  /**
   * The time step of the latest code that was used. Codes up to it are refused.
   */
  step: number
}

/** How a browser reaches a passkey (WebAuthn Level 3 §5.8.4). */
export const TRANSPORTS = [
  'ble',
  'cable',
  'hybrid',
  'internal',
  'nfc',
  'smart-card',
  'usb',
] as const

/**
 * A passkey (WebAuthn Level 3). Its id is the id of the credential, base64url.
 */
export interface Passkey extends FactorBase {
  type: 'passkey'
  /** The host of the issuer (RP ID). It works at no other. */
  host: string
  /** COSE key, base64url. */
  key: string
  /**
   * The signature counter of its latest use; 0 for passkeys that do not count.
   */
  counter: number
  transports: (typeof TRANSPORTS)[number][]
  /**
   * Whether the key stays on one device: a password manager copies it to
   * others.
   */
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
  /**
   * The user can sign in without a second factor until then (epoch seconds).
   */
  due?: number
  /** A keyed hash of the interaction in which the latest factor was added. */
  addedIn?: string
}

/**
 * The means by which a user passed the step: for the audit log and the metrics.
 */
export type Method = Factor['type'] | 'recovery_code'

/** Whether a factor is a passkey. */
export const isPasskey = (factor: Factor): factor is Passkey =>
  factor.type === 'passkey'

/** See `createFactors`. */
export type FactorStore = ReturnType<typeof createFactors>

const MAX_FACTORS = BOUNDS.factors.max
/**
 * The size of all factors of an account as JSON: 20 usual ones have 12 kB. Each
 * use rewrites the record.
 */
const MAX_FACTORS_CHARS = BOUNDS.factorsSize.max
const RECOVERY_CODES = 10
const TOTP_SECRET_BYTES = 20
/** 31 characters, none of which looks like another. */
const ALPHABET = 'abcdefghjkmnpqrstuvwxyz23456789'

/** Recovery codes as text, and their keyed hashes. */
interface RecoveryCodes {
  codes: string[]
  recovery: string[]
}

/** The factors of an account that has none. */
const noFactors = (accountId: string): Factors => ({
  accountId,
  factors: [],
  recovery: [],
})

/**
 * Returns the factors without one of them; with the last one go the recovery
 * codes.
 */
export function withoutFactor(found: Factors, id: string): Factors {
  const factors = found.factors.filter(factor => factor.id !== id)
  return { ...found, factors, recovery: factors.length ? found.recovery : [] }
}

/** Returns the operations on the second factors in a store. */
export function createFactors(records: Records) {
  const collection = recordsOfAccounts<Factors>(records, 'Factors')
  const passkeyHosts = records.of<PasskeyHost>('PasskeyHost', { backup: true })

  /** Changes the factors of an account, unless `decide` returns undefined. */
  function changeFactors(
    accountId: string,
    decide: (found: Factors) => Factors | undefined,
  ) {
    const next = ({ value }: Found<Factors>) =>
      decide(value ?? noFactors(accountId))
    return collection.change(accountId, next, { indexes: [['factors', 'all']] })
  }

  const recoveryHash = (accountId: string, code: string) =>
    records
      .keyedHash('recovery code', `${accountId} ${plainCode(code)}`)
      .toString('base64url')

  const interactionHash = (uid: string) =>
    records.keyedHash('factor added', uid).toString('base64url')

  function withHashes(accountId: string, codes: string[]): RecoveryCodes {
    const recovery = codes.map(code => recoveryHash(accountId, code))
    return { codes, recovery }
  }

  /**
   * Returns the codes that come with a factor. Only this installation can make
   * them: if the page with them was lost, it is shown again without a copy of
   * them in the store.
   */
  function codesWith(accountId: string, factorId: string): RecoveryCodes {
    const codes: string[] = []
    for (let i = 0; i < RECOVERY_CODES; i++) {
      const bytes = records.keyedHash(
        'codes with a factor',
        `${accountId} ${factorId} ${i}`,
      )
      codes.push(codeFrom(bytes))
    }
    return withHashes(accountId, codes)
  }

  return {
    /** Returns the factors of an account, which may be none. */
    async read(accountId: string): Promise<Factors> {
      const { value } = await collection.read(accountId)
      return value ?? noFactors(accountId)
    },

    /** Returns the factors of many accounts, in the order of the ids. */
    async readMany(accountIds: string[]): Promise<Factors[]> {
      const found = await collection.readMany(accountIds)
      return accountIds.map((id, i) => found[i]?.value ?? noFactors(id))
    },

    /**
     * Adds a factor, and recovery codes if there are none. Returns the new
     * codes, which exist as hashes only from then on; undefined if the account
     * has too many factors, or this one. `uid`: of the interaction.
     */
    async add(
      accountId: string,
      factor: Factor,
      uid?: string,
    ): Promise<string[] | undefined> {
      const fresh = codesWith(accountId, factor.id)
      const { before, isWritten } = await changeFactors(accountId, found => {
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

    /**
     * Returns the recovery codes that came with a factor, while none of them
     * was used or replaced.
     */
    codesOf({ accountId, recovery }: Factors, factorId: string): string[] {
      const known = codesWith(accountId, factorId)
      return isDeepStrictEqual(known.recovery, recovery) ? known.codes : []
    },

    /** Whether the interaction with this uid added the latest factor. */
    isAddedIn: ({ addedIn }: Factors, uid: string) =>
      addedIn === interactionHash(uid),

    /**
     * Removes a factor; with the last one also the recovery codes. Returns it.
     * `isEnough`: whether the user may have the remaining factors only.
     */
    async remove(
      accountId: string,
      id: string,
      isEnough = (_remaining: Factors) => true,
    ) {
      const { before, isWritten } = await changeFactors(accountId, found => {
        const remaining = withoutFactor(found, id)
        const isKnown = remaining.factors.length < found.factors.length
        if (!isKnown || !isEnough(remaining)) return undefined
        // A sign-in that has just added the factor needs it again.
        return { ...remaining, addedIn: undefined }
      })
      return isWritten
        ? before?.factors.find(factor => factor.id === id)
        : undefined
    },

    /**
     * Removes everything: for a user who has lost it all. Returns the factors
     * that there were.
     */
    async reset(accountId: string): Promise<Factor[]> {
      const { before } = await changeFactors(accountId, () =>
        noFactors(accountId),
      )
      return before?.factors ?? []
    },

    /**
     * Replaces the recovery codes. Returns undefined for an account without a
     * factor.
     */
    async renewRecovery(accountId: string): Promise<string[] | undefined> {
      const fresh = Array.from({ length: RECOVERY_CODES }, newCode)
      const { codes, recovery } = withHashes(accountId, fresh)
      const { isWritten } = await changeFactors(accountId, found =>
        found.factors.length ? { ...found, recovery } : undefined,
      )
      return isWritten ? codes : undefined
    },

    /** Uses a recovery code. True for one caller. */
    async useRecovery(accountId: string, typed: string): Promise<boolean> {
      const hash = recoveryHash(accountId, typed)
      const { isWritten } = await changeFactors(accountId, found => {
        const recovery = found.recovery.filter(known => known !== hash)
        return recovery.length < found.recovery.length
          ? { ...found, recovery }
          : undefined
      })
      return isWritten
    },

    /**
     * Replaces the factor for which `change` returns its next state. True for
     * one caller.
     */
    async replaceFactor(
      accountId: string,
      change: (factor: Factor) => Factor | undefined,
    ): Promise<boolean> {
      const { isWritten } = await changeFactors(accountId, found => {
        const next = found.factors.map(factor => change(factor) ?? factor)
        const isReplaced = next.some((factor, i) => factor !== found.factors[i])
        return isReplaced ? { ...found, factors: next } : undefined
      })
      return isWritten
    },

    /**
     * Returns the end of the grace period (epoch seconds), which begins now if
     * it has not begun.
     */
    async startOrReadGrace(
      accountId: string,
      seconds: number,
    ): Promise<number> {
      const due = now() + seconds
      const { before } = await changeFactors(accountId, found =>
        found.due === undefined ? { ...found, due } : undefined,
      )
      return before?.due ?? due
    },

    /**
     * A secret that only this installation can make, from a random text on the
     * page that shows it.
     */
    secretOf(accountId: string, nonce: string): Buffer {
      const hashPart = (n: number) =>
        records.keyedHash('one-time codes', `${accountId} ${nonce} ${n}`)
      return Buffer.concat([hashPart(1), hashPart(2)]).subarray(
        0,
        TOTP_SECRET_BYTES,
      )
    },

    /** The hosts that the passkeys of this store are for. */
    passkeyHosts: () => passkeyHosts.list('passkey hosts', 'all'),

    /** Adds a host, before its first passkey. */
    addPasskeyHost: (host: string) =>
      passkeyHosts.save(
        host,
        { host },
        { indexes: [['passkey hosts', 'all']] },
      ),
  }
}

/**
 * Returns the factors of a backup. No code that was used since is valid again;
 * the user makes new recovery codes.
 */
export function restored(found: Factors): Factors {
  const step = Math.floor(now() / 30) + 1
  const factors = found.factors.map(one =>
    one.type === 'totp' ? { ...one, step } : one,
  )
  return { ...found, factors, recovery: [] }
}

/** Factors without their secrets, for commands. */
export const withoutSecrets = ({ factors, recovery }: Factors) => ({
  factors: factors.map(({ id, type, name, created, used }) => ({
    id,
    type,
    name,
    created,
    used,
  })),
  recovery_codes: recovery.length,
})

/**
 * Returns a sentence about the second factors of an account; empty without any.
 */
export function describeFactors({ factors, recovery }: Factors): string {
  const types = factors.map(({ type }) => type).join(', ')
  return (
    types && ` Second factors: ${types}; recovery codes: ${recovery.length}.`
  )
}

/** A recovery code has three groups of four characters: 59 bits. */
const newCode = () => codeOf(() => randomInt(ALPHABET.length))

/** Returns the recovery code of 16 random bytes. */
function codeFrom(bytes: Buffer): string {
  const size = BigInt(ALPHABET.length)
  let left = BigInt(`0x${bytes.toString('hex')}`)
  return codeOf(() => {
    const index = Number(left % size)
    left /= size
    return index
  })
}

/** Returns the code with these characters of the alphabet. */
function codeOf(nextIndex: () => number): string {
  const group = () =>
    Array.from({ length: 4 }, () => ALPHABET[nextIndex()]).join('')
  return [group(), group(), group()].join('-')
}

/** Returns a recovery code as it is hashed, however it was typed. */
const plainCode = (typed: string) =>
  asciiDigits(typed)
    .toLowerCase()
    .replace(/[^a-z\d]/g, '')

/**
 * Returns a text with the decimal digits of any script as those of ASCII, and
 * compatible characters as the usual ones.
 */
export function asciiDigits(text: string): string {
  return text.normalize('NFKC').replace(/\p{Nd}/gu, digit => {
    // The ten digits of a script stand together, zero first.
    let value = 0
    const isDigit = (code: number) => /\p{Nd}/u.test(String.fromCodePoint(code))
    while (isDigit((digit.codePointAt(0) ?? 0) - value - 1)) value++
    return String(value % 10)
  })
}
