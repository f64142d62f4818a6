// What Usher says about an account: the claims of `claims.yaml`, taken from where it says.

import type { ClaimsFile } from '../config/schema/usher.ts'
import type { Account } from './account.ts'

const SOURCES: Record<string, (account: Account) => unknown> = {
  username: account => account.username,
  name: account => account.name,
  email: account => account.email,
  // Says something about the address, and nothing without one (OIDC Core §5.1).
  email_verified: account => (account.email === undefined ? undefined : account.email_verified),
  updated_at: account => account.updated,
}

/** Every claim the account has a value for; which of them are given depends on the scopes. */
export function claimsOf(account: Account, sources: ClaimsFile['claims']): Record<string, unknown> {
  const claims = Object.entries(sources).flatMap(([claim, { from }]) => {
    const attribute = /^attributes\.(.+)$/.exec(from)?.[1]
    const value = attribute ? ownValue(account.attributes, attribute) : SOURCES[from]?.(account)
    return value === undefined || value === null ? [] : [[claim, value] as const]
  })
  return Object.fromEntries(claims)
}

function ownValue(attributes: Record<string, unknown>, name: string): unknown {
  return Object.hasOwn(attributes, name) ? attributes[name] : undefined
}
