// Protected APIs, their clients for introspection, and requests for their tokens.

import { hashSecret } from '../../src/oidc/clients.ts'
import type { Browser } from './browser.ts'
import { authorizationRequest, post, redeem, signInAndAllow } from './journey.ts'
import { CLIENTS, SECRET, type Usher } from './usher.ts'

export const FILES = 'https://files.example.org'
export const CALENDAR = 'https://calendar.example.org/api'
export const PAYROLL = 'urn:example:payroll'

const confidential = (client_id: string, more: object) => ({
  client_id,
  client_name: `The ${client_id}`,
  client_secret_hashes: [hashSecret(SECRET)],
  ...more,
})

/** Options of an Usher with APIs. */
export const APIS = {
  clients: {
    ...CLIENTS,
    'files-api': confidential('files-api', { grant_types: [] }),
    'payroll-api': confidential('payroll-api', { grant_types: [] }),
    service: confidential('service', { grant_types: ['client_credentials'] }),
  },
  resources: {
    files: {
      resource: FILES,
      resource_name: 'Files',
      scopes: {
        'files:read': { description: 'Read your files' },
        'files:write': { description: 'Change your files' },
        share: { description: 'Share your files with others' },
      },
      introspected_by: ['files-api'],
    },
    calendar: {
      resource: CALENDAR,
      resource_name: 'Calendar',
      audience: 'calendar',
      scopes: {
        'calendar:read': { description: 'See your appointments' },
        share: { description: 'Share your appointments with others' },
      },
      token_format: 'jwt',
      token_signing_alg: 'ES256',
      token_lifetime: '5 min',
    },
    payroll: {
      resource: PAYROLL,
      resource_name: 'Payroll',
      scopes: { pay: { description: 'Pay wages' } },
      clients: ['service'],
      introspected_by: ['payroll-api'],
    },
  },
}

interface ScopeRequest {
  browser: Browser
  scope: string
  resources: string[]
  client_id?: string
}

/** Requests scopes of resources. The browser is left at the first page. */
export async function requestScopes(
  usher: Usher,
  { browser, scope, resources, client_id = 'web' }: ScopeRequest,
) {
  const request = authorizationRequest(usher, { scope, client_id })
  for (const resource of resources) request.url.searchParams.append('resource', resource)
  await browser.open(request.url)
  return request
}

/** Requests scopes, allows them, and returns the token response for `resource`, or for UserInfo. */
export async function tokensFor(usher: Usher, request: ScopeRequest, resource?: string) {
  const sent = await requestScopes(usher, request)
  const page = await signInAndAllow(request.browser, 'ada')
  const answer = await redeem(usher, page.params.get('code') ?? '', sent, resource)
  if (answer.status !== 200) throw new Error(JSON.stringify(answer.body))
  return answer.body
}

export const refreshFor = (usher: Usher, form: Record<string, string>) =>
  post(usher, '/api/oauth/token', { grant_type: 'refresh_token', ...form })
