// Explains why a request failed: compares what was sent with what is
// configured, and says what to change.

import { basename, join } from 'node:path'
import { closest } from 'fastest-levenshtein'
import type { ValidFile } from '../config/files.ts'
import { configFolder, type Settings } from '../config/load.ts'
import { didYouMean, fill } from '../config/report/wording.ts'
import { type ClientFile, withoutSecret } from '../config/schema/client.ts'
import { CLOCK_TOLERANCE_SECONDS } from '../oidc/client-jwts.ts'
import { DESCRIPTIONS } from '../oidc/error-descriptions.ts'
import { harmless } from '../oidc/harmless.ts'
import {
  ANY_SECRET,
  type Compared,
  comparedBy,
  type FailedRequest,
  IGNORED,
  registeredValues,
} from '../operation/failures.ts'
import exchange from './exchange-refusals.json' with { type: 'json' }
import { UNKNOWN } from './failed-requests.ts'
import texts from './refusals.json' with { type: 'json' }
import { CLIENT_REFUSALS, type Said, SIGN_IN } from './why.ts'

/** A client: its file, or its registration. */
export type ClientSource = Pick<
  ValidFile<ClientFile>,
  'file' | 'value' | 'origin'
> &
  Partial<Pick<ValidFile<ClientFile>, 'written'>>

/**
 * A failed request, and the configuration as it is now; `settings` is absent
 * while it has errors.
 */
export type Facts = {
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
  /**
   * Difference between the sent value and the nearest one that is registered.
   */
  difference?: string
  change: string
}
type Reason = (facts: Facts) => Explanation

/**
 * Returns the explanation; for an error that is in no table, the detail of the
 * library.
 */
export function explainFailure(facts: Facts): Explanation {
  const { error, detail = '', sent, names } = facts.failure
  const row = rowsFor(error).find(({ detail: pattern = '' }) =>
    new RegExp(pattern).test(detail),
  )
  if (row) {
    const values = {
      tolerance: `${CLOCK_TOLERANCE_SECONDS} s`,
      client: nameOf(facts),
      detail,
      account: accountOf(facts),
      upstream: facts.failure.authentication,
    }
    const client = facts.failure.client_id ?? 'CLIENT_ID'
    return {
      wrong: fill(row.wrong, values),
      change: fill(row.change, { ...values, client }),
    }
  }
  const compared = comparedBy(error, detail)
  if (compared) return REASONS[compared](facts)
  if (error === IGNORED) return ignored(facts)
  const page =
    facts.settings &&
    `; ${facts.settings.issuer}/errors#${error} explains ${error}`
  return {
    wrong: detail || error,
    sent: [...Object.keys(sent), ...names].join(', ') || 'no parameter',
    change: `${DESCRIPTIONS[detail] ?? 'the request of the application'}${page ?? ''}`,
  }
}

/**
 * Texts for an error. `detail`: a pattern of the details that they are for;
 * absent: all.
 */
type Row = Said & { detail?: string }
const TABLES = [exchange, texts.errors].map(
  table => new Map<string, Row[]>(Object.entries(table)),
)

/** Returns the rows of an error. The first that fits is used. */
function rowsFor(error: string): Row[] {
  const reasons: Record<string, Said> =
    error === 'sign_in' ? SIGN_IN : CLIENT_REFUSALS
  const rows = Object.entries(reasons).map(([reason, said]) => ({
    detail: `^${reason}`,
    ...said,
  }))
  return [...TABLES.flatMap(table => table.get(error) ?? []), ...rows]
}

/**
 * The account of a failed sign-in. ACCOUNT: the record does not have it, and
 * the reader writes it there.
 */
function accountOf({ failure: { sent } }: Facts): string {
  return sent.account === undefined || sent.account === 'unknown'
    ? 'ACCOUNT'
    : sent.account
}

const nameOf = ({ failure }: Facts) => failure.client_id ?? 'the client'
/**
 * The place of a key of the client: its line, its file, its registration or its
 * metadata document.
 */
function placeOf({ client, failure }: Facts, key: string): string {
  const isDocument = !client && failure.client_id?.startsWith('https://')
  const elsewhere = isDocument
    ? 'its metadata document'
    : join(configFolder(), 'clients')
  return `${key} in ${client?.origin([key]) ?? client?.file ?? elsewhere}`
}
const sentAs = ({ failure }: Facts, name: string) =>
  failure.sent[name] ?? (failure.authentication === UNKNOWN ? UNKNOWN : 'none')

/**
 * The values that the provider compared with. The folder has them only for a
 * request that is known by its log line.
 */
function registeredOf(facts: Facts, compared: Compared): string[] {
  return facts.failure.registered ?? inFolder(facts, compared)
}

/** The values of the folder as it is now; none while it has errors. */
function inFolder({ client, settings }: Facts, compared: Compared): string[] {
  const known = client && withoutSecret(client.value)
  const isOfClient = known?.[compared as keyof typeof known] !== undefined
  if (!settings && !isOfClient) return []
  return registeredValues(compared, settings ?? NO_SETTINGS, known)
}
const NO_SETTINGS = { clients: [], resources: {}, scopes: {} }

/**
 * The remedy for a value that the folder has, and the provider did not have
 * then.
 */
const ADDED_SINCE =
  'send the request again, once the running service uses the folder'

const unknownClient: Reason = facts => {
  const { client, failure } = facts
  const { client_id } = failure
  const ids = registeredOf(facts, 'client_id')
  const added = client && `${client.file} has it now: ${ADDED_SINCE}`
  return {
    wrong: `no client ${client ? 'had this client_id then' : 'has this client_id'}${didYouMean(client_id ?? '', ids)}`,
    sent: client_id ?? UNKNOWN,
    registered: ids,
    change:
      added ??
      `the client_id in the application, or a file for it in ${join(configFolder(), 'clients')}`,
  }
}

/**
 * The parameter has a value that the client does not have under `key`, which is
 * its name or the plural of it.
 */
function unregistered(key: Compared & keyof ClientFile): Reason {
  const parameter = key.replace(/s$/, '')
  const isUri = key.endsWith('uris')
  return facts => {
    const { failure } = facts
    const registered = registeredOf(facts, key)
    const known = wordsIn(registered)
    const now = wordsIn(inFolder(facts, key))
    const sent = failure.sent[parameter]?.split(' ') ?? []
    const refused = sent.filter(value => !known.includes(value))
    const isAdded =
      refused.length > 0 && refused.every(value => now.includes(value))
    const isKnown = sent.length > 0 && refused.length === 0
    const hint = isUri
      ? '; they are compared byte for byte'
      : `: ${refused.join(' ') || UNKNOWN}`
    const wrong = `is none of those registered for ${nameOf(facts)}${hint}`
    const place = placeOf(facts, key)
    return {
      wrong: `the ${parameter} ${isKnown ? 'is registered now, and was not then' : wrong}`,
      sent: sentAs(facts, parameter),
      registered,
      difference: isUri
        ? differenceOf(failure.sent[parameter], known)
        : undefined,
      change: isAdded
        ? `${place} has it now: ${ADDED_SINCE}`
        : `${place}, or the ${isUri ? 'URI' : parameter} in the application`,
    }
  }
}

/**
 * Values as they are compared with a sent one, which was stored without what
 * may be secret.
 */
const wordsIn = (values: string[]) =>
  values.flatMap(value => harmless(value).split(' '))

const URI_PARTS = [
  ['protocol', 'scheme'],
  ['host', 'host'],
  ['pathname', 'path'],
  ['search', 'query'],
] as const

/**
 * Says which parts of the first unknown URI differ from the nearest of the
 * known ones.
 */
function differenceOf(uris = '', known: string[]): string | undefined {
  const sent = uris.split(' ').find(uri => !known.includes(uri))
  if (!sent || !known.length) return undefined
  const near = closest(sent, known)
  const [one, other] = [URL.parse(sent), URL.parse(near)]
  if (!one || !other)
    return `${near} is nearest, and the sent value is not an absolute URI`
  const isSlash = `${sent}/` === near || sent === `${near}/`
  const parts = URI_PARTS.filter(([part]) => one[part] !== other[part]).map(
    ([part, name]) =>
      `the ${name}: ${one[part] || 'none'} for ${other[part] || 'none'}`,
  )
  const named = isSlash
    ? 'the / at the end'
    : parts.join(', ') || 'the spelling'
  return `${near} is nearest; ${named} differs`
}

const target: Reason = facts => {
  const registered = registeredOf(facts, 'resource')
  return {
    wrong: `${nameOf(facts)} may not use this resource here, or not beside another`,
    sent: sentAs(facts, 'resource'),
    registered,
    difference: differenceOf(facts.failure.sent.resource, registered),
    change: `the resource in the application; clients in the API's file; ${placeOf(facts, 'scope')}`,
  }
}

/**
 * A client file without a method accepts the secret by Basic and in the body.
 */
const authentication: Reason = facts => {
  const sent = facts.failure.authentication
  const [method = ANY_SECRET, secrets = 'secrets: none'] = registeredOf(
    facts,
    'authentication',
  )
  if (sent !== UNKNOWN && !method.includes(sent)) {
    return {
      wrong: `${nameOf(facts)} does not authenticate by the method that is registered for it`,
      sent,
      registered: [method],
      change: `${placeOf(facts, 'token_endpoint_auth_method')}, or the method in the application`,
    }
  }
  const name = basename(facts.client?.file ?? 'NAME', '.yaml')
  const isRegistered =
    facts.client !== undefined && facts.client.written === undefined
  const another = isRegistered
    ? 'it gets another one when it registers again'
    : `a new one: npm run usher -- clients secret ${name}`
  return {
    wrong: `the secret is not one that ${nameOf(facts)} has`,
    registered: [secrets],
    change: `the secret in the application; ${another}`,
  }
}

/**
 * The request succeeded; the log names the parameters and scopes that had no
 * effect.
 */
const ignored: Reason = ({ failure: { detail = '' }, settings }) => {
  const { scopes = {}, resources = {} } = settings ?? {}
  const reasons = detail.split(', ').map(part => {
    const [, scope] = /^scope (.+)$/.exec(part) ?? []
    if (part === 'audience')
      return 'audience is not supported: send resource (RFC 8707)'
    if (part === 'resource')
      return 'resource is not supported: features.resource_indicators is off'
    if (/^acr_values /.test(part))
      return `${part} is the acr of no sign-in: see acr_values_supported`
    if (/^claim /.test(part)) return `${part} is in no claims.yaml`
    if (!scope) return `${part} is not supported`
    const api = Object.values(resources).find(({ scopes }) =>
      Object.hasOwn(scopes, scope),
    )
    if (api)
      return `${part} belongs to an API: send resource=${api.resource} with it`
    return `${part} is in no file of the folder${didYouMean(scope, Object.keys(scopes))}`
  })
  return {
    wrong: 'the request succeeded, and a part of it was ignored',
    sent: detail,
    difference: reasons.join('; '),
    change:
      'the request of the application; claims.yaml, and scopes of resources/NAME.yaml',
  }
}

/** Reasons that compare the request with the configuration. */
const REASONS: Record<Compared, Reason> = {
  client_id: unknownClient,
  authentication,
  redirect_uris: unregistered('redirect_uris'),
  post_logout_redirect_uris: unregistered('post_logout_redirect_uris'),
  response_types: unregistered('response_types'),
  grant_types: unregistered('grant_types'),
  scope: unregistered('scope'),
  resource: target,
}
