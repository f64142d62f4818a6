// Why a request failed: compares what was sent with what is registered, and says what to change. A row
// of the table is found by the error code; where a code has several causes, by the library's detail.

import { closest } from 'fastest-levenshtein'
import { describeSecrets, withoutSecret } from '../config/client-secret.ts'
import type { FileResult } from '../config/files.ts'
import type { Reading } from '../config/load.ts'
import { didYouMean } from '../config/report/wording.ts'
import type { ClientFile } from '../config/schema/client.ts'
import { type FailedRequest, harmless } from '../provider/failures.ts'
import { UNKNOWN } from './failed-request.ts'

/** A failed request, and the folder as it is now. */
export interface Facts {
  failure: FailedRequest
  client?: FileResult<ClientFile>
  /** The client_id of every client. */
  ids: string[]
  scopes: string[]
  /** Identifiers of the APIs. */
  resources: string[]
  issuer?: string
}

export interface Explanation {
  wrong: string
  sent?: string
  registered?: string[]
  /** What differs between what was sent and the nearest that is registered. */
  difference?: string
  change: string
}
type Reason = (facts: Facts) => Explanation

/** The library's default for `clockTolerance`; a test pins it. */
export const CLOCK_TOLERANCE_SECONDS = 15

/** The explanation, with the request as it is remembered. */
export function describeFailure(failure: FailedRequest, reading: Reading) {
  const { at, endpoint, status, error, detail, client_id, authentication, sent, names } = failure
  const { scopes = {}, resources = {}, issuer } = reading.settings ?? {}
  const explanation = explainFailure({
    failure,
    issuer,
    client: reading.clients.find(({ value }) => value?.client_id === client_id),
    ids: reading.clients.map(({ value }) => value?.client_id ?? ''),
    scopes: [scopes, ...Object.values(resources).map(api => api.scopes)].flatMap(Object.keys),
    resources: Object.keys(resources),
  })
  const request = {
    at: new Date(at * 1000).toISOString(),
    endpoint,
    answer: `${status} ${error}`,
    detail,
    client_id,
    ...(!/^(authorization|end_session)$/.test(endpoint) && { authentication }),
    ...sent,
    'sent as well': names,
  }
  return { ...explanation, request }
}

export function explainFailure(facts: Facts): Explanation {
  const { error, detail = '', sent, names } = facts.failure
  const page = facts.issuer && `; ${facts.issuer}/errors#${error} says what ${error} means`
  const row = REASONS.find(([code, pattern]) => code === error && pattern.test(detail))
  if (row) return row[2](facts)
  return {
    wrong: detail || error,
    sent: [...Object.keys(sent), ...names].join(', ') || 'no parameter',
    change: `the request of the application${page ?? ''}`,
  }
}

/** Where a key of the client stands, or its file. */
const at = ({ client }: Facts, key: string) =>
  `${key} in ${client?.origin([key]) ?? client?.file ?? 'config/clients'}`
const nameOf = ({ failure }: Facts) => failure.client_id ?? 'the client'
const sentAs = ({ failure }: Facts, name: string) =>
  failure.sent[name] ?? (failure.authentication === UNKNOWN ? UNKNOWN : 'none')

/** Nothing in the folder can be changed for it. */
const say =
  (wrong: string, change: string): Reason =>
  () => ({ wrong, change })

const unknownClient: Reason = ({ failure: { client_id }, ids }) => ({
  wrong: `no client has this client_id${didYouMean(client_id ?? '', ids)}`,
  sent: client_id ?? UNKNOWN,
  registered: ids,
  change: 'the client_id in the application, or a file for it in config/clients',
})

/** `key` holds the addresses that `parameter` has to be one of. */
function address(parameter: string, key: 'redirect_uris' | 'post_logout_redirect_uris'): Reason {
  return facts => {
    const sent = facts.failure.sent[parameter]
    const registered = facts.client?.value?.[key] ?? []
    const known = registered.map(harmless)
    const isKnown = sent !== undefined && known.includes(sent)
    const none = `is none of those registered for ${nameOf(facts)}; they are compared byte for byte`
    return {
      wrong: `the ${parameter} ${isKnown ? 'is registered now, and was not then' : none}`,
      sent: sentAs(facts, parameter),
      registered,
      difference:
        sent && known.length && !isKnown ? differenceOf(sent, closest(sent, known)) : undefined,
      change: `${at(facts, key)}, or the address in the application`,
    }
  }
}

function differenceOf(sent: string, near: string): string {
  const [one, other] = [URL.parse(sent), URL.parse(near)]
  if (!one || !other) return `${near} is nearest, and what was sent is no whole address`
  const isSlash = `${sent}/` === near || sent === `${near}/`
  const parts = PARTS.filter(([part]) => one[part] !== other[part]).map(
    ([part, name]) => `the ${name}: ${one[part] || 'none'} for ${other[part] || 'none'}`,
  )
  const named = parts.join(', ') || 'the spelling'
  return `${near} is nearest; ${isSlash ? 'the / at the end' : named} differs`
}
const PARTS = [
  ['protocol', 'scheme'],
  ['hostname', 'host'],
  ['port', 'port'],
  ['pathname', 'path'],
  ['search', 'query'],
] as const

const scope: Reason = facts => {
  const own = facts.client?.value?.scope?.split(' ')
  const allowed = own ?? facts.scopes
  const asked = facts.failure.sent.scope?.split(' ') ?? []
  const refused = asked.filter(name => !allowed.includes(name)).join(', ')
  return {
    wrong: `${nameOf(facts)} may not request ${refused || 'one of these scopes'}`,
    sent: asked.join(' ') || undefined,
    registered: [allowed.join(' ')],
    change: own ? `${at(facts, 'scope')}, or what the application requests` : 'claims.yaml',
  }
}

const target: Reason = facts => ({
  wrong: `${nameOf(facts)} may not use this resource here, or not beside another`,
  sent: sentAs(facts, 'resource'),
  registered: facts.resources,
  change: `the resource in the application; clients in the API's file; ${at(facts, 'scope')}`,
})

/** Without a method in its file, a client may send its secret either way. */
const authentication: Reason = facts => {
  const { client, failure } = facts
  const methods =
    client?.value?.token_endpoint_auth_method ?? 'client_secret_basic or client_secret_post'
  if (failure.authentication !== UNKNOWN && !methods.includes(failure.authentication)) {
    return {
      wrong: `${nameOf(facts)} does not authenticate in the way that is registered for it`,
      sent: failure.authentication,
      registered: [methods],
      change: `${at(facts, 'token_endpoint_auth_method')}, or the method in the application`,
    }
  }
  const secrets = describeSecrets(
    withoutSecret<Partial<ClientFile>>(client?.value ?? {}).client_secret_hashes,
  )
  return {
    wrong: `the secret is not one that ${nameOf(facts)} has`,
    registered: [`secrets: ${secrets ?? 'none'}`],
    change: 'the secret in the application; a new one: usher clients secret NAME',
  }
}

const compared = (parameter: string, key: 'grant_types' | 'response_types'): Reason =>
  function compare(facts) {
    return {
      wrong: `${nameOf(facts)} cannot use this ${parameter}`,
      sent: sentAs(facts, parameter),
      registered: facts.client?.value?.[key],
      change: `${at(facts, key)}, or the application`,
    }
  }

const pkce: Reason = facts => ({
  wrong: 'there is no code_challenge with the method S256: every client uses PKCE',
  sent: sentAs(facts, 'code_challenge_method'),
  registered: ['S256'],
  change: `the application; ${at(facts, 'require_pkce')} exempts a confidential client`,
})

const verifier: Reason = ({ failure: { names } }) => ({
  wrong: names.includes('code_verifier')
    ? 'the code_verifier does not belong to the code_challenge of this code'
    : 'the code was requested with PKCE, and there is no code_verifier',
  change: 'the application keeps one code_verifier for each sign-in',
})

const clock: Reason = ({ failure: { detail } }) => ({
  wrong: `${detail}: the client_assertion. Clocks may differ by ${CLOCK_TOLERANCE_SECONDS} s`,
  change: 'the clocks of both sides (NTP); exp is a minute ahead, a new assertion each time',
})

const fetched = (what: string): Reason =>
  function explain({ failure: { client_id, detail } }) {
    return {
      wrong: `there is no ${what} ${client_id} (${detail})`,
      change: 'that address; one that is not public stands in egress.allow of usher.yaml',
    }
  }

const AGAIN = 'the application sends the user to sign in again'
const audience = say(
  'the client_assertion is not for this provider',
  'aud is one text: the issuer, the token endpoint or the endpoint called; for fapi2 the issuer',
)
const reuse = say(
  'it was used before, and works once. What the first use gave is revoked',
  'the application: two processes, or a retry, use the same one',
)
const codeExpired = say(
  'the code expired (lifetimes.code), or was never issued',
  'the application redeems it at once',
)
const refreshExpired = say(
  'it expired (lifetimes.refresh_token, refresh_token_idle), was revoked, or was never issued',
  AGAIN,
)
const ended = say('the access was revoked, withdrawn by the user, or ended by sign-out', AGAIN)
const noScope = say(
  'no scope of the resource was requested, or the user allowed none',
  'the application requests a scope of the API',
)
const tokenExpired = say(
  'the access token expired (lifetimes.access_token), was revoked, or was never issued',
  'the application renews it',
)
const way = address('redirect_uri', 'redirect_uris')
const back = address('post_logout_redirect_uri', 'post_logout_redirect_uris')
const responseType = compared('response_type', 'response_types')
const grantType = compared('grant_type', 'grant_types')
const ANY = /(?:)/

const REASONS: [error: string, detail: RegExp, reason: Reason][] = [
  ['invalid_client', /client not found|client is invalid/, unknownClient],
  ['invalid_client', /^fetch failed|unexpected response|too large|JSON/, fetched('document at')],
  ['invalid_client', /jwks_uri|invalid_client_metadata/, fetched('JWKS at the jwks_uri of')],
  ['invalid_client', /registered client auth|invalid secret/, authentication],
  ['invalid_client', /expired|not active|in the future/, clock],
  ['invalid_client', /\baud\b|audience/, audience],
  ['invalid_redirect_uri', ANY, way],
  ['invalid_request', /post_logout/, back],
  ['invalid_request', /PKCE|code_challenge/, pkce],
  ['invalid_request', /response_type is not/, responseType],
  ['invalid_grant', /code_verifier|PKCE/, verifier],
  ['invalid_grant', /already/, reuse],
  ['invalid_grant', /code (not|is)/, codeExpired],
  ['invalid_grant', /token (not|is)/, refreshExpired],
  ['invalid_grant', /grant (not|is)/, ended],
  ['invalid_scope', /resource/, noScope],
  ['invalid_scope', ANY, scope],
  ['invalid_target', ANY, target],
  ['invalid_token', /not found/, tokenExpired],
  ['unsupported_response_type', ANY, responseType],
  ['unsupported_grant_type', ANY, grantType],
  ['unauthorized_client', ANY, grantType],
]
