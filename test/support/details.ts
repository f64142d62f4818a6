// A bank with two APIs, their types of authorization details, and the clients that may request them.

import { APIS } from './apis.ts'
import type { Browser } from './browser.ts'
import {
  authorizationRequest,
  post,
  push as pushRequest,
  redeem,
  signInAndAllow,
} from './journey.ts'
import { CLIENTS, type Usher, type UsherOptions } from './usher.ts'

export const BANK = 'https://bank.example.org'
export const LEDGER = 'https://ledger.example.org'

const TYPES = {
  payment: {
    type: 'payment',
    resource: BANK,
    description: {
      en: 'Pay {amount.value} {amount.currency} to {creditor}',
      de: '{amount.value} {amount.currency} an {creditor} zahlen',
    },
    labels: {
      reference: { en: 'Reference', de: 'Verwendungszweck' },
      limit: 'At most',
      'amount.currency.EUR': 'euros',
      'amount.currency.USD': 'dollars',
    },
    schema: {
      type: 'object',
      required: ['amount', 'creditor'],
      properties: {
        amount: {
          type: 'object',
          required: ['value', 'currency'],
          properties: {
            value: { type: 'string', pattern: '^\\d{1,6}\\.\\d{2}$' },
            currency: { type: 'string', enum: ['EUR', 'USD'] },
          },
        },
        creditor: { type: 'string', maxLength: 100 },
        reference: { type: 'string' },
        monthly: { type: 'boolean', title: 'Each month' },
        limit: { type: 'number', minimum: 0, maximum: 1000 },
        memo: { type: 'object', properties: { text: { type: 'string' } } },
      },
    },
  },
  statement: {
    type: 'statement',
    resource: LEDGER,
    description: 'See {actions} of {account}',
    labels: { 'actions.balance': 'the balance', 'actions.list': 'bookings' },
    schema: {
      type: 'object',
      required: ['account', 'actions'],
      properties: {
        account: { type: 'string', pattern: '^[A-Z]{2}\\d{4}$' },
        actions: {
          type: 'array',
          items: { type: 'string', enum: ['balance', 'list'] },
          uniqueItems: true,
        },
      },
    },
  },
}

const scope = (description: string) => ({ description })
const may = { authorization_details_types: ['payment', 'statement'] }
const tv = {
  client_id: 'tv',
  client_name: 'Television',
  token_endpoint_auth_method: 'none',
  grant_types: ['urn:ietf:params:oauth:grant-type:device_code'],
  authorization_details_types: ['payment'],
}

/** Options of an Usher with authorization details. */
export const BANKING = {
  usher: { features: { rich_authorization_requests: true, device_flow: true } },
  clients: {
    ...APIS.clients,
    web: { ...CLIENTS.web, ...may, scope: 'openid profile offline_access' },
    first: { ...CLIENTS.first, ...may },
    spa: { ...CLIENTS.spa, ...may },
    post: CLIENTS.post ?? {},
    service: { ...APIS.clients.service, ...may },
    tv,
  },
  resources: {
    bank: {
      resource: BANK,
      resource_name: 'The bank',
      scopes: { 'bank:read': scope('See your accounts') },
      introspected_by: ['files-api'],
    },
    ledger: {
      resource: LEDGER,
      resource_name: 'The ledger',
      scopes: { 'ledger:read': scope('See the ledger') },
      token_format: 'jwt',
    },
  },
  files: Object.fromEntries(
    Object.entries(TYPES).map(([name, type]) => [`details/${name}.yaml`, JSON.stringify(type)]),
  ),
} satisfies UsherOptions

export const PAYMENT = {
  type: 'payment',
  amount: { value: '12.50', currency: 'EUR' },
  creditor: 'Grace Hopper',
}
export const STATEMENT = { type: 'statement', account: 'DE1234', actions: ['balance', 'list'] }

type Params = Record<string, string | undefined>

function parametersOf(details: unknown, params: Params): Params {
  const authorization_details = typeof details === 'string' ? details : JSON.stringify(details)
  return { scope: 'openid', authorization_details, ...params }
}

/** An authorization request with these authorization details. */
export const detailsRequest = (usher: Usher, details: unknown, params: Params = {}) =>
  authorizationRequest(usher, parametersOf(details, params))

/** Pushes an authorization request with these authorization details. */
export const push = (usher: Usher, details: unknown, params: Params = {}) =>
  pushRequest(usher, parametersOf(details, params))

/** The status, error and description of a pushed request. */
export async function pushOutcome(usher: Usher, details: unknown, params: Params = {}) {
  const { answer } = await push(usher, details, params)
  return [answer.status, answer.json.error, answer.json.error_description].join(' ')
}

/** Pushes a request, opens it, allows it, and returns the token response. */
export async function detailsTokens(
  usher: Usher,
  browser: Browser,
  details: unknown,
  params: Params = {},
  resource?: string,
) {
  const request = await push(usher, details, params)
  await browser.open(request.url)
  const code = (await signInAndAllow(browser, 'ada')).params.get('code') ?? ''
  return (await redeem(usher, code, request, resource)).body
}

export const introspect = async (usher: Usher, token: string, client_id = 'files-api') =>
  (await post(usher, '/api/oauth/introspect', { token, client_id })).body
