// Explains why a request failed: compares what was sent with what is configured, and says what to change.

import { basename } from 'node:path'
import { closest } from 'fastest-levenshtein'
import { withoutSecret } from '../config/client-secret.ts'
import type { ValidFile } from '../config/files.ts'
import type { Settings } from '../config/load.ts'
import { didYouMean } from '../config/report/wording.ts'
import type { ClientFile } from '../config/schema/client.ts'
import { allScopes } from '../config/schema/resource.ts'
import { DESCRIPTIONS } from '../provider/error-descriptions.ts'
import { type FailedRequest, harmless } from '../provider/failures.ts'
import { CLOCK_TOLERANCE_SECONDS } from '../provider/requests.ts'
import { describeSecrets } from './command.ts'
import exchange from './exchange-refusals.json' with { type: 'json' }
import texts from './refusals.json' with { type: 'json' }
import { CLIENT_REFUSALS, type Said, SIGN_IN } from './why.ts'

/** A client: its file, or its registration. */
export type ClientSource = Pick<ValidFile<ClientFile>, 'file' | 'value' | 'origin'> &
  Partial<Pick<ValidFile<ClientFile>, 'written'>>

/** A failed request, and the configuration as it is now; `settings` is absent while it has errors. */
export type Facts = { failure: FailedRequest; client?: ClientSource; settings?: Settings }

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

/** Returns the explanation; for an error that is in no table, the detail of the library. */
export function explainFailure(facts: Facts): Explanation {
  const { error, detail = '', sent, names } = facts.failure
  const row = rowsFor(error).find(({ detail: pattern = '' }) => new RegExp(pattern).test(detail))
  if (row) {
    const wrong = row.wrong
      .replace('TOLERANCE', `${CLOCK_TOLERANCE_SECONDS} s`)
      .replace('CLIENT', nameOf(facts))
      .replace('DETAIL', detail)
    return { wrong, change: row.change.replace('ACCOUNT', sent.account ?? 'NAME') }
  }
  const compared = COMPARED.find(([pattern]) => pattern.test(`${error}: ${detail}`))
  if (compared) return compared[1](facts)
  const page = facts.settings && `; ${facts.settings.issuer}/errors#${error} explains ${error}`
  return {
    wrong: detail || error,
    sent: [...Object.keys(sent), ...names].join(', ') || 'no parameter',
    change: `${DESCRIPTIONS[detail] ?? 'the request of the application'}${page ?? ''}`,
  }
}

/** Texts for an error. `detail`: a pattern of the details that they are for; absent: all. */
type Row = Said & { detail?: string }
const TABLES = [exchange, texts.errors].map(table => new Map<string, Row[]>(Object.entries(table)))

/** Returns the rows of an error. The first that fits is used. */
function rowsFor(error: string): Row[] {
  const reasons: Record<string, Said> = error === 'sign_in' ? SIGN_IN : CLIENT_REFUSALS
  const rows = Object.entries(reasons).map(([reason, said]) => ({ detail: `^${reason}`, ...said }))
  return [...TABLES.flatMap(table => table.get(error) ?? []), ...rows]
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

/** The parameter has a value that the client does not have under `key`, which is its name or the plural of it. */
function unregistered(key: keyof ClientFile): Reason {
  const parameter = key.replace(/s$/, '')
  const isUri = key.endsWith('uris')
  return facts => {
    const { client, failure, settings } = facts
    const all = key === 'scope' && settings ? allScopes(settings).join(' ') : []
    const registered = [client?.value[key] ?? all].flat().map(String)
    const known = registered.flatMap(value => harmless(value).split(' '))
    const refused = failure.sent[parameter]?.split(' ').filter(value => !known.includes(value))
    const hint = isUri ? '; they are compared byte for byte' : `: ${refused?.join(' ') ?? UNKNOWN}`
    const wrong = `is none of those registered for ${nameOf(facts)}${hint}`
    return {
      wrong: `the ${parameter} ${refused?.length === 0 ? 'is registered now, and was not then' : wrong}`,
      sent: sentAs(facts, parameter),
      registered,
      difference: isUri ? differenceOf(failure.sent[parameter], known) : undefined,
      change: `${placeOf(facts, key)}, or the ${isUri ? 'URI' : parameter} in the application`,
    }
  }
}

const URI_PARTS = [
  ['protocol', 'scheme'],
  ['host', 'host'],
  ['pathname', 'path'],
  ['search', 'query'],
] as const

/** Says which parts of the first unknown URI differ from the nearest of the known ones. */
function differenceOf(uris = '', known: string[]): string | undefined {
  const sent = uris.split(' ').find(uri => !known.includes(uri))
  if (!sent || !known.length) return undefined
  const near = closest(sent, known)
  const [one, other] = [URL.parse(sent), URL.parse(near)]
  if (!one || !other) return `${near} is nearest, and the sent value is not an absolute URI`
  const isSlash = `${sent}/` === near || sent === `${near}/`
  const parts = URI_PARTS.filter(([part]) => one[part] !== other[part]).map(
    ([part, name]) => `the ${name}: ${one[part] || 'none'} for ${other[part] || 'none'}`,
  )
  const named = isSlash ? 'the / at the end' : parts.join(', ') || 'the spelling'
  return `${near} is nearest; ${named} differs`
}

const target: Reason = facts => {
  const registered = Object.keys(facts.settings?.resources ?? {})
  return {
    wrong: `${nameOf(facts)} may not use this resource here, or not beside another`,
    sent: sentAs(facts, 'resource'),
    registered,
    difference: differenceOf(facts.failure.sent.resource, registered),
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

/** Reasons that compare the request with the configuration, by `ERROR: DETAIL`. The first that fits is used. */
const COMPARED: [pattern: RegExp, reason: Reason][] = [
  [/^invalid_client: .*client not found/, unknownClient],
  [/^invalid_client: .*(registered client auth|invalid secret)/, authentication],
  // Details about `redirect_uris` are of registrations.
  [/^invalid_redirect_uri: (?!redirect_uris)/, unregistered('redirect_uris')],
  [/^invalid_request: .*post_logout/, unregistered('post_logout_redirect_uris')],
  [/^unsupported_response_type:|response_type is not/, unregistered('response_types')],
  [/^unsupported_grant_type:|grant type is not/, unregistered('grant_types')],
  [/^invalid_scope: .*not allowed/, unregistered('scope')],
  [/^invalid_target: (?!.*(absolute URI|fragment))/, target],
  [RegExp(`^${IGNORED}:`), ignored],
]
