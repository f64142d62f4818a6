// Requests of dynamic client registration (RFC 7591, RFC 7592).

import { createInvitations, RULES } from '../../src/features/registration/invitations.ts'
import { createRegisteredClients } from '../../src/features/registration/registered-clients.ts'
import type { Records } from '../../src/store/records.ts'
import { now } from '../../src/store/store.ts'
import { send } from './wire.ts'

export const REGISTER = '/api/oauth/register'
export const ON = { usher: { features: { dynamic_registration: true } } }
export const CALLBACK = 'https://stranger.example.net/callback'
export const METADATA = { client_name: 'Strange application', redirect_uris: [CALLBACK] }

/** Metadata that only the operator sets, in a client file. Each is refused from anybody else. */
export const OPERATORS: Record<string, unknown>[] = [
  { consent: 'implicit' },
  { require_pkce: false },
  { profile: 'fapi2' },
  { client_secret_hashes: [] },
  { require_sign_in: 'password' },
  { second_factor: 'required' },
  { rotate_refresh_tokens: false },
  { any_secret_method: true },
  { registered_scope: 'openid' },
  { lifetimes: { access_token: 86_400 } },
  { refresh_tokens: 'always' },
  { default_resource: 'https://files.example.org' },
  { require_dpop_nonce: false },
  { allow: { groups: ['finance'] } },
  { enabled: true },
  { required_scopes: ['email'] },
  { claims: { join: ' ' } },
]

type Place = { issuer: string; address: string }

/** An initial access token for `most` registrations, as `usher clients invite` creates it. */
export async function invite({ records }: { records: Records }, most = 10, ...relaxed: string[]) {
  const terms = { exp: now() + 3600, most, policies: [RULES, ...relaxed] }
  return (await createInvitations(records).make(terms)).jti
}

export const registered = ({ records }: { records: Records }) => createRegisteredClients(records)

export function register(place: Place, token: string, metadata: object = METADATA) {
  return sendJson(place, REGISTER, 'POST', token, metadata)
}

/** The response of a registration. */
export interface Registration {
  client_id: string
  client_secret: string
  registration_access_token: string
  registration_client_uri: string
}

export async function registerNew(
  usher: Place & { records: Records },
  metadata: object = METADATA,
  ...relaxed: string[]
): Promise<Registration> {
  const { status, json, text } = await register(usher, await invite(usher, 1, ...relaxed), metadata)
  if (status !== 201) throw new Error(`not registered: ${status} ${text}`)
  return json
}

/** Sends GET without metadata and PUT with metadata, or `method`. */
export function manage(
  place: Place,
  client: Pick<Registration, 'client_id' | 'registration_access_token'>,
  metadata?: object,
  method = metadata ? 'PUT' : 'GET',
) {
  const path = `${REGISTER}/${client.client_id}`
  return sendJson(place, path, method, client.registration_access_token, metadata)
}

function sendJson(place: Place, path: string, method: string, token: string, metadata?: object) {
  const headers = {
    authorization: `Bearer ${token}`,
    ...(metadata && { 'content-type': 'application/json' }),
  }
  return send<Registration>(place, path, {
    method,
    headers,
    body: metadata && JSON.stringify(metadata),
  })
}
