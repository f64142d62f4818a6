// The keys that sign ID tokens: a schedule kept in the store, sealed, the same on every node. What a
// key is at a moment follows from the schedule alone, so that nodes agree without talking:
//
//   next      from its making: in the JWKS, so that clients know it before it is used
//   current   the latest of its algorithm whose time has come: it signs
//   retired   once another is current, until nothing that it signed counts any more

import { isDeepStrictEqual } from 'node:util'
import type { Settings } from '../config/load.ts'
import { MAX_JWT_SECONDS } from '../config/schema/resource.ts'
import type { Records } from '../storage/records.ts'
import { now } from '../storage/store.ts'
import {
  ALGORITHMS,
  ALL_ALGORITHMS,
  importKey,
  makeKey,
  publicPart,
  type SigningKey,
} from './make.ts'

interface Scheduled {
  /** Of an imported one the public part: the private one stays in its file. */
  key: SigningKey
  /** Epoch seconds at which it begins to sign. */
  from: number
  imported?: boolean
}

/** The first version kept keys without a schedule: those are due. */
interface Kept {
  keys: (Scheduled | SigningKey)[]
}
const asScheduled = (entry: Scheduled | SigningKey): Scheduled =>
  'kid' in entry ? { key: entry as SigningKey, from: 0 } : (entry as Scheduled)

/** Seconds. */
export interface KeyRules {
  rotate_every: number
  announce: number
  /** How long what a key has signed counts: as a token, and as `id_token_hint`. */
  retain: number
  /** Algorithms that clients are registered for. */
  wanted: string[]
  /** In place of keys of our own. */
  imported: SigningKey[]
}

export interface KeyStatus {
  kid: string
  alg: string
  state: 'next' | 'current' | 'retired'
  /** Epoch seconds: of `next` when it will sign, of the others since when it did. */
  from: number
  /** Epoch seconds; of `retired` only, once another has its place: when it leaves the JWKS. */
  until?: number
}

export type SigningKeys = ReturnType<typeof createSigningKeys>

/** Those of this installation, as its configuration has them. */
export async function openSigningKeys(records: Records, settings: Settings): Promise<SigningKeys> {
  const { session, id_token } = settings.lifetimes
  return createSigningKeys(records, {
    ...settings.keys,
    // The ID token of a session is accepted as a hint for as long as there may be that session, and
    // a JWT for an API has its time.
    retain: Math.max(session + id_token, MAX_JWT_SECONDS),
    wanted: [
      ...settings.clients.flatMap(client =>
        Object.entries(client).flatMap(([key, alg]) =>
          key.endsWith('_signed_response_alg') ? [String(alg)] : [],
        ),
      ),
      ...Object.values(settings.resources).map(({ token_signing_alg }) => token_signing_alg),
    ],
    imported: await Promise.all(settings.importedKeys.map(importKey)),
  })
}

/** The ids of the keys in the store; no key is made for it. */
export async function publishedKids(records: Records): Promise<string[]> {
  const { value } = await records.read<Kept>('SigningKeys', 'current')
  return (value?.keys ?? []).map(entry => asScheduled(entry).key.kid)
}

export function createSigningKeys(records: Records, rules: KeyRules) {
  const imported = new Map(rules.imported.map(key => [key.kid, key]))
  const isMade = (alg: string) => ALGORITHMS.includes(alg) || rules.wanted.includes(alg)
  const canSign = ({ key, imported: isImported }: Scheduled) => !isImported || imported.has(key.kid)

  /** Answers the schedule as it is then. */
  async function amend(change: (schedule: Scheduled[]) => Promise<Scheduled[]>) {
    let after: Scheduled[] = []
    await records.update<Kept>('SigningKeys', 'current', async ({ value }) => {
      const before = value?.keys.map(asScheduled) ?? []
      after = await change(before)
      return isDeepStrictEqual(after, before) ? undefined : { keys: after }
    })
    return after
  }

  /** What has to be done by now: the first keys, the next ones, those whose time is over. */
  async function plan(before: Scheduled[]): Promise<Scheduled[]> {
    const time = now()
    const schedule = before.filter(entry => {
      const { until = Number.POSITIVE_INFINITY } = statusOf(before, entry)
      return until > time
    })
    const isScheduled = ({ kid }: SigningKey) => schedule.some(({ key }) => key.kid === kid)
    for (const [i, key] of rules.imported.entries()) {
      // One before another that has its place had its own: it does not begin again.
      if (rules.imported.slice(i).some(isScheduled)) continue
      const from = signersOf(schedule, key.alg).length ? time + rules.announce : time
      schedule.push({ key: publicPart(key), from, imported: true })
    }
    if (imported.size) return schedule
    for (const alg of algorithmsOf(schedule)) {
      const latest = signersOf(schedule, alg).at(-1)
      const due = latest ? latest.from + rules.rotate_every : time
      if (due - (latest ? rules.announce : 0) > time) continue
      const from = latest ? Math.max(due, time + rules.announce) : time
      schedule.push({ key: await makeKey(alg), from })
    }
    return schedule
  }

  /** Those that keys are made for; one that nobody wants any more is not left without a successor. */
  const algorithmsOf = (schedule: Scheduled[]) =>
    ALL_ALGORITHMS.filter(alg => isMade(alg) || signersOf(schedule, alg).length)

  /** Of one algorithm, in the order in which they sign. */
  const signersOf = (schedule: Scheduled[], alg: string) =>
    schedule
      .filter(entry => entry.key.alg === alg && canSign(entry))
      .toSorted((a, b) => a.from - b.from)

  function statusOf(schedule: Scheduled[], entry: Scheduled): KeyStatus {
    const { from, key } = entry
    const { kid, alg } = key
    const signers = signersOf(schedule, alg)
    const current = signers.findLast(other => other.from <= now())
    if (entry === current) return { kid, alg, state: 'current', from }
    if (from > now()) return { kid, alg, state: 'next', from }
    // One whose file was taken away has signed until now: it stays until another has its place.
    const successor = signers.find(other => other.from > from)
    const until = successor && successor.from + rules.retain
    return { kid, alg, state: 'retired', from, ...(until && { until }) }
  }

  const inOrder = (schedule: Scheduled[]): KeyStatus[] => {
    const states = ['current', 'next', 'retired']
    return schedule
      .map(entry => statusOf(schedule, entry))
      .toSorted(
        (a, b) =>
          states.indexOf(a.state) - states.indexOf(b.state) ||
          ALL_ALGORITHMS.indexOf(a.alg) - ALL_ALGORITHMS.indexOf(b.alg) ||
          a.from - b.from,
      )
  }

  /** All that are published, the one that signs first of its algorithm; with what it takes to sign. */
  async function load(): Promise<SigningKey[]> {
    const schedule = await amend(plan)
    const keys = new Map([...schedule.map(({ key }) => [key.kid, key] as const), ...imported])
    return inOrder(schedule).flatMap(({ kid }) => keys.get(kid) ?? [])
  }

  async function list(): Promise<KeyStatus[]> {
    return inOrder(await amend(plan))
  }

  /** New keys, announced first; or at once, where the current ones are not to be trusted. */
  async function rotate(announce = rules.announce): Promise<KeyStatus[]> {
    const from = now() + announce
    return inOrder(
      await amend(async schedule => {
        const made = await Promise.all(
          algorithmsOf(schedule).map(async alg => ({ key: await makeKey(alg), from })),
        )
        // Those that were waiting for a later turn give theirs up.
        return [...schedule.filter(entry => entry.from <= now()), ...made]
      }),
    )
  }

  /** Takes a key out of the JWKS now: nothing that it signed is accepted any more. */
  async function retire(kid: string): Promise<'retired' | 'unknown' | 'signs'> {
    let outcome: 'retired' | 'unknown' | 'signs' = 'unknown'
    await amend(async schedule => {
      const entry = schedule.find(({ key }) => key.kid === kid)
      if (!entry) return schedule
      outcome = statusOf(schedule, entry).state === 'current' ? 'signs' : 'retired'
      return outcome === 'retired' ? schedule.filter(other => other !== entry) : schedule
    })
    return outcome
  }

  return { load, list, rotate, retire }
}
