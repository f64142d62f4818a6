// The keys that sign ID tokens, and those that decrypt request objects. The
// store keeps one encrypted schedule for all nodes. The state of a key follows
// from the schedule and the time, so that all nodes agree:
//
//   next      published in the JWKS, so that clients know it before it signs
//   current   the latest key of its algorithm that has begun to sign
//   retired   after another key became current, until everything that it signed has expired

import { createPrivateKey } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import {
  calculateJwkThumbprint,
  exportJWK,
  generateKeyPair,
  type JWK,
} from 'jose'
import type { Settings } from '../config/load.ts'
import type { SigningKey } from '../oidc/dependencies.ts'
import { lifetimesOf, MAX_JWT_SECONDS } from '../oidc/tokens.ts'
import { ENCRYPTION_ALGORITHMS } from '../oidc/vocabulary.ts'
import type { Found, Records } from '../store/records.ts'
import { now } from '../store/store.ts'
import { loadExternalKeys } from './external-keys.ts'

/**
 * Algorithms that always have a key. RS256 is first: client libraries expect it
 * by default (OIDC Core §3.1.3.7). Its keys have 2048 bits, enough for 90 days
 * (SP 800-57); a longer key costs 1.6 ms more for each signature.
 */
export const ALGORITHMS = ['RS256', 'ES256', 'EdDSA']
/**
 * PS256 gets a key when a client or an API names it: a key has one padding
 * scheme only (RFC 8017 §6). The others encrypt request objects, and get a key
 * when a client names them.
 */
const ALL_ALGORITHMS = [...ALGORITHMS, 'PS256', ...ENCRYPTION_ALGORITHMS]
const useOf = (alg: string) =>
  ENCRYPTION_ALGORITHMS.some(one => one === alg) ? 'enc' : 'sig'

/** Metadata of clients that name the algorithm of a key. */
const NAMES_KEY = /_signed_response_alg$|^request_object_encryption_alg$/

/** Creates a private key. Throws for an unknown algorithm. */
export async function makeKey(alg: string): Promise<SigningKey> {
  const { privateKey } = await generateKeyPair(alg, { extractable: true })
  return named(await exportJWK(privateKey), alg)
}

/**
 * Returns the private key of a PEM text that config/rules/signing-keys.ts has
 * validated.
 */
export async function importKey(pem: string): Promise<SigningKey> {
  const key = createPrivateKey(pem)
  const algs: Record<string, string> = {
    rsa: 'RS256',
    ec: 'ES256',
    ed25519: 'EdDSA',
  }
  return named(await exportJWK(key), algs[key.asymmetricKeyType ?? ''] ?? '')
}

async function named(jwk: JWK, alg: string): Promise<SigningKey> {
  return {
    ...jwk,
    kid: await calculateJwkThumbprint(jwk),
    alg,
    use: useOf(alg),
  }
}

interface Scheduled {
  /** The public part of an imported key: the private key stays in its file. */
  key: SigningKey
  /** Epoch seconds at which it begins to sign. */
  from: number
}

/** The record in the store. */
type Schedule = { keys: Scheduled[] }

/**
 * The schedule is one record. It is in no backup: an old copy would make a
 * retired key valid again.
 */
const schedules = (records: Records) => records.of<Schedule>('SigningKeys')
const SCHEDULE_ID = 'current'

const STATES = ['current', 'next', 'retired'] as const

/** A key in the schedule, for operators. */
export interface KeyStatus {
  kid: string
  alg: string
  state: (typeof STATES)[number]
  /** Epoch seconds at which it begins, or began, to sign. */
  from: number
  /**
   * Epoch seconds at which a retired key leaves the JWKS. Absent while it has
   * no successor.
   */
  until?: number
}

async function readSchedule(records: Records): Promise<Scheduled[]> {
  const { value } = await schedules(records).read(SCHEDULE_ID)
  return value?.keys ?? []
}

/** Returns the key ids in the store. Creates no keys. */
export async function publishedKids(records: Records): Promise<string[]> {
  return (await readSchedule(records)).map(({ key }) => key.kid)
}

/**
 * Returns the signing keys of this installation, with the rules of its
 * configuration.
 */
export async function openSigningKeys(records: Records, settings: Settings) {
  const { rotate_every, announce } = settings.keys
  const { lifetimes, clients } = settings
  const idTokens = [{}, ...clients].map(
    client => lifetimesOf(lifetimes, client).id_token,
  )
  // Seconds for which a key is published after its successor has begun to sign:
  // the longest lifetime of what it signed. An ID token is accepted as a hint
  // for the lifetime of its session. JWT access tokens have a lifetime of their
  // own.
  const retain = Math.max(
    lifetimes.session + Math.max(...idTokens),
    MAX_JWT_SECONDS,
  )
  /** Algorithms that clients and APIs name. */
  const wanted = [
    ...clients
      .flatMap(client => Object.entries(client))
      .flatMap(([key, alg]) => (NAMES_KEY.test(key) ? [String(alg)] : [])),
    ...Object.values(settings.resources).map(
      ({ token_signing_alg }) => token_signing_alg,
    ),
  ]
  /** Keys of the operator, which replace generated keys. */
  const { module } = settings.keys
  const imports = [
    ...(await Promise.all(settings.importedKeys.map(importKey))),
    ...(module ? await loadExternalKeys(module) : []),
  ]
  const imported = new Map(imports.map(key => [key.kid, key]))

  /** Changes the schedule in one transaction, and returns it. */
  async function amend(
    edit: (schedule: Scheduled[]) => Scheduled[] | Promise<Scheduled[]>,
  ) {
    const decide = async ({ value }: Found<Schedule>) => {
      const before = value?.keys ?? []
      const keys = await edit(before)
      return isDeepStrictEqual(keys, before) ? undefined : { keys }
    }
    const { before, after = before } = await schedules(records).change(
      SCHEDULE_ID,
      decide,
    )
    return after?.keys ?? []
  }

  /**
   * Returns the schedule with new keys where they are due, and without expired
   * ones.
   */
  async function plan(before: Scheduled[]): Promise<Scheduled[]> {
    const time = now()
    const schedule = before.filter(
      entry => (statusOf(before, entry).until ?? Infinity) > time,
    )
    /** A new key signs at once only if its algorithm has no other. */
    const startOf = (alg: string) =>
      signersOf(schedule, alg).length ? time + announce : time
    for (const key of importsToSchedule(schedule, before.length === 0)) {
      const { d, p, q, dp, dq, qi, sign, ...publicPart } = key
      schedule.push({ key: publicPart, from: startOf(key.alg) })
    }
    for (const alg of algorithmsOf(schedule)) {
      // The keys of the operator only sign.
      if (imported.size && useOf(alg) === 'sig') continue
      const from = startOf(alg)
      const latest = signersOf(schedule, alg).at(-1)
      const isDue = !latest || latest.from + rotate_every <= from
      if (isDue) schedule.push({ key: await makeKey(alg), from })
    }
    return schedule
  }

  /**
   * Returns the imported keys that are not in the schedule and have not been
   * used before.
   */
  function importsToSchedule(
    schedule: Scheduled[],
    isEmptyStore: boolean,
  ): SigningKey[] {
    const isScheduled = ({ kid }: SigningKey) =>
      schedule.some(({ key }) => key.kid === kid)
    return imports.filter((key, i) => {
      // A key before a scheduled one has been used already. It is not scheduled
      // again.
      if (imports.slice(i).some(isScheduled)) return false
      // In an empty or restored store, an earlier key of its algorithm may have
      // been retired.
      const hasLater = imports.slice(i + 1).some(({ alg }) => alg === key.alg)
      return !(isEmptyStore && hasLater)
    })
  }

  /**
   * Algorithms that get keys. One with a key keeps getting successors, even if
   * no client names it.
   */
  const algorithmsOf = (schedule: Scheduled[]) =>
    ALL_ALGORITHMS.filter(
      alg =>
        [...ALGORITHMS, ...wanted].includes(alg) ||
        signersOf(schedule, alg).length,
    )

  /** Returns the keys of an algorithm in the order in which they sign. */
  const signersOf = (schedule: Scheduled[], alg: string) =>
    schedule
      .filter(
        ({ key }) =>
          key.alg === alg && (key.d !== undefined || imported.has(key.kid)),
      )
      .toSorted((a, b) => a.from - b.from)

  function statusOf(
    schedule: Scheduled[],
    { key: { kid, alg }, from }: Scheduled,
  ): KeyStatus {
    const signers = signersOf(schedule, alg)
    const current = signers.findLast(other => other.from <= now())
    if (kid === current?.key.kid) return { kid, alg, state: 'current', from }
    if (from > now()) return { kid, alg, state: 'next', from }
    // An imported key whose file was removed is published until it has a
    // successor.
    const successor = signers.find(other => other.from > from)
    return {
      kid,
      alg,
      state: 'retired',
      from,
      until: successor && successor.from + retain,
    }
  }

  /**
   * Returns the states of all keys: by state, then by algorithm, then by time.
   */
  function inOrder(schedule: Scheduled[]): KeyStatus[] {
    const inTime = schedule.toSorted((a, b) => a.from - b.from)
    const all = ALL_ALGORITHMS.flatMap(alg =>
      inTime.filter(({ key }) => key.alg === alg),
    )
    const statuses = all.map(entry => statusOf(schedule, entry))
    return STATES.flatMap(state =>
      statuses.filter(status => status.state === state),
    )
  }

  /**
   * Returns all published keys. Those of one algorithm stand together: some
   * libraries stop at a key of another type. The first one of each algorithm
   * signs, and has its private part.
   */
  async function load(): Promise<SigningKey[]> {
    const schedule = await amend(plan)
    const keys = new Map([
      ...schedule.map(({ key }) => [key.kid, key] as const),
      ...imported,
    ])
    const all = inOrder(schedule).flatMap(({ kid }) => keys.get(kid) ?? [])
    return ALL_ALGORITHMS.flatMap(name => all.filter(({ alg }) => alg === name))
  }

  /**
   * Returns the states of all published keys: by state, then by algorithm.
   * Creates no keys.
   */
  async function list(): Promise<KeyStatus[]> {
    const all = inOrder(await readSchedule(records))
    return all.filter(({ until = Infinity }) => until > now())
  }

  /**
   * Creates new keys that sign after `seconds`; 0 if the current keys may have
   * leaked.
   */
  async function rotate(seconds = announce): Promise<KeyStatus[]> {
    const from = now() + seconds
    const schedule = await amend(async before => {
      const made = algorithmsOf(before).map(async alg => ({
        key: await makeKey(alg),
        from,
      }))
      // The new keys replace those that have not begun to sign.
      return [
        ...before.filter(entry => entry.from <= now()),
        ...(await Promise.all(made)),
      ]
    })
    return inOrder(schedule)
  }

  /**
   * Removes a key from the JWKS, unless it is current. Nothing that it signed
   * is accepted afterwards. Returns the state that it had; undefined for an
   * unknown key.
   */
  async function retire(kid: string): Promise<KeyStatus['state'] | undefined> {
    let state: KeyStatus['state'] | undefined
    await amend(schedule => {
      state = inOrder(schedule).find(status => status.kid === kid)?.state
      return state === 'current'
        ? schedule
        : schedule.filter(({ key }) => key.kid !== kid)
    })
    return state
  }

  return { load, list, rotate, retire }
}
