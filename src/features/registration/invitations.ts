// Invitations: initial access tokens (RFC 7591 §3) with a limit and an expiry. Operators make them and
// see them by a handle; the library finds them by the token itself.

import { randomBytes } from 'node:crypto'
import type { Found, Records } from '../../storage/records.ts'
import { now } from '../../storage/store.ts'

/** An initial access token, as it is stored. */
export interface Invitation {
  handle: string
  /** The token. */
  jti: string
  /** Epoch seconds. */
  iat: number
  exp: number
  /** How many clients may register with it, and have. */
  most: number
  used: number
  /** Names of the library's policies (feature.ts); the first is RULES. */
  policies: string[]
}

/** The policy that validates metadata. */
export const RULES = 'rules'
/** The operator exempts confidential clients from PKCE. */
export const WITHOUT_PKCE = 'without-pkce'

/** A model of the library. */
const KIND = 'InitialAccessToken'
const INDEX: [string, string] = ['invitations', 'all']

/** Returns the functions that make, list, use and revoke invitations. */
export function createInvitations(records: Records) {
  async function make(terms: Pick<Invitation, 'exp' | 'most' | 'policies'>): Promise<Invitation> {
    const jti = randomBytes(32).toString('base64url')
    const handle = randomBytes(4).toString('hex')
    const invitation = { kind: KIND, handle, jti, iat: now(), used: 0, ...terms }
    await records.save(KIND, jti, invitation, { ttl: terms.exp - now(), indexes: [INDEX] })
    return invitation
  }

  async function list(): Promise<Invitation[]> {
    const all = await records.list<Invitation>(...INDEX)
    return all.filter(({ exp }) => exp > now()).sort((a, b) => a.iat - b.iat)
  }

  /** Counts one client. Returns undefined if the invitation is used up or revoked. */
  async function use(token: string): Promise<Invitation | undefined> {
    let used: Invitation | undefined
    const count = ({ value }: Found<Invitation>) => {
      used = value && value.used < value.most ? { ...value, used: value.used + 1 } : undefined
      return used
    }
    const ttl = ({ exp }: Invitation) => exp - now()
    await records.update<Invitation>(KIND, token, count, { ttl, indexes: [INDEX] })
    return used
  }

  /** Clients that registered with it stay. */
  const revoke = ({ jti }: Invitation) => records.remove(KIND, jti)

  return { make, list, use, revoke }
}
