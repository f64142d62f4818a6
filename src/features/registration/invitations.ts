// Invitations: initial access tokens (RFC 7591 §3) with a limit and an expiry.

import { randomBytes } from 'node:crypto'
import type { Found, Records } from '../../store/records.ts'
import { now } from '../../store/store.ts'

/**
 * An initial access token, as it is stored. Operators see its handle; the
 * library finds it by the token.
 */
export interface Invitation {
  /** The library's name of the model. */
  kind: 'InitialAccessToken'
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

const INVITATIONS: [kind: string, name: string] = ['invitations', 'all']

const isOpen = ({ used, most }: Invitation) => used < most

/** Returns the functions that make, list, use and revoke invitations. */
export function createInvitations(records: Records) {
  const invitations = records.of<Invitation>('InitialAccessToken')
  const optionsOf = ({ exp }: Invitation) => ({
    ttl: exp - now(),
    indexes: [INVITATIONS],
  })

  async function make({
    exp,
    most,
    policies,
  }: Pick<Invitation, 'exp' | 'most' | 'policies'>): Promise<Invitation> {
    const invitation: Invitation = {
      kind: 'InitialAccessToken',
      handle: randomBytes(4).toString('hex'),
      jti: randomBytes(32).toString('base64url'),
      iat: now(),
      used: 0,
      exp,
      most,
      policies,
    }
    await invitations.save(invitation.jti, invitation, optionsOf(invitation))
    return invitation
  }

  async function list(): Promise<Invitation[]> {
    const all = await invitations.list(...INVITATIONS)
    return all.filter(({ exp }) => exp > now()).sort((a, b) => a.iat - b.iat)
  }

  /** Returns the handle; undefined if the invitation is used up or revoked. */
  async function find(token: string): Promise<string | undefined> {
    const { value } = await invitations.read(token)
    return value && isOpen(value) ? value.handle : undefined
  }

  /**
   * Counts one client. Returns the handle; undefined if the invitation is used
   * up or revoked.
   */
  async function use(token: string): Promise<string | undefined> {
    const countClient = ({ value }: Found<Invitation>) =>
      value && isOpen(value) ? { ...value, used: value.used + 1 } : undefined
    const { after } = await invitations.change(token, countClient, optionsOf)
    return after?.handle
  }

  /** Clients that registered with it stay. */
  const revoke = ({ jti }: Invitation) => invitations.remove(jti)

  return { make, list, find, use, revoke }
}
