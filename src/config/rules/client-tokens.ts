// Rules about the tokens of a client: their lifetimes, and when they are issued.

import type { ValidFile } from '../files.ts'
import type { Finding } from '../report/finding.ts'
import { didYouMean, findingsOf } from '../report/wording.ts'
import { type ClientFile, lifetimesOf } from '../schema/client.ts'
import { PROTOCOL_CLAIMS, type UsherFile } from '../schema/usher.ts'
import { isLong } from './provider.ts'

/** A client whose content is checked: of a file, or of a registration. */
export type CheckedClient = Pick<ValidFile<ClientFile>, 'file' | 'value' | 'written' | 'at'>

/** Settings that the tokens of a client are checked against. `claims`: those of claims.yaml. */
export type TokenSettings = Pick<UsherFile, 'lifetimes'> & { claims: object }

const ROTATION = 'rotate_refresh_tokens'
const IDLE = 'lifetimes.refresh_token_idle'

/** Returns the findings about the tokens of a client, with the warnings. */
export function tokenFindings(client: CheckedClient, settings: TokenSettings): Finding[] {
  const { value } = client
  const { profile, lifetimes = {}, rotate_refresh_tokens: rotates } = value
  const { refresh_token, refresh_token_idle } = lifetimesOf(settings.lifetimes, value)
  const isBound = value.dpop_bound_access_tokens || value.tls_client_certificate_bound_access_tokens
  const isOpen = value.token_endpoint_auth_method === 'none' && !isBound
  const isIdle = lifetimes.refresh_token_idle !== undefined
  const hasRefresh = value.grant_types.includes('refresh_token')
  const findings = findingsOf(client, [
    [isIdle && !hasRefresh, 'refresh-grant', IDLE],
    [lifetimes.refresh_token && !hasRefresh, 'refresh-grant', 'lifetimes.refresh_token'],
    [value.refresh_tokens === 'always' && !hasRefresh, 'refresh-grant', 'refresh_tokens'],
    [rotates !== undefined && !hasRefresh, 'refresh-grant', ROTATION],
    [rotates === false && isOpen, 'rotation-public', ROTATION],
    [isIdle && (profile || rotates === false), 'idle-unrotated', IDLE],
    [isIdle && refresh_token_idle > refresh_token, 'idle-longer', IDLE],
    [isLong(lifetimes.access_token), 'access-token-lifetime', 'lifetimes.access_token'],
  ])
  return [...findings, ...claimFindings(client, Object.keys(settings.claims))]
}

/** Returns the findings about the claims that a client gets under other names. `known`: those of claims.yaml. */
function claimFindings({ value, at }: CheckedClient, known: string[]): Finding[] {
  const { rename = {} } = value.claims ?? {}
  const left = known.filter(name => !Object.values(rename).includes(name))
  return Object.entries(rename).flatMap(([name, source]) => {
    const path = ['claims', 'rename', name]
    if (PROTOCOL_CLAIMS.has(name))
      return at(path, 'protocol-claim', 'is set by the protocol, not here')
    if (left.includes(name)) return at(path, 'claim-taken', 'is already a claim of claims.yaml')
    return known.includes(source) ? [] : at(path, 'unknown-claim', unknownClaim(source, known))
  })
}

/** Returns the message about a claim that is none of `known`, which claims.yaml has. */
export const unknownClaim = (name: string, known: string[]) =>
  `there is no claim ${JSON.stringify(name)} in claims.yaml${didYouMean(name, known)}`
