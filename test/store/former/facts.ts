// What make.ts writes, and former.test.ts reads.

import type { Registration } from '../../support/registration.ts'

export const USHER_SECRET = Buffer.alloc(32, 'former').toString('base64url')

/** The features whose records a store has. */
export const USHER_OPTIONS = {
  usher: {
    features: { dynamic_registration: true },
    sign_in: { methods: ['password', 'passkey'], second_factor: 'optional' },
  },
}

export interface Facts {
  /** Epoch seconds. */
  made: number
  /** The ids of Ada, who has an app, of Grace, who has a passkey, and of Alan, who has neither. */
  accounts: { ada: string; grace: string; alan: string }
  /** The key of Ada's app, and one of her recovery codes. */
  app: string
  recovery: string
  /** Alan's. */
  refresh_token: string
  access_token: string
  client: Registration
  /** Key ids of the JWKS. */
  keys: string[]
}

/** A key of Redis: a string, or a sorted set. */
export interface RedisKey {
  name: string
  /** Seconds; -1: it does not expire. */
  ttl: number
  /** base64 */
  value?: string
  /** Each member, followed by its score. */
  members?: string[]
}
