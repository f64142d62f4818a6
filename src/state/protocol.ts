// The interface between the library and its records: the library's adapter, and the facts about a request
// that the adapter needs. provider/state.ts implements `Protocol`.

import type { Context } from 'koa'

/** The library's payload of a record. */
export type Payload = Record<string, unknown> & {
  grantId?: string
  consumed?: unknown
  /** Epoch seconds. */
  exp?: number
}

/** The library's interface of an adapter, as far as it calls it. */
export interface Adapter {
  upsert(id: string, payload: Payload, expiresIn?: number): Promise<void>
  find(id: string): Promise<Payload | undefined>
  /** Sessions only. */
  findByUid(uid: string): Promise<Payload | undefined>
  /** Device codes only. */
  findByUserCode(userCode: string): Promise<Payload | undefined>
  consume(id: string): Promise<void>
  destroy(id: string): Promise<void>
  revokeByGrantId(grantId: string): Promise<void>
}

/** Methods that replace those of the plain adapter. */
export type AdapterPart = (plain: Adapter, protocol: Protocol) => Partial<Adapter>

/** The part of the library's context of a request that the adapter reads. */
export interface Request {
  ctx?: Pick<Context, 'ip' | 'get'>
  /** The library's name of the endpoint. */
  route: string
  requestParamScopes?: Set<string>
  /** The library's object, which it changes. */
  session?: { uid: string; jti: string }
}

/** Facts about the current request, and settings. */
export interface Protocol {
  /** Returns one object for the whole request; undefined outside of the library's endpoints. */
  request(): Request | undefined
  /** False for an interaction that was begun in another browser than the one of this request. */
  isOfBrowser(interaction: Payload): boolean
  /**
   * Saves the grant of this request with the next write, and returns a check that what it was made from
   * still stands, which revokes the grant and throws. Undefined when this request has made no such grant.
   */
  saveGrant(grantId: string): Promise<(() => Promise<void>) | undefined>
  /** The error for a request that presents something that was used before. */
  alreadyUsed(model: string): Error
  /**
   * Throws when the client has disconnected, after everything that it has sent was read. A code is not used
   * up for a response that no client receives, and reuse that looks like a repeated request revokes nothing.
   */
  assertConnected(): Promise<void>
  /**
   * A used code or refresh token was presented, and its grant was revoked; or, `refresh_replay`, an answer
   * that was lost or is on its way was given again.
   */
  onReuse(event: 'code_reuse' | 'refresh_reuse' | 'refresh_replay', payload: Payload): void
  /** Seconds. */
  lifetimes: {
    /** The time in which a used refresh token may be used again; 0: never. */
    grace: number
    /** A grant: without a refresh token, and after one was issued under it. */
    grant: { withoutRefreshToken: number; withRefreshToken: number }
    /** A pushed request, which is consumed at the end of the interaction. */
    pushedRequest: number
  }
  /** Changes of the adapter by model. */
  adapters: Record<string, AdapterPart>
}
