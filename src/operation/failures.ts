// Failed requests and failed sign-ins, kept for a day for
// `config explain REQUEST_ID` (commands/failure.ts): names of parameters, and
// the values that give no access.

import { distance } from 'fastest-levenshtein'
import type { Context } from 'koa'
import type { Settings } from '../config/load.ts'
import {
  type ClientMetadata,
  describeSecrets,
} from '../config/schema/client.ts'
import { allScopes } from '../config/schema/resource.ts'
import { BOUNDS } from '../oidc/bounds.ts'
import { forTerminal, redact } from '../oidc/display-text.ts'
import { endpointOf } from '../oidc/endpoints.ts'
import type { Records } from '../store/records.ts'
import { now, StoreUnavailable } from '../store/store.ts'
import { networkOf } from './client-info.ts'
import { createQuota, createQuotas } from './limits.ts'

/** A failed request, as it is stored. */
export interface FailedRequest {
  /** Epoch seconds. */
  at: number
  /**
   * The library's name of the endpoint, the route of a page, `none` or
   * `sign-in`.
   */
  endpoint: string
  status: number
  error: string
  detail?: string
  client_id?: string
  /** The methods of client authentication that the request used. */
  authentication: string
  sent: Record<string, string>
  /** Parameters whose values are not stored. */
  names: string[]
  /**
   * Values that the provider compared the request with, the nearest first.
   * Absent where nothing is compared.
   */
  registered?: string[]
}

/** The origin that `usher doctor` sends. Its failed requests are not stored. */
export const DOCTOR_ORIGIN = 'https://doctor.invalid'
const failures = (records: Records) => records.of<FailedRequest>('Failure')
const DAY_SECONDS = 24 * 3600

/** Parameters that are stored with their values. */
const SHOWN: string[] = [
  'client_id',
  'redirect_uri',
  'post_logout_redirect_uri',
  'response_type',
  'response_mode',
  'scope',
  'grant_type',
  'prompt',
  'max_age',
  'code_challenge_method',
  'resource',
  'token_type_hint',
  'client_assertion_type',
  'ui_locales',
  'audience',
]
/**
 * Other parameters are stored by name only: each name is redact on a
 * terminal.
 */
const PARAMETER_NAME = /^[a-z_]{1,40}$/
const MAX_NAMES = 20
/** Answers that are part of the protocol, not failures. */
const ANSWERS: string[] = [
  'login_required',
  'consent_required',
  'interaction_required',
  'access_denied',
  'use_dpop_nonce',
  'authorization_pending',
  'slow_down',
]

/**
 * The registered value that a failed request is compared with: a key of the
 * client, or ids of clients or APIs.
 */
export type Compared =
  | 'client_id'
  | 'authentication'
  | 'redirect_uris'
  | 'post_logout_redirect_uris'
  | 'response_types'
  | 'grant_types'
  | 'scope'
  | 'resource'

/** The compared value, by `ERROR: DETAIL`. The first that fits is used. */
const COMPARED: [pattern: RegExp, compared: Compared][] = [
  [/^invalid_client: .*client not found/, 'client_id'],
  [
    /^invalid_client: .*(registered client auth|invalid secret)/,
    'authentication',
  ],
  // Details about `redirect_uris` are of registrations.
  [/^invalid_redirect_uri: (?!redirect_uris)/, 'redirect_uris'],
  [/^invalid_request: .*post_logout/, 'post_logout_redirect_uris'],
  [/^unsupported_response_type:|response_type is not/, 'response_types'],
  [/^unsupported_grant_type:|grant type is not/, 'grant_types'],
  [/^invalid_scope: .*not allowed/, 'scope'],
  [/^invalid_target: (?!.*(absolute URI|fragment))/, 'resource'],
]

/**
 * Returns what a failed request is compared with; undefined where its error is
 * about the request alone.
 */
export function comparedBy(error: string, detail = ''): Compared | undefined {
  const [, compared] =
    COMPARED.find(([pattern]) => pattern.test(`${error}: ${detail}`)) ?? []
  return compared
}

/** The method of a client file without `token_endpoint_auth_method`. */
export const ANY_SECRET = 'client_secret_basic or client_secret_post'

/** The settings that requests are compared with. */
type Registered = Pick<Settings, 'clients' | 'resources' | 'scopes'>

/**
 * Returns the values that a request is compared with. `client`: its metadata;
 * absent for an unknown client. Of a client without `scope`, all scopes. For
 * `authentication`, the method and a description of the secrets.
 */
export function registeredValues(
  compared: Compared,
  settings: Registered,
  client?: Partial<ClientMetadata>,
): string[] {
  if (compared === 'client_id')
    return settings.clients.map(({ client_id }) => client_id)
  if (compared === 'resource') return Object.keys(settings.resources)
  if (compared === 'authentication') {
    const {
      token_endpoint_auth_method: method = ANY_SECRET,
      client_secret_hashes,
    } = client ?? {}
    return [
      method,
      `secrets: ${describeSecrets(client_secret_hashes) ?? 'none'}`,
    ]
  }
  const values = client?.[compared] ?? []
  if (compared === 'scope')
    return client?.scope ? [client.scope] : [allScopes(settings).join(' ')]
  return [values].flat()
}

/**
 * A client can have thousands of redirect URIs, and a folder thousands of
 * clients.
 */
const MAX_REGISTERED = 20

/**
 * Returns the values that are most like the sent one, in their order where
 * there are few.
 */
function nearest(values: string[], sent = ''): string[] {
  if (values.length <= MAX_REGISTERED) return values
  const byDistance = values.map(value => ({
    value,
    apart: distance(value, sent),
  }))
  byDistance.sort((one, other) => one.apart - other.apart)
  return byDistance.slice(0, MAX_REGISTERED).map(({ value }) => value)
}

/** The `error` of a request that succeeded, and of which a part was ignored. */
export const IGNORED = 'ignored'

/**
 * Returns the function that saves failed requests; it is called after each
 * request.
 */
export function createFailureLog(records: Records, settings: Registered) {
  const log = failures(records)
  const mayKeep = createShares(settings)
  const noteLeftOut = createLeftOut(records)
  return (ctx: Context): void => {
    const signIns = ctx.state.auditEvents.map(event =>
      failedSignIn({ ip: ctx.ip, ...event }),
    )
    const failed = signIns.find(Boolean) ?? failedRequest(ctx)
    if (!failed) return
    if (!mayKeep(ctx, failed)) {
      // `config explain -` reads it. Other lines have everything already.
      if (![IGNORED, 'sign_in'].includes(failed.error))
        ctx.state.log.not_kept = failed
      noteLeftOut()
      return
    }
    const registered = registeredFor(ctx, failed, settings)
    const failure: FailedRequest = {
      at: now(),
      status: ctx.status,
      ...failed,
      registered,
    }
    // The request does not wait. If the store is unavailable, `config explain`
    // does not find it.
    log.save(ctx.state.requestId, failure, { ttl: DAY_SECONDS }).catch(() => {})
  }
}

/**
 * Returns the function that decides whether a failure is kept: a flood does not
 * fill the store, and a client that fails in a loop leaves room for others.
 * Each failure has about 400 bytes.
 */
function createShares({ clients }: Registered) {
  const ofClient = createQuotas(BOUNDS.failuresOfClient)
  const ofPages = createQuotas(BOUNDS.failuresOfClient)
  // A client sends such a request at each sign-in.
  const ofIgnored = createQuotas(BOUNDS.ignoredPartsOfClient)
  const hasRoomForIgnored = createQuota(BOUNDS.ignoredParts)
  const hasRoom = createQuota(BOUNDS.failures)
  const hasRoomForStrangers = createQuota(BOUNDS.failuresOfStrangers)
  // Scanners that look for pages leave room for the requests of clients.
  const hasRoomForPages = createQuota(BOUNDS.failuresOfPages)
  return (ctx: Context, { client_id, error }: Described): boolean => {
    const network = networkOf(ctx.ip)
    if (error === IGNORED)
      return ofIgnored.take(`${network} ${client_id}`) && hasRoomForIgnored()
    if (!endpointOf(ctx.path)) return ofPages.take(network) && hasRoomForPages()
    const isOfFile = clients.some(client => client.client_id === client_id)
    if (isOfFile) return ofClient.take(`${network} ${client_id}`) && hasRoom()
    const registered = ctx.oidc?.client?.clientId ?? ''
    // Anybody can invent an id, and publish a document.
    const client = registered.startsWith('https://') ? '' : registered
    return ofClient.take(`${network} ${client}`) && hasRoomForStrangers()
  }
}

/**
 * A minute in which some failures were not kept. `at`: its beginning, in epoch
 * seconds.
 */
interface LeftOut {
  at: number
}
const leftOutMinutes = (records: Records) =>
  records.of<LeftOut>('FailuresLeftOut')
const LEFT_OUT_MINUTES: [string, string] = ['failures left out', 'all']

/**
 * Returns the function that notes, once a minute, that failures are not kept.
 */
function createLeftOut(records: Records) {
  const minutes = leftOutMinutes(records)
  let noted = 0
  return (): void => {
    const at = now() - (now() % 60)
    if (at === noted) return
    noted = at
    const options = { ttl: DAY_SECONDS, indexes: [LEFT_OUT_MINUTES] }
    minutes.save(String(at), { at }, options).catch(() => {})
  }
}

/**
 * Returns the minutes of the last day in which some failures were not kept, the
 * latest first.
 */
export async function minutesLeftOut(records: Records): Promise<number[]> {
  const all = await leftOutMinutes(records).list(...LEFT_OUT_MINUTES)
  return all.map(({ at }) => at).sort((one, other) => other - one)
}

type Described = Omit<FailedRequest, 'at' | 'status'>

function registeredFor(ctx: Context, failed: Described, settings: Registered) {
  const { error, detail, client_id, sent } = failed
  const compared = comparedBy(error, detail)
  if (!compared) return undefined
  const values = registeredValues(
    compared,
    settings,
    clientOf(ctx, settings, client_id),
  )
  return nearest(
    values,
    compared === 'client_id' ? client_id : sent[parameterOf(compared)],
  )
}

/**
 * Returns the metadata of a client. One without a file registered itself, or
 * has a metadata document.
 */
function clientOf(
  ctx: Context,
  { clients }: Registered,
  id: string | undefined,
) {
  const ofFile = clients.find(({ client_id }) => client_id === id)
  const ofLibrary: Partial<ClientMetadata> | undefined =
    ctx.oidc?.client?.metadata()
  return ofFile ?? ofLibrary
}

const parameterOf = (compared: Compared) => compared.replace(/s$/, '')

/**
 * A parameter of a failed request beside the values that it was compared with.
 */
export interface Comparison {
  parameter: string
  sent: string
  registered: string[]
}

/**
 * Returns what a request sent, and what is registered; undefined where its
 * error is about the request alone.
 */
export function comparisonOf(
  ctx: Context,
  settings: Registered,
): Comparison | undefined {
  const { error, detail } = ctx.state.log
  const compared = comparedBy(String(error), String(detail))
  if (!compared) return undefined
  const params: Record<string, unknown> = ctx.oidc?.params ?? ctx.query
  const parameter = parameterOf(compared)
  const sent = [params[parameter] ?? ''].flat().join(' ')
  const client = clientOf(ctx, settings, String(params.client_id))
  const registered = nearest(registeredValues(compared, settings, client), sent)
  return { parameter, sent: forTerminal(sent), registered }
}

/**
 * Describes the sign-in of an audit event, which never has the typed name;
 * undefined for other events.
 */
export function failedSignIn(
  audit: Record<string, unknown>,
): Described | undefined {
  const {
    event,
    account = 'unknown',
    ip,
    reason,
    upstream = 'password',
    factor = upstream,
  } = audit
  if (!/^(sign_in|second_factor)_(failed|throttled)$/.test(String(event)))
    return undefined
  const sent = { account: redact(String(account)), ip: redact(String(ip)) }
  const about = {
    error: 'sign_in',
    detail: redact(String(reason)),
    sent,
    names: [],
  }
  return {
    endpoint: 'sign-in',
    ...about,
    authentication: redact(String(factor)),
  }
}

/** Returns the failed request with this `request_id`; undefined after a day. */
export async function findFailure(records: Records, id: string) {
  const { value } = await failures(records).read(id)
  return value
}

function failedRequest(ctx: Context): Described | undefined {
  const { log } = ctx.state
  const error = isIgnored(ctx) ? IGNORED : log.error
  if (typeof error !== 'string' || isAnswer(ctx, error)) return undefined
  if (isUnrecorded(ctx)) return undefined
  const detail = error === IGNORED ? log.ignored : log.detail
  const params = textParameters(ctx)
  return {
    endpoint: endpointOf(ctx.path) ?? String(ctx._matchedRoute ?? 'none'),
    error,
    ...(typeof detail === 'string' && { detail: redact(detail) }),
    client_id:
      typeof log.client_id === 'string'
        ? log.client_id
        : unknownClient(ctx, params),
    authentication: authenticationOf(ctx, params),
    sent: shownIn(params),
    names: otherNamesIn(params),
  }
}

/** Whether the request succeeded, and a part of it had no effect. */
const isIgnored = ({ state: { log } }: Context) =>
  log.error === undefined && typeof log.ignored === 'string'

/**
 * Whether the error is part of the protocol. An error page shows its reference,
 * whatever the error is.
 */
function isAnswer(ctx: Context, error: string): boolean {
  const isPage = ctx.status >= 400 && ctx.response.is('html')
  return ANSWERS.includes(error) && !isPage
}

/**
 * An unavailable store takes no record. The command `usher doctor` writes
 * nothing.
 */
function isUnrecorded(ctx: Context): boolean {
  const { fault, outage } = ctx.state
  const isStoreGone = fault instanceof StoreUnavailable && fault !== outage
  return isStoreGone || ctx.get('Origin') === DOCTOR_ORIGIN
}

/** Returns the parameters of the request whose values are text. */
function textParameters(ctx: Context): Record<string, unknown> {
  const all: Record<string, unknown> =
    ctx.oidc?.params ?? ctx.oidc?.body ?? ctx.query
  const texts = Object.entries(all).filter(([, value]) => isText(value))
  return Object.fromEntries(texts)
}

/** Returns the parameters that are stored with their values. */
function shownIn(params: Record<string, unknown>): Record<string, string> {
  const shown: Record<string, string> = {}
  for (const name of SHOWN) {
    if (name in params) shown[name] = redact([params[name]].flat().join(' '))
  }
  return shown
}

/** Returns the names of the other parameters. */
const otherNamesIn = (params: Record<string, unknown>) =>
  Object.keys(params)
    .filter(name => !SHOWN.includes(name) && PARAMETER_NAME.test(name))
    .slice(0, MAX_NAMES)

/** JSON bodies can hold values that cannot be converted to text. */
const isText = (value: unknown) =>
  [value].flat().every(part => typeof part === 'string')

function unknownClient(
  ctx: Context,
  { client_id }: Record<string, unknown>,
): string | undefined {
  if (typeof client_id === 'string') return redact(client_id)
  const [, basic] = /^basic (\S+)$/i.exec(ctx.get('Authorization')) ?? []
  if (!basic) return undefined
  return redact(Buffer.from(basic, 'base64').toString().replace(/:.*/s, ''))
}

const METHODS = new Map(
  Object.entries({
    basic: 'client_secret_basic',
    bearer: 'bearer',
    dpop: 'dpop',
  }),
)

function authenticationOf(
  ctx: Context,
  params: Record<string, unknown>,
): string {
  const [scheme = ''] = ctx.get('Authorization').toLowerCase().split(' ')
  const ways = [
    scheme && (METHODS.get(scheme) ?? 'an unknown Authorization header'),
    params.client_secret && 'client_secret_post',
    params.client_assertion && 'private_key_jwt',
  ]
  return ways.filter(Boolean).join(' and ') || 'none'
}
