// Explains why a request failed: compares what was sent with what is configured, and says what to change.

import { basename } from 'node:path'
import { withoutSecret } from '../config/client-secret.ts'
import type { ValidFile } from '../config/files.ts'
import type { Settings } from '../config/load.ts'
import { didYouMean } from '../config/report/wording.ts'
import type { ClientFile } from '../config/schema/client.ts'
import { allScopes } from '../config/schema/resource.ts'
import { CLIENT_REFUSALS } from '../features/application-access.ts'
import { DESCRIPTIONS } from '../provider/error-descriptions.ts'
import { type FailedRequest, harmless } from '../provider/failures.ts'
import { CLOCK_TOLERANCE_SECONDS } from '../provider/requests.ts'
import { describeSecrets } from './command.ts'
import exchange from './exchange-refusals.json' with { type: 'json' }
import { differenceOf } from './uri-difference.ts'
import { PAGES, type Said, SIGN_IN } from './why.ts'

/** A client: its file, or its registration. */
export type ClientSource = Pick<ValidFile<ClientFile>, 'file' | 'value' | 'origin'> &
  Partial<Pick<ValidFile<ClientFile>, 'written'>>

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

/** A value that is not in the log. */
export const UNKNOWN = 'not known'
/** The `error` of a request that succeeded, and of which a part was ignored. */
export const IGNORED = 'ignored'

/** The methods of a client file without `token_endpoint_auth_method`. */
export const ANY_SECRET = 'client_secret_basic or client_secret_post'

/** Returns the explanation; for an error that is not in the table, the detail of the library. */
export function explainFailure(facts: Facts): Explanation {
  const { error, detail = '', sent, names } = facts.failure
  const rows = Object.hasOwn(REASONS, error) ? REASONS[error] : undefined
  const row = rows?.find(({ detail: pattern = '' }) => new RegExp(pattern).test(detail))
  if (row && 'reason' in row) return row.reason(facts)
  if (row) {
    const wrong = row.wrong.replace('CLIENT', nameOf(facts)).replace('DETAIL', detail)
    return { wrong, change: row.change.replace('ACCOUNT', sent.account ?? 'NAME') }
  }
  const page = facts.settings && `; ${facts.settings.issuer}/errors#${error} explains ${error}`
  return {
    wrong: detail || error,
    sent: [...Object.keys(sent), ...names].join(', ') || 'no parameter',
    change: `${DESCRIPTIONS[detail] ?? 'the request of the application'}${page ?? ''}`,
  }
}

const nameOf = ({ failure }: Facts) => failure.client_id ?? 'the client'
/** The place of a key of the client: its line, or its file. */
const placeOf = ({ client }: Facts, key: string) =>
  `${key} in ${client?.origin([key]) ?? client?.file ?? 'config/clients'}`
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

/** The parameter has a value that the client does not have under `key`. */
function unregistered(parameter: string, key: keyof ClientFile): Reason {
  const isUri = key.endsWith('uris')
  return facts => {
    const { client, failure, settings } = facts
    const all = key === 'scope' && settings ? allScopes(settings).join(' ') : []
    const registered = [client?.value[key] ?? all].flat().map(String)
    const known = registered.flatMap(value => harmless(value).split(' '))
    const refused = failure.sent[parameter]?.split(' ').filter(value => !known.includes(value))
    const [uri] = isUri && known.length ? (refused ?? []) : []
    const hint = isUri ? '; they are compared byte for byte' : `: ${refused?.join(' ') ?? UNKNOWN}`
    const wrong = `is none of those registered for ${nameOf(facts)}${hint}`
    return {
      wrong: `the ${parameter} ${refused?.length === 0 ? 'is registered now, and was not then' : wrong}`,
      sent: sentAs(facts, parameter),
      registered,
      difference: uri && differenceOf(uri, known),
      change: `${placeOf(facts, key)}, or the ${isUri ? 'URI' : parameter} in the application`,
    }
  }
}

const target: Reason = facts => {
  const registered = Object.keys(facts.settings?.resources ?? {})
  const sent = sentAs(facts, 'resource')
  const isNear = registered.length && !registered.some(uri => sent.split(' ').includes(uri))
  return {
    wrong: `${nameOf(facts)} may not use this resource here, or not beside another`,
    sent,
    registered,
    difference: isNear ? differenceOf(sent, registered) : undefined,
    change: `the resource in the application; clients in the API's file; ${placeOf(facts, 'scope')}`,
  }
}

/** A client file without a method accepts the secret by Basic and in the body. */
const authentication: Reason = facts => {
  const sent = facts.failure.authentication
  const { value: client } = facts.client ?? {}
  const method = client?.token_endpoint_auth_method ?? ANY_SECRET
  if (sent !== UNKNOWN && !method.includes(sent)) {
    return {
      wrong: `${nameOf(facts)} does not authenticate by the method that is registered for it`,
      sent,
      registered: [method],
      change: `${placeOf(facts, 'token_endpoint_auth_method')}, or the method in the application`,
    }
  }
  const name = basename(facts.client?.file ?? 'NAME', '.yaml')
  const secrets = client && describeSecrets(withoutSecret(client).client_secret_hashes)
  return {
    wrong: `the secret is not one that ${nameOf(facts)} has`,
    registered: [`secrets: ${secrets ?? 'none'}`],
    change: `the secret in the application; a new one: npm run usher -- clients secret ${name}`,
  }
}

/** The request succeeded; the log names the parameters and scopes that had no effect. */
const ignored: Reason = ({ failure: { detail = '' }, settings }) => {
  const { scopes = {}, resources = {} } = settings ?? {}
  const reasons = detail.split(', ').map(part => {
    const [, scope] = /^scope (.+)$/.exec(part) ?? []
    if (part === 'audience') return 'audience is not supported: send resource (RFC 8707)'
    if (!scope) return `${part} is not supported`
    const api = Object.values(resources).find(({ scopes }) => Object.hasOwn(scopes, scope))
    if (api) return `${part} belongs to an API: send resource=${api.resource} with it`
    return `${part} is in no file of the folder${didYouMean(scope, Object.keys(scopes))}`
  })
  return {
    wrong: 'the request succeeded, and a part of it was ignored',
    sent: detail,
    difference: reasons.join('; '),
    change: 'the request of the application; claims.yaml, and scopes of resources/NAME.yaml',
  }
}

/** Returns a row for each beginning of a detail. */
const rowsOf = (all: Record<string, Said>): Row[] =>
  Object.entries(all).map(([reason, said]) => ({ detail: new RegExp(`^${reason}`), ...said }))
const refused = rowsOf(CLIENT_REFUSALS)
const FETCH = 'that URL; a host that is not public needs egress.allow in usher.yaml'
const responseType = unregistered('response_type', 'response_types')
const grantType = unregistered('grant_type', 'grant_types')
const scope = unregistered('scope', 'scope')

/** A reason, or what it says. `detail`: the details that it is for, or a part of them; absent: all. */
type Row = { detail?: RegExp | string } & (Said | { reason: Reason })

/** The rows of each error. The first that fits is used. */
const REASONS: Record<string, Row[]> = {
  invalid_client: [
    { detail: /client not found/, reason: unknownClient },
    {
      detail: /fetch not allowed/,
      wrong: 'the document of CLIENT is not fetched: its host is not in hosts',
      change:
        'features.client_id_metadata_documents.hosts in usher.yaml, or a file with this client_id',
    },
    {
      detail: /^(the host|port|connect|no answer) |certificate$|unexpected|too large|JSON/,
      wrong: 'there is no document at CLIENT (DETAIL)',
      change: FETCH,
    },
    {
      detail: /jwks_uri|invalid_client_metadata/,
      wrong: 'there is no JWKS at the jwks_uri of CLIENT (DETAIL)',
      change: FETCH,
    },
    { detail: /registered client auth|invalid secret/, reason: authentication },
    {
      detail: /expired|not active|in the future/,
      wrong: `DETAIL: the client_assertion. Clocks may differ by ${CLOCK_TOLERANCE_SECONDS} s`,
      change: 'the clocks of both sides (NTP); exp is a minute ahead, a new assertion each time',
    },
    {
      detail: /\baud\b|audience/,
      wrong: 'the client_assertion is not for this provider',
      change:
        'aud is one text: the issuer, the token endpoint or the endpoint called; for fapi2 the issuer',
    },
  ],
  temporarily_unavailable: [
    {
      detail: /^(query|connect|no answer|answered|other side)/,
      wrong: 'there is no document at CLIENT, or no JWKS at its jwks_uri (DETAIL)',
      change: FETCH,
    },
  ],
  invalid_redirect_uri: [
    {
      detail: /^(post_logout_)?redirect_uris\b/,
      wrong: 'the metadata of CLIENT: DETAIL',
      change: 'the metadata that the application sends, or its metadata document',
    },
    { reason: unregistered('redirect_uri', 'redirect_uris') },
  ],
  invalid_request: [
    {
      detail: /post_logout/,
      reason: unregistered('post_logout_redirect_uri', 'post_logout_redirect_uris'),
    },
    { detail: /response_type is not/, reason: responseType },
    { detail: /grant type is not/, reason: grantType },
    ...exchange.invalid_request,
  ],
  access_denied: refused,
  invalid_token: refused,
  unauthorized_client: [...refused, ...exchange.unauthorized_client],
  invalid_grant: [
    ...refused,
    ...exchange.invalid_grant,
    {
      detail: /already/,
      wrong: 'it was used before, and works once. The tokens of the first use are revoked',
      change: 'the application: two processes, or a retry, use the same one',
    },
    {
      detail: /code (not|is)/,
      wrong: 'the code expired (lifetimes.code, or interaction for a device), or was never issued',
      change: 'the application redeems it at once',
    },
    {
      detail: /token (not|is)/,
      wrong:
        'it expired (lifetimes.refresh_token, refresh_token_idle), was revoked, or was never issued',
      change: 'the application sends the user to sign in again',
    },
    {
      detail: /client mismatch/,
      wrong: 'it was issued to another client',
      change: 'the application sends it with the client_id that it was issued to',
    },
  ],
  invalid_scope: [...exchange.invalid_scope, { detail: /not allowed/, reason: scope }],
  invalid_target: [
    ...exchange.invalid_target,
    { detail: /^(?!.*(absolute URI|fragment))/, reason: target },
  ],
  unsupported_response_type: [{ reason: responseType }],
  unsupported_grant_type: [{ reason: grantType }],
  [IGNORED]: [{ reason: ignored }],
  ...PAGES,
  sign_in: rowsOf(SIGN_IN),
}
