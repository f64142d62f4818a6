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
import { createReads } from '../storage/reads.ts'
import type { Found, Records } from '../storage/records.ts'
import { now } from '../storage/store.ts'
import { nameless, revokeGrant } from './grants.ts'

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
  /** The current request: at the token endpoint, presenting a token uses it up; see adapter.ts. */
  request(): { key: object; isRefresh: boolean; isRevocation: boolean } | undefined
  /** Throws when nobody waits for the answer any more: who hung up may have asked again elsewhere. */
  requireThief(): Promise<void>
  /** The error for a token that has been used. */
  alreadyUsed(): Error
  /** A used token came again and took its family along: told once for each. */
  onReuse(payload: Payload): void
  /** An answer that was lost, or is on its way, was given again. */
  onReplay(payload: Payload): void
}

const KIND = 'RefreshToken'
/** Bytes of a token. */
const PARTS = { family: 16, generation: 4, proof: 16 }
const HEAD = PARTS.family + PARTS.generation

export type RefreshTokens = ReturnType<typeof createRefreshTokens>

export function createRefreshTokens(records: Records, rules: RefreshTokenRules) {
  const reads = createReads<Family>(records, KIND, rules.request)

  function tokenOf(family: Buffer, generation: number): string {
    const head = Buffer.alloc(HEAD, family)
    head.writeUInt32BE(generation, PARTS.family)
    return Buffer.concat([head, proofOf(head)]).toString('base64url')
  }
  const proofOf = (head: Buffer) => records.prove('refresh token', head.toString('base64url'))

  /** Undefined for what was never given out, without a look at the store. */
  function parse(token: string) {
    const bytes = Buffer.from(token, 'base64url')
    const isWhole = bytes.length === HEAD + PARTS.proof && bytes.toString('base64url') === token
    const head = bytes.subarray(0, HEAD)
    if (!isWhole || !timingSafeEqual(proofOf(head), bytes.subarray(HEAD))) return undefined
    const family = head.subarray(0, PARTS.family)
    const generation = head.readUInt32BE(PARTS.family)
    return { family, generation, id: family.toString('base64url') }
  }

  /** The first token of a new family. */
  const first = () => tokenOf(randomBytes(PARTS.family), 0)

  function successor(token: string): string {
    const { family, generation } = required(parse(token))
    return tokenOf(family, generation + 1)
  }

  function isInGrace({ since }: Family): boolean {
    if (rules.grace === 0) return false
    // Who was cut off by an outage could not ask again before it was over.
    const { from, to } = records.outage() ?? { from: Number.POSITIVE_INFINITY, to: 0 }
    const wasCutOff = since >= from - rules.grace && since <= to
    return now() - (wasCutOff ? to : since) <= rules.grace
  }

  async function find(token: string): Promise<Payload | undefined> {
    const parsed = parse(token)
    if (!parsed) return undefined
    const { id, generation } = parsed
    const found = await reads.read(id)
    const request = rules.request()
    const latest = found.value
    if (!latest && found.version && request?.isRevocation) await records.remove(KIND, id)
    if (!latest) return undefined
    const isPredecessor = generation === latest.generation - 1
    const isUsable =
      generation >= latest.generation || (request?.isRefresh && isPredecessor && isInGrace(latest))
    // Whoever is told that it was used takes it for stolen.
    if (!isUsable && request?.isRefresh) await rules.requireThief()
    return {
      ...latest.payload,
      jti: token,
      kind: KIND,
      ...(!isUsable && { consumed: latest.since }),
    }
  }

  /** The first of a family, or the successor of the token that this request presented. */
  async function save(token: string, payload: Payload, ttl?: number): Promise<void> {
    const { id, generation } = required(parse(token))
    const next: Family = { payload: lasting(payload), generation, since: now() }
    const options = { ttl }
    if (generation === 0)
      return void (await records.save(KIND, id, next, { ...options, version: 0 }))

    const found = reads.before(id)
    const contest = () => rotate(id, next, options, found)
    if (!found?.value || found.value.generation >= generation) return contest()
    // With the access token that is about to be made; should another have been quicker, it is not.
    await records.saveLater(KIND, id, next, { ...options, version: found.version }, contest)
  }

  async function rotate(
    id: string,
    next: Family,
    options: { ttl?: number },
    found?: Found<Family>,
  ): Promise<void> {
    const { generation, payload } = next
    let latest: Family | undefined
    const change = ({ value }: Found<Family>) => {
      latest = value
      return value && value.generation < generation ? next : undefined
    }
    if (await records.update<Family>(KIND, id, change, { ...options, found })) return
    if (!latest) throw rules.alreadyUsed()
    // `find` judged whether this request may be answered again; a clock that has moved on since does not.
    if (rules.grace > 0 && latest.generation === generation) return rules.onReplay(payload)
    // It was the latest when it came, and others were quicker: they, or we ourselves, sent again.
    const wasLatest = found?.value && found.value.generation < generation
    if (rules.grace === 0 || !wasLatest) await endStolen(id, latest)
    throw rules.alreadyUsed()
  }

  async function destroy(token: string): Promise<void> {
    const { id } = parse(token) ?? {}
    if (id === undefined) return
    const { value } = reads.before(id) ?? (await records.read<Family>(KIND, id))
    if (value && rules.request()?.isRefresh) await endStolen(id, value)
    else if (value) await end(id, value)
  }

  async function endStolen(id: string, family: Family): Promise<void> {
    await rules.requireThief()
    if (await end(id, family)) rules.onReuse(family.payload)
  }

  /** The grant first: it ends every token, and when the rest fails, a repeat does all of it. */
  async function end(id: string, { payload }: Family): Promise<boolean> {
    if (payload.grantId) await revokeGrant(records, payload.grantId)
    return records.remove(KIND, id)
  }

  const isOne = (token: string) => parse(token) !== undefined
  return { first, successor, find, save, destroy, isOne }
}

/**
 * A nonce answers one authorization request, not what is renewed later (OIDC Core §12.2). And a token
 * that does not say when the first of its family was given out is that one to the library.
 */
function lasting({ nonce, iiat, ...payload }: Payload): Payload {
  return { ...nameless(payload), ...(iiat !== payload.iat && { iiat }) }
}

function required<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('not a refresh token of ours')
  return value
}
