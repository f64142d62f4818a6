// Rules about the tokens of a client: their lifetimes, and when they are issued.

import type { ValidFile } from '../files.ts'
import type { Finding } from '../report/finding.ts'
import { type ClientFile, lifetimesOf } from '../schema/client.ts'
import type { UsherFile } from '../schema/usher.ts'
import { findingsOf } from './messages.ts'
import { isLong } from './provider.ts'

/** A client whose content is checked: of a file, or of a registration. */
export type CheckedClient = Pick<ValidFile<ClientFile>, 'file' | 'value' | 'written' | 'at'>

const ROTATION = 'rotate_refresh_tokens'
const IDLE = 'lifetimes.refresh_token_idle'

/** Returns the findings about the tokens of a client, with the warnings. */
export function tokenFindings(
  client: CheckedClient,
  settings: Pick<UsherFile, 'lifetimes'>,
): Finding[] {
  const { profile, lifetimes = {}, grant_types } = client.value
  const { refresh_token, refresh_token_idle } = lifetimesOf(settings.lifetimes, client.value)
  const {
    refresh_tokens,
    rotate_refresh_tokens: rotates,
    token_endpoint_auth_method,
  } = client.value
  const isBound =
    client.value.dpop_bound_access_tokens || client.value.tls_client_certificate_bound_access_tokens
  const isOpen = token_endpoint_auth_method === 'none' && !isBound
  const isIdle = lifetimes.refresh_token_idle !== undefined
  const hasRefresh = grant_types.includes('refresh_token')
  return findingsOf(client, [
    [isIdle && !hasRefresh, 'refresh-grant', IDLE],
    [lifetimes.refresh_token && !hasRefresh, 'refresh-grant', 'lifetimes.refresh_token'],
    [refresh_tokens === 'always' && !hasRefresh, 'refresh-grant', 'refresh_tokens'],
    [rotates !== undefined && !hasRefresh, 'refresh-grant', ROTATION],
    [rotates === false && isOpen, 'rotation-public', ROTATION],
    [isIdle && (profile || rotates === false), 'idle-unrotated', IDLE],
    [isIdle && refresh_token_idle > refresh_token, 'idle-longer', IDLE],
    [isLong(lifetimes.access_token), 'access-token-lifetime', 'lifetimes.access_token'],
  ])
}
