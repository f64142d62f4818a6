// APIs that call one another for a user, by token exchange (RFC 8693).

import type { JWK } from 'jose'
import { hashSecret } from '../../src/oidc/clients.ts'
import { EXCHANGE_GRANT } from '../../src/oidc/vocabulary.ts'
import { CALENDAR, FILES, tokensFor } from './apis.ts'
import { Browser } from './browser.ts'
import { type Answer, post } from './journey.ts'
import { CLIENTS, SECRET, type Usher, WEB } from './usher.ts'

/** The API of the shop, with opaque tokens, and that of the till, with JWTs. */
export const SHOP = 'https://shop.example.org'
export const TILL = 'https://till.example.org'
/** An API that has another authorization server. */
export const CHAT = 'https://chat.example.org/api'
export const CHAT_SERVER = 'https://chat.example.org'
export const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'
export const ID_TOKEN = 'urn:ietf:params:oauth:token-type:id_token'
export const REFRESH_TOKEN = 'urn:ietf:params:oauth:token-type:refresh_token'
export const JWT = 'urn:ietf:params:oauth:token-type:jwt'
export const ID_JAG = 'urn:ietf:params:oauth:token-type:id-jag'

const CODE = ['authorization_code', 'refresh_token']
const service = (client_id: string, more: object = {}) => ({
  client_id,
  client_name: `The ${client_id}`,
  client_secret_hashes: [hashSecret(SECRET)],
  grant_types: [EXCHANGE_GRANT],
  ...more,
})
const scopesOf = (...names: string[]) =>
  Object.fromEntries(names.map(name => [name, { description: `Use ${name}` }]))

const shop = (name: string, token_format: string) => ({
  resource: `https://${name}.example.org`,
  resource_name: 'Shop',
  audience: name,
  scopes: scopesOf('shop:read', 'shop:write'),
  token_format,
  introspected_by: ['shop-api'],
  exchange: [
    { client: 'files-api', from: [FILES], scopes: ['shop:read', 'shop:write'] },
    { client: 'shop-api', from: [name], scopes: ['shop:read', 'shop:write'] },
  ],
})

/** Options of an Usher with these APIs. */
export const EXCHANGING = {
  clients: {
    ...CLIENTS,
    web: { ...CLIENTS.web, grant_types: [...CODE, EXCHANGE_GRANT] },
    'shop-api': service('shop-api'),
    'files-api': service('files-api'),
    stranger: service('stranger'),
    spa: { ...CLIENTS.spa, redirect_uris: [WEB], grant_types: [...CODE, EXCHANGE_GRANT] },
  },
  resources: {
    shop: shop('shop', 'opaque'),
    till: shop('till', 'jwt'),
    files: {
      resource: FILES,
      resource_name: 'Files',
      scopes: scopesOf('files:read', 'files:write', 'files:delete'),
      introspected_by: ['files-api'],
      exchange: [
        { client: 'shop-api', from: ['shop', 'till'], scopes: ['files:read', 'files:write'] },
        { client: 'web', scopes: ['files:read'] },
      ],
    },
    chat: {
      resource: CHAT,
      resource_name: 'Chat',
      authorization_server: CHAT_SERVER,
      scopes: scopesOf('chat:read', 'chat:write'),
      exchange: [{ client: 'web', client_id: 'web-at-chat', scopes: ['chat:read', 'chat:write'] }],
    },
    calendar: {
      resource: CALENDAR,
      resource_name: 'Calendar',
      audience: 'calendar',
      scopes: scopesOf('calendar:read'),
      token_format: 'jwt',
      exchange: [
        { client: 'files-api', from: [FILES], scopes: ['calendar:read'] },
        {
          client: 'shop-api',
          from: ['shop', 'till'],
          scopes: ['calendar:read'],
          impersonation: true,
        },
      ],
    },
  },
}

/** The browser of the user at each Usher. */
const browsers = new WeakMap<Usher, Browser>()

/** Signs a user in at the shop with `web`, unless there is a session. The access token is for the API of the shop. */
export async function shopTokens(
  usher: Usher,
  { scope = 'openid offline_access shop:read', resource = SHOP } = {},
) {
  const browser = browsers.get(usher) ?? new Browser(usher.issuer)
  browsers.set(usher, browser)
  const request = { browser, scope, resources: [resource] }
  return { browser, ...(await tokensFor(usher, request, resource)) }
}

/** A token request of an exchange: by the API of the shop, for that of the files. */
export function exchange(
  usher: { issuer: string },
  subject_token: string,
  more: Record<string, string> = {},
): Promise<Answer> {
  return post(usher, '/api/oauth/token', {
    client_id: 'shop-api',
    grant_type: EXCHANGE_GRANT,
    subject_token,
    subject_token_type: ACCESS_TOKEN,
    ...(more.audience === undefined && { resource: FILES }),
    ...more,
  })
}

export const introspect = async (usher: Usher, token: string, client_id = 'files-api') =>
  (await post(usher, '/api/oauth/introspect', { token, client_id })).body

/** A signing key of an Usher, with its private part. */
export async function signingKey({ records }: Usher, kid: string): Promise<JWK> {
  const { value } = await records.of<{ keys: { key: JWK }[] }>('SigningKeys').read('current')
  return value?.keys.find(({ key }) => key.kid === kid)?.key ?? {}
}
