// Refresh tokens, rotated at every use, in a way that survives a lost answer (RFC 9700 §4.14.2).
//
//   token                     family (16 bytes), generation (4), proof (16), as base64url
//   RefreshToken family → { payload of the latest generation, since when it is the latest }
//
// A family is one record however often it rotates, and rotation one compare-and-set on it. The proof
// is a keyed hash, so a generation has exactly one token: whoever repeats a use whose answer was lost
// is answered with the same successor, by any node, and nothing has to remember it; and one that is
// later than the store knows of was given out before a failover lost that write: it counts.
//
//   presented                      at the token endpoint                     elsewhere
//   the latest, or later           rotates                                   valid
//   its predecessor, within grace  the same successor again                  used
//   any other                      theft: the family ends, and its grant     used

import { randomBytes, timingSafeEqual } from 'node:crypto'
import { revokeGrant } from './grants.ts'
import type { Found, Records } from './records.ts'
import { now } from './store.ts'

type Payload = Record<string, unknown> & { grantId?: string }

interface Family {
  payload: Payload
  generation: number
  /** Epoch seconds at which this generation was given out. */
  since: number
}

export interface RefreshTokenRules {
  /** Seconds in which a used token may be used again; 0: never. */
  grace: number
  /** The request at the token endpoint, where presenting a token uses it up; elsewhere undefined. */
  refreshing(): object | undefined
  /** The error for a token that has been used. */
  alreadyUsed(): Error
  /** A used token came again and took its family along: told once for each. */
  onReuse(payload: Payload): void
  /** An answer that was lost, or is on its way, was given again. */
  onReplay(payload: Payload): void
}

const KIND = 'RefreshToken'
const FAMILY = 16
const TOKEN = FAMILY + 4 + 16

export type RefreshTokens = ReturnType<typeof createRefreshTokens>

export function createRefreshTokens(records: Records, rules: RefreshTokenRules) {
  /** What each request has read: what its rotation builds on. */
  const reads = new WeakMap<object, Found<Family>>()

  function tokenOf(family: Buffer, generation: number): string {
    const head = Buffer.alloc(FAMILY + 4, family)
    head.writeUInt32BE(generation, FAMILY)
    return Buffer.concat([head, proofOf(head)]).toString('base64url')
  }
  const proofOf = (head: Buffer) => records.prove('refresh token', head.toString('base64url'))

  /** Undefined for what was never given out, without a look at the store. */
  function parse(token: string) {
    const bytes = Buffer.from(token, 'base64url')
    if (bytes.length !== TOKEN || bytes.toString('base64url') !== token) return undefined
    const head = bytes.subarray(0, FAMILY + 4)
    if (!timingSafeEqual(proofOf(head), bytes.subarray(FAMILY + 4))) return undefined
    const family = head.subarray(0, FAMILY)
    return { family, id: family.toString('base64url'), generation: head.readUInt32BE(FAMILY) }
  }

  /** The first token of a new family. */
  const first = () => tokenOf(randomBytes(FAMILY), 0)

  function successor(token: string): string {
    const { family, generation } = required(parse(token))
    return tokenOf(family, generation + 1)
  }

  const isInGrace = (latest: Family, generation: number) =>
    generation === latest.generation - 1 && rules.grace > 0 && now() - latest.since <= rules.grace

  async function find(token: string): Promise<Payload | undefined> {
    const { id, generation } = parse(token) ?? {}
    if (id === undefined || generation === undefined) return undefined
    const found = await records.read<Family>(KIND, id)
    const request = rules.refreshing()
    if (request) reads.set(request, found)
    const latest = found.value
    if (!latest) return undefined
    const isUsable = generation >= latest.generation || (request && isInGrace(latest, generation))
    return { ...latest.payload, jti: token, ...(!isUsable && { consumed: latest.since }) }
  }

  /** The first of a family, or the successor of the token that this request presented. */
  async function save(token: string, payload: Payload, ttl?: number): Promise<void> {
    const { id, generation } = required(parse(token))
    const next: Family = { payload: { ...payload, jti: undefined }, generation, since: now() }
    if (generation === 0) return void (await records.save(KIND, id, next, { ttl, version: 0 }))

    let latest: Family | undefined
    const rotate = ({ value }: Found<Family>) => {
      latest = value
      return value && value.generation < generation ? next : undefined
    }
    const request = rules.refreshing()
    const found = request && reads.get(request)
    if (await records.update<Family>(KIND, id, rotate, { ttl, found })) return
    if (latest && isInGrace(latest, generation - 1)) return rules.onReplay(payload)
    if (latest) await endStolen(id, latest)
    throw rules.alreadyUsed()
  }

  async function destroy(token: string): Promise<void> {
    const { id } = parse(token) ?? {}
    if (id === undefined) return
    const { value } = await records.read<Family>(KIND, id)
    if (value && rules.refreshing()) await endStolen(id, value)
    else await records.remove(KIND, id)
  }

  /** The grant first: that is what ends every token of it. */
  async function endStolen(id: string, { payload }: Family): Promise<void> {
    if (payload.grantId) await revokeGrant(records, payload.grantId)
    if (await records.remove(KIND, id)) rules.onReuse(payload)
  }

  return { first, successor, find, save, destroy }
}

function required<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('not a refresh token of ours')
  return value
}
