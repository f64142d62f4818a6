// Explains why a request failed: compares what was sent with what is configured, and says what to change.
// A row of the table is found by the error code; where a code has several causes, by the detail of the library.

import { closest } from 'fastest-levenshtein'
import { describeSecrets, withoutSecret } from '../config/client-secret.ts'
import type { FileResult } from '../config/files.ts'
import type { Settings } from '../config/load.ts'
import { didYouMean } from '../config/report/wording.ts'
import type { ClientFile } from '../config/schema/client.ts'
import { type FailedRequest, harmless } from '../provider/failures.ts'
import { IGNORED, UNKNOWN } from './failed-request.ts'

/** A client: its file, or its registration. */
export type ClientSource = Pick<FileResult<ClientFile>, 'file' | 'value' | 'origin'>

/** A failed request, and the configuration as it is now; `settings` is absent while it has errors. */
export interface Facts {
  failure: FailedRequest
  client?: ClientSource
  settings?: Settings
}

/** An explanation, as `config explain` prints it. */
export interface Explanation {
  wrong: string
  sent?: string
  /** Values of the configuration that the sent value is compared with. */
  registered?: string[]
  /** Difference between the sent value and the nearest one that is registered. */
  difference?: string
  change: string
}
type Reason = (facts: Facts) => Explanation

/** The default of the library for `clockTolerance`; a test pins it. */
export const CLOCK_TOLERANCE_SECONDS = 15

/** Returns the explanation; for an error that is not in the table, the detail of the library. */
export function explainFailure(facts: Facts): Explanation {
  const { error, detail = '', sent, names } = facts.failure
  const row = REASONS.find(([code, pattern]) => code === error && pattern.test(detail))
  const [, , reason, change = ''] = row ?? []
  if (typeof reason === 'string') {
    return { wrong: reason, change: change.replace('ACCOUNT', sent.account ?? 'NAME') }
  }
  if (reason) return reason(facts)
  const page = facts.settings && `; ${facts.settings.issuer}/errors#${error} explains ${error}`
  return {
    wrong: detail || error,
    sent: [...Object.keys(sent), ...names].join(', ') || 'no parameter',
    change: `the request of the application${page ?? ''}`,
  }
}

/** The place of a key of the client: its line, or its file. */
const at = ({ client }: Facts, key: string) =>
  `${key} in ${client?.origin([key]) ?? client?.file ?? 'config/clients'}`
const nameOf = ({ failure }: Facts) => failure.client_id ?? 'the client'
const sentAs = ({ failure }: Facts, name: string) =>
  failure.sent[name] ?? (failure.authentication === UNKNOWN ? UNKNOWN : 'none')

const unknownClient: Reason = ({ failure: { client_id }, settings }) => {
  const ids = settings?.clients.map(client => client.client_id) ?? []
  return {
    wrong: `no client has this client_id${didYouMean(client_id ?? '', ids)}`,
    sent: client_id ?? UNKNOWN,
    registered: ids,
    change: 'the client_id in the application, or a file for it in config/clients',
  }
}

/** `key` holds the registered values of `parameter`. */
function uri(parameter: string, key: 'redirect_uris' | 'post_logout_redirect_uris'): Reason {
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
      change: `${at(facts, key)}, or the URI in the application`,
    }
  }
}

const URI_PARTS = [
  ['protocol', 'scheme'],
  ['hostname', 'host'],
  ['port', 'port'],
  ['pathname', 'path'],
  ['search', 'query'],
] as const

function differenceOf(sent: string, near: string): string {
  const [one, other] = [URL.parse(sent), URL.parse(near)]
  if (!one || !other) return `${near} is nearest, and the sent value is not an absolute URI`
  const isSlash = `${sent}/` === near || sent === `${near}/`
  const parts = URI_PARTS.filter(([part]) => one[part] !== other[part]).map(
    ([part, name]) => `the ${name}: ${one[part] || 'none'} for ${other[part] || 'none'}`,
  )
  const named = parts.join(', ') || 'the spelling'
  return `${near} is nearest; ${isSlash ? 'the / at the end' : named} differs`
}

const scope: Reason = facts => {
  const own = facts.client?.value?.scope?.split(' ')
  const { scopes = {}, resources = {} } = facts.settings ?? {}
  const all = [scopes, ...Object.values(resources).map(api => api.scopes)].flatMap(Object.keys)
  const allowed = own ?? all
  const requested = facts.failure.sent.scope?.split(' ') ?? []
  const refused = requested.filter(name => !allowed.includes(name)).join(', ')
  return {
    wrong: `${nameOf(facts)} may not request ${refused || 'one of these scopes'}`,
    sent: requested.join(' ') || undefined,
    registered: [allowed.join(' ')],
    change: own ? `${at(facts, 'scope')}, or the request of the application` : 'claims.yaml',
  }
}

const target: Reason = facts => ({
  wrong: `${nameOf(facts)} may not use this resource here, or not beside another`,
  sent: sentAs(facts, 'resource'),
  registered: Object.keys(facts.settings?.resources ?? {}),
  change: `the resource in the application; clients in the API's file; ${at(facts, 'scope')}`,
})

/** A client file without a method accepts the secret by Basic and in the body. */
const authentication: Reason = facts => {
  const { client, failure } = facts
  const methods =
    client?.value?.token_endpoint_auth_method ?? 'client_secret_basic or client_secret_post'
  if (failure.authentication !== UNKNOWN && !methods.includes(failure.authentication)) {
    return {
      wrong: `${nameOf(facts)} does not authenticate by the method that is registered for it`,
      sent: failure.authentication,
      registered: [methods],
      change: `${at(facts, 'token_endpoint_auth_method')}, or the method in the application`,
    }
  }
  const { client_secret, client_secret_hashes } = client?.value ?? {}
  const secrets = withoutSecret({ client_secret, client_secret_hashes })
  return {
    wrong: `the secret is not one that ${nameOf(facts)} has`,
    registered: [`secrets: ${describeSecrets(secrets.client_secret_hashes) ?? 'none'}`],
    change: 'the secret in the application; a new one: npm run usher -- clients secret NAME',
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

const fetched = (document: string): Reason =>
  function explain({ failure: { client_id, detail } }) {
    return {
      wrong: `there is no ${document} ${client_id} (${detail})`,
      change: 'that URL; a host that is not public needs egress.allow in usher.yaml',
    }
  }

/** The request succeeded; the log names the parameters and scopes that had no effect. */
const ignored: Reason = ({ failure: { detail = '' }, settings }) => {
  const apis = Object.values(settings?.resources ?? {})
  const reasons = detail.split(', ').map(part => {
    const [, name = ''] = /^scope (.+)$/.exec(part) ?? []
    const api = apis.find(({ scopes }) => Object.hasOwn(scopes, name))
    if (api) return `${part} belongs to an API: send resource=${api.resource} with it`
    const near = didYouMean(name, Object.keys(settings?.scopes ?? {}))
    if (name) return `${part} is in no file of the folder${near}`
    return `${part} is not supported${part === 'audience' ? ': send resource (RFC 8707)' : ''}`
  })
  return {
    wrong: 'the request succeeded, and a part of it was ignored',
    sent: detail,
    difference: reasons.join('; '),
    change:
      'the request of the application; scopes: claims.yaml, and scopes of resources/NAME.yaml',
  }
}

const ANY = /(?:)/
const AGAIN = 'the application sends the user to sign in again'

/** The first row that fits is used. The last column of a row without a function is what to change. */
// biome-ignore format: a table
const REASONS: ([error: string, detail: RegExp, Reason] | [string, RegExp, wrong: string, change: string])[] = [
  ['invalid_client', /client not found|client is invalid/, unknownClient],
  ['invalid_client', /^fetch failed|unexpected response|too large|JSON/, fetched('document at')],
  ['invalid_client', /jwks_uri|invalid_client_metadata/, fetched('JWKS at the jwks_uri of')],
  ['invalid_client', /registered client auth|invalid secret/, authentication],
  ['invalid_client', /expired|not active|in the future/, clock],
  ['invalid_client', /\baud\b|audience/, 'the client_assertion is not for this provider',
    'aud is one text: the issuer, the token endpoint or the endpoint called; for fapi2 the issuer'],
  ['invalid_redirect_uri', ANY, uri('redirect_uri', 'redirect_uris')],
  ['invalid_request', /post_logout/, uri('post_logout_redirect_uri', 'post_logout_redirect_uris')],
  ['invalid_request', /PKCE|code_challenge/, pkce],
  ['invalid_request', /response_type is not/, compared('response_type', 'response_types')],
  ['invalid_grant', /code_verifier|PKCE/, verifier],
  ['invalid_grant', /already/,
    'it was used before, and works once. The tokens of the first use are revoked',
    'the application: two processes, or a retry, use the same one'],
  ['invalid_grant', /code (not|is)/,
    'the code expired (lifetimes.code), was revoked, or was never issued',
    'the application redeems it at once'],
  ['invalid_grant', /token (not|is)/,
    'it expired (lifetimes.refresh_token, refresh_token_idle), was revoked, or was never issued', AGAIN],
  ['invalid_grant', /grant (not|is)/,
    'the access was revoked, withdrawn by the user, or ended by sign-out', AGAIN],
  ['invalid_scope', /resource/,
    'no scope of the resource was requested, or the user allowed none',
    'the application requests a scope of the API'],
  ['invalid_scope', ANY, scope],
  ['invalid_target', ANY, target],
  ['invalid_token', /not found/,
    'the access token expired (lifetimes.access_token), was revoked, or was never issued',
    'the application uses its refresh token'],
  ['unsupported_response_type', ANY, compared('response_type', 'response_types')],
  ['unsupported_grant_type', ANY, compared('grant_type', 'grant_types')],
  ['unauthorized_client', ANY, compared('grant_type', 'grant_types')],
  [IGNORED, ANY, ignored],
  ['sign_in_throttled', ANY,
    'too many attempts for this account, or from its network; the password was not checked',
    'wait, because the limit expires by itself. Until when: npm run usher -- accounts why ACCOUNT'],
  ['sign_in_failed', /^unknown$/, 'no account has this username',
    'the spelling of the username; the accounts: npm run usher -- accounts list'],
  ['sign_in_failed', /^disabled$/, 'the account is disabled',
    'npm run usher -- accounts enable ACCOUNT'],
  ['sign_in_failed', /^no_password$/, 'the account has no password',
    'npm run usher -- accounts password ACCOUNT'],
  ['sign_in_failed', /^wrong_password$/, 'the password is wrong',
    'the user types it again; a new one: npm run usher -- accounts password ACCOUNT'],
  ['sign_in_failed', /^malformed$/, 'accounts.module returned an account that is not valid',
    'the module: account_malformed in the log names the fields'],
]
