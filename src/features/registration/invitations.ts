// Initial access tokens (RFC 7591 §3): what an application registers with, so often and until then.
// Operators make them and see them by a handle; the library finds them by the token itself.

import { randomBytes } from 'node:crypto'
import type { Found, Records } from '../../storage/records.ts'
import { now } from '../../storage/store.ts'

export interface Invitation {
  handle: string
  /** The token. */
  jti: string
  /** Epoch seconds. */
  iat: number
  exp: number
  /** How many applications may register with it, and have. */
  most: number
  used: number
  /** By what rules (features/registration/feature.ts). */
  policies: string[]
}

/** As the library calls it. */
const KIND = 'InitialAccessToken'
const INDEX: [string, string] = ['invitations', 'all']

export type Invitations = ReturnType<typeof createInvitations>

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

  /** Whether one more application would be counted. */
  async function hasRoom(token: string): Promise<boolean> {
    const { value } = await records.read<Invitation>(KIND, token)
    return value !== undefined && value.used < value.most
  }

  /** Counts one application; undefined when it was the last already, or the token is gone. */
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

  /** What has registered with it stays. */
  async function revoke({ jti }: Invitation): Promise<void> {
    await records.remove(KIND, jti)
  }

  return { make, list, hasRoom, use, revoke }
}
