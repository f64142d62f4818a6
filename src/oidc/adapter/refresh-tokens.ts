// Refresh tokens, rotated at every use, in a way that survives a lost answer
// (RFC 9700 §4.14.2).
//
//   token                 id of the grant (16 bytes), family (32), generation (4), MAC (16), as base64url
//   RefreshToken FAMILY   { payload of the latest generation, since when it is the latest }
//
// The library's adapter calls `find`, then `save` with the successor, which is
// the commit of a refresh; a reuse leads to `destroy`.
//
// A family is one record however often it rotates, and rotation is one
// compare-and-set on it. The MAC makes exactly one token of each generation. A
// client that repeats a use, because the answer was lost, gets the same
// successor from any node, and nothing has to remember it. A token of a later
// generation than the store knows was issued before a failover lost that write:
// it is valid.
//
//   presented token                to refresh                     as subject token   at other endpoints
//   the latest, or later           rotates                        valid              valid
//   its predecessor, within grace  the same successor again       consumed           consumed
//   any other                      reuse: revokes the family and its grant           consumed

import { randomBytes, timingSafeEqual } from 'node:crypto'
import type { Found, Records } from '../../store/records.ts'
import { now, type Outage } from '../../store/store.ts'
import { required } from '../../store/values.ts'
import { noteReuse } from '../log.ts'
import {
  type GrantRecord,
  grantName,
  grantRecords,
  revokeGrant,
} from './grants.ts'
import type { Payload, StateLifetimes } from './models.ts'
import {
  alreadyUsed,
  assertClientConnected,
  deferCommit,
  deferSave,
  isRefreshRequest,
  isTokenRequest,
} from './request.ts'

interface Family {
  payload: Payload
  generation: number
  /** Epoch seconds at which this generation was issued. */
  since: number
}

const MODEL = 'RefreshToken'
const GRANT_ID_BYTES = 16
const FAMILY_BYTES = 32
const GENERATION_BYTES = 4
const MAC_BYTES = 16
const GENERATION_AT = GRANT_ID_BYTES + FAMILY_BYTES
const HEAD_BYTES = GENERATION_AT + GENERATION_BYTES

/**
 * Returns the functions that make and read the values of tokens. `macOf`: a MAC
 * that only this installation can make.
 */
function createTokenFormat(macOf: (head: Buffer) => Buffer) {
  function tokenOf(grantAndFamily: Buffer, generation: number): string {
    const head = Buffer.alloc(HEAD_BYTES, grantAndFamily)
    head.writeUInt32BE(generation, GENERATION_AT)
    return Buffer.concat([head, macOf(head)]).toString('base64url')
  }

  /** The first token of a new family under a grant. */
  function first(grantId: string): string {
    const grant = Buffer.from(grantId, 'base64url')
    return tokenOf(Buffer.concat([grant, randomBytes(FAMILY_BYTES)]), 0)
  }

  /** The token of the next generation. */
  function successor(token: string): string {
    const { head, generation } = required(parse(token))
    return tokenOf(head.subarray(0, GENERATION_AT), generation + 1)
  }

  /** Undefined for a value that was never issued, without reading the store. */
  function parse(token: string) {
    const bytes = Buffer.from(token, 'base64url')
    const isWhole =
      bytes.length === HEAD_BYTES + MAC_BYTES &&
      bytes.toString('base64url') === token
    const head = bytes.subarray(0, HEAD_BYTES)
    if (!isWhole || !timingSafeEqual(macOf(head), bytes.subarray(HEAD_BYTES)))
      return undefined
    const grantId = head.subarray(0, GRANT_ID_BYTES).toString('base64url')
    const id = head
      .subarray(GRANT_ID_BYTES, GENERATION_AT)
      .toString('base64url')
    return { head, grantId, id, generation: head.readUInt32BE(GENERATION_AT) }
  }

  return { first, successor, parse }
}

/**
 * Returns the functions that create, find, rotate and revoke refresh tokens.
 */
export function createRefreshTokens(
  records: Records,
  { grace, grant }: StateLifetimes,
) {
  const families = records.of<Family>(MODEL)
  const grants = grantRecords(records)
  const { first, successor, parse } = createTokenFormat(head =>
    records.keyedHash('refresh token', head.toString('base64url')),
  )

  /**
   * Whether a client may present the token of this generation again, because an
   * answer was lost.
   */
  const isRetry = (generation: number, latest: Family) =>
    generation === latest.generation - 1 &&
    isInGrace(latest.since, grace, records.outage())

  /**
   * The grant lives as long as its refresh tokens, and outlives the session. Two
   * requests with one code may both prolong it: the commit decides which of them
   * gets tokens.
   */
  async function prolongGrant(grantId: string): Promise<void> {
    const ttl = grant.withRefreshToken
    const prolonged = ({ value }: Found<GrantRecord>) =>
      value && { ...value, exp: now() + ttl, hasRefreshToken: true }
    const known = grants.lastRead(grantId)
    const { after } = await grants.change(grantId, prolonged, { ttl }, known)
    if (!after) throw alreadyUsed(MODEL)
  }

  /**
   * Writes the next generation of a family, unless the store has it or a later
   * one. `found`: the family as this request has read it.
   *
   *   in the store             outcome
   *   an earlier generation    the rotation is made
   *   nothing                  refused: the family was revoked meanwhile
   *   with a grace period
   *     this generation        the client gets the same token again
   *     a later one, made      refused: the client sent the token in parallel requests
   *       since `found`
   *   any other                refused as a reuse: revokes the family
   */
  async function rotate(
    id: string,
    next: Family,
    ttl?: number,
    found?: Found<Family>,
  ): Promise<void> {
    const { generation, payload } = next
    const nextUnlessRotated = ({ value }: Found<Family>) =>
      value && value.generation < generation ? next : undefined
    const { before, after } = await families.change(
      id,
      nextUnlessRotated,
      { ttl },
      found,
    )
    if (after) return
    if (!before) throw alreadyUsed(MODEL)
    // `find` has checked the grace period. It is not checked again, because
    // time has passed since.
    const isSameToken = before.generation === generation
    if (grace > 0 && isSameToken) return noteReuse('refresh_replay', payload)
    const wasLatest = found?.value && found.value.generation < generation
    if (grace === 0 || !wasLatest) await endReused(id, before)
    throw alreadyUsed(MODEL)
  }

  async function endReused(id: string, family: Family): Promise<void> {
    await assertClientConnected()
    if (await endFamily(id, family)) noteReuse('refresh_reuse', family.payload)
  }

  /**
   * Revokes the grant first: that ends every token. If the rest fails, a retry
   * does both.
   */
  async function endFamily(id: string, { payload }: Family): Promise<boolean> {
    if (payload.grantId) await revokeGrant(records, payload.grantId)
    return families.remove(id)
  }

  return {
    first,
    successor,

    async find(token: string): Promise<Payload | undefined> {
      const parsed = parse(token)
      if (!parsed) return undefined
      const { grantId, id, generation } = parsed
      // The library reads the grant next: the request remembers it.
      const { value: latest } = await families.read(id, grantName(grantId))
      if (isTokenRequest()) await assertClientConnected()
      if (latest?.payload.grantId !== grantId) return undefined
      const payload = { ...latest.payload, jti: token }
      const isUsable =
        generation >= latest.generation ||
        (isRefreshRequest() && isRetry(generation, latest))
      return isUsable ? payload : { ...payload, consumed: latest.since }
    },

    /**
     * Saves the first of a family, or the successor of the token that this
     * request presented.
     */
    async save(token: string, payload: Payload, ttl?: number): Promise<void> {
      const { id, grantId, generation } = required(parse(token))
      // The nonce belongs to the authorization request only, not to refreshes
      // (OIDC Core §12.2).
      const { nonce, ...lasting } = payload
      const next: Family = { payload: lasting, generation, since: now() }
      if (generation === 0) {
        return deferSave(() =>
          Promise.all([
            prolongGrant(grantId),
            families.save(id, next, { ttl }),
          ]),
        )
      }
      const found = families.lastRead(id)
      const rotation = () => rotate(id, next, ttl, found)
      // Within the grace period the client gets the same token again: it can
      // repeat a rotation. Without one, the tokens of a crash between both
      // writes would be lost, so that the rotation comes last.
      await (grace > 0 ? deferSave(rotation) : deferCommit(rotation))
    },

    async destroy(token: string): Promise<void> {
      const { id, generation } = required(parse(token))
      const { value } = families.lastRead(id) ?? (await families.read(id))
      if (!value) return
      // The client may have refreshed at the same time.
      if (isTokenRequest() && isRetry(generation, value)) return
      await (isTokenRequest() ? endReused(id, value) : endFamily(id, value))
    },
  }
}

/**
 * Whether a token may be used again whose successor was issued at `since`
 * (epoch seconds). `grace`: seconds.
 */
function isInGrace(since: number, grace: number, outage?: Outage): boolean {
  if (grace === 0) return false
  if (!outage) return now() - since <= grace
  // During an outage a client cannot retry. Its grace period begins when the
  // outage ends.
  const { from, to = now() } = outage
  const wasCutOff = since >= from - grace && since <= to
  return now() - (wasCutOff ? to : since) <= grace
}
