// Why a request failed, for `config explain REQUEST_ID`:
//
//   1  findFailedRequest    the record in the store, or the same record made from lines of the log
//   2  explainFailure       by a text of a table; by a comparison of what was sent with what is
//                           registered; by the detail of the library
//
// Nothing else knows of log lines.

import { basename, join } from 'node:path'
import { closest } from 'fastest-levenshtein'
import { configFolder } from '../config/environment.ts'
import type { Settings } from '../config/load.ts'
import { didYouMean, fill } from '../config/report/wording.ts'
import { type ClientFile, withoutSecret } from '../config/schema/client.ts'
import { CLOCK_TOLERANCE_SECONDS } from '../oidc/client-jwts.ts'
import { redact } from '../oidc/display-text.ts'
import { endpointOf } from '../oidc/endpoints.ts'
import { DESCRIPTIONS } from '../oidc/error-descriptions.ts'
import {
  ANY_SECRET,
  type Compared,
  comparedBy,
  type FailedRequest,
  failedSignIn,
  findFailure,
  IGNORED,
  minutesLeftOut,
  registeredValues,
} from '../operation/failures.ts'
import { mapOf, readJson } from '../store/values.ts'
import type { ClientSource } from './clients.ts'
import { Failure, readStdin } from './command.ts'
import exchange from './exchange-refusals.json' with { type: 'json' }
import { openRecordsOfService, openState } from './open-store.ts'
import texts from './refusals.json' with { type: 'json' }
import { CLIENT_REFUSALS, type Said, SIGN_IN } from './why.ts'

/** A value that neither the store nor the log has. */
const UNKNOWN = 'not known'

const REQUEST_ID = /^[0-9a-f]{16}$/
const MAX_MINUTES_SHOWN = 5

/**
 * Returns the failed request of an id, or, for `-`, of the log on standard
 * input. Undefined: the store has none.
 */
export function findFailedRequest(
  name: string,
): Promise<FailedRequest | undefined> {
  return name === '-' ? readFailureOfLog() : readFailureOfStore(name)
}

async function readFailureOfStore(
  id: string,
): Promise<FailedRequest | undefined> {
  if (!REQUEST_ID.test(id)) return undefined
  return findFailure(await openRecords(), id)
}

/**
 * Opens the store with an error in usher.yaml, too: it may be the reason of a
 * failure.
 */
async function openRecords() {
  const records = await openRecordsOfService().catch(() => undefined)
  return records ?? (await openState()).records
}

type LogLine = Record<string, unknown>

/**
 * Reads the last request of the log on standard input. Throws a `Failure` if it
 * did not fail.
 */
async function readFailureOfLog(): Promise<FailedRequest> {
  const lines = (await readStdin()).split('\n').map(readLogLine)
  const line = lines.findLast(({ status }) => Number.isInteger(status))
  if (!line)
    throw new Failure('Standard input has no line of the log about a request.')
  const stored = await readFailureOfStore(String(line.id)).catch(
    () => undefined,
  )
  if (stored) return stored
  const linesOfRequest = lines.filter(({ id }) => id === line.id)
  const failure = signInOfLog(line, linesOfRequest) ?? failureOfLine(line)
  if (!failure) throw new Failure(`This request did not fail: ${line.status}.`)
  return failure
}

/** Usher's line begins at the brace; a collector may write a prefix. */
const readLogLine = (line: string): LogLine =>
  mapOf(readJson(line.slice(line.indexOf('{'))))

/** Returns a failed sign-in: an audit event beside the line of the request. */
function signInOfLog(
  line: LogLine,
  linesOfRequest: LogLine[],
): FailedRequest | undefined {
  const signIn = linesOfRequest
    .map(failedSignIn)
    .find(found => found !== undefined)
  return signIn && { ...resultOf(line), ...signIn }
}

/**
 * Returns the failure of a line. `not_kept`: what the record would have, if
 * there had been room for it.
 */
function failureOfLine(line: LogLine): FailedRequest | undefined {
  const isIgnored = line.error === undefined && line.ignored !== undefined
  const error = isIgnored ? IGNORED : line.error
  const detail = isIgnored ? line.ignored : line.detail
  if (error === undefined) return undefined
  const unkept = mapOf(line.not_kept)
  const sent = Object.entries(mapOf(unkept.sent))
  const { route = 'none' } = line
  return {
    ...resultOf(line),
    endpoint: endpointOf(String(route)) ?? String(route),
    error: redact(String(error)),
    detail: redactedText(detail),
    client_id: redactedText(line.client_id ?? unkept.client_id),
    authentication: redactedText(unkept.authentication) ?? UNKNOWN,
    sent: Object.fromEntries(
      sent.map(([name, value]) => [name, redact(String(value))]),
    ),
    names: Array.isArray(unkept.names) ? unkept.names.map(String) : [],
  }
}

function resultOf({ time, status }: LogLine) {
  const at = Math.floor(Date.parse(String(time)) / 1000)
  return { at: at || 0, status: Number(status) }
}

function redactedText(value: unknown): string | undefined {
  return value === undefined ? undefined : redact(String(value))
}

/** Returns advice about a request that the store does not have. */
export async function adviceWithoutRecord(id: string): Promise<string> {
  const isId = REQUEST_ID.test(id)
  const leftOut = isId ? await describeLeftOut().catch(() => '') : ''
  return `
Failed requests and sign-ins are remembered for a day, up to 60 a minute of each client and network.${leftOut}
The log has lines for others:
grep '"id":"${isId ? id : 'REQUEST_ID'}"' LOG | npm run -s usher -- config explain -`
}

/**
 * Says in which minutes failed requests were not kept; empty if there are none.
 */
async function describeLeftOut(): Promise<string> {
  const minutes = await minutesLeftOut(await openRecords())
  if (!minutes.length) return ''
  const shown = minutes.slice(0, MAX_MINUTES_SHOWN).map(minuteOf)
  const more = minutes.length - shown.length
  if (more > 0) shown.push(`${more} others`)
  return `\nSo many requests failed that some were not kept, at ${shown.join(', ')} (UTC).`
}

/** Returns epoch seconds as a minute, such as 2026-11-28 18:41. */
const minuteOf = (seconds: number) =>
  new Date(seconds * 1000).toISOString().slice(0, 16).replace('T', ' ')

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

/**
 * Returns the explanation; for an error that is in no table, the detail of the
 * library.
 */
export function explainFailure(facts: Facts): Explanation {
  const { error, detail } = facts.failure
  const row = rowFor(error, detail)
  if (row) return explainByText(row, facts)
  const compared = comparedBy(error, detail)
  if (compared) return explainComparison(compared, facts)
  if (error === IGNORED) return explainIgnored(facts)
  return explainByDetail(facts)
}

/**
 * Texts for an error. `detail`: a pattern of the details that they are for;
 * absent: all.
 */
type Row = Said & { detail?: string }
const TABLES = [exchange, texts.errors].map(
  table => new Map<string, Row[]>(Object.entries(table)),
)

/** Returns the first row that fits. */
function rowFor(error: string, detail = ''): Row | undefined {
  const rows = TABLES.flatMap(table => table.get(error) ?? [])
  const reasons = error === 'sign_in' ? SIGN_IN : CLIENT_REFUSALS
  for (const [reason, said] of Object.entries<Said>(reasons)) {
    rows.push({ detail: `^${reason}`, ...said })
  }
  return rows.find(row => new RegExp(row.detail ?? '').test(detail))
}

function explainByText(row: Row, facts: Facts): Explanation {
  const { client_id, detail = '', authentication } = facts.failure
  const values = {
    tolerance: `${CLOCK_TOLERANCE_SECONDS} s`,
    client: clientIn(facts),
    detail,
    account: accountIn(facts),
    upstream: authentication,
  }
  return {
    wrong: fill(row.wrong, values),
    change: fill(row.change, { ...values, client: client_id ?? 'CLIENT_ID' }),
  }
}

/**
 * The account of a failed sign-in. ACCOUNT: the record does not have it, and
 * the reader writes it there.
 */
function accountIn({ failure: { sent } }: Facts): string {
  const { account = 'unknown' } = sent
  return account === 'unknown' ? 'ACCOUNT' : account
}

const clientIn = ({ failure }: Facts) => failure.client_id ?? 'the client'

function explainByDetail({ failure, settings }: Facts): Explanation {
  const { error, detail = '', sent, names } = failure
  const page = settings
    ? `; ${settings.issuer}/errors#${error} explains ${error}`
    : ''
  return {
    wrong: detail || error,
    sent: [...Object.keys(sent), ...names].join(', ') || 'no parameter',
    change: `${DESCRIPTIONS[detail] ?? 'the request of the application'}${page}`,
  }
}

/** Explains a request that sent another value than those registered. */
function explainComparison(compared: Compared, facts: Facts): Explanation {
  if (compared === 'client_id') return explainClientId(facts)
  if (compared === 'authentication') return explainAuthentication(facts)
  if (compared === 'resource') return explainResource(facts)
  return explainUnregistered(compared, facts)
}

/**
 * The remedy for a value that the folder has, and the provider did not have
 * then.
 */
const ADDED_SINCE =
  'send the request again, once the running service uses the folder'

function explainClientId(facts: Facts): Explanation {
  const { client, failure } = facts
  const { client_id } = failure
  const ids = registeredOf(facts, 'client_id')
  const near = didYouMean(client_id ?? '', ids)
  const when = client ? 'had this client_id then' : 'has this client_id'
  const elsewhere = `the client_id in the application, or a file for it in ${clientsFolder()}`
  return {
    wrong: `no client ${when}${near}`,
    sent: client_id ?? UNKNOWN,
    registered: ids,
    change: client ? `${client.file} has it now: ${ADDED_SINCE}` : elsewhere,
  }
}

/**
 * A client file without a method accepts the secret by Basic and in the body.
 */
function explainAuthentication(facts: Facts): Explanation {
  const sent = facts.failure.authentication
  const [method = ANY_SECRET, secrets = 'secrets: none'] = registeredOf(
    facts,
    'authentication',
  )
  if (sent !== UNKNOWN && !method.includes(sent)) {
    return {
      wrong: `${clientIn(facts)} does not authenticate by the method that is registered for it`,
      sent,
      registered: [method],
      change: `${placeIn(facts, 'token_endpoint_auth_method')}, or the method in the application`,
    }
  }
  return {
    wrong: `the secret is not one that ${clientIn(facts)} has`,
    registered: [secrets],
    change: `the secret in the application; ${newSecretFor(facts)}`,
  }
}

function newSecretFor({ client }: Facts): string {
  const isRegistered = client !== undefined && client.written === undefined
  if (isRegistered) return 'it gets another one when it registers again'
  const name = basename(client?.file ?? 'NAME', '.yaml')
  return `a new one: npm run usher -- clients secret ${name}`
}

function explainResource(facts: Facts): Explanation {
  const registered = registeredOf(facts, 'resource')
  return {
    wrong: `${clientIn(facts)} may not use this resource here, or not beside another`,
    sent: sentAs(facts, 'resource'),
    registered,
    difference: differenceOf(facts.failure.sent.resource, registered),
    change: `the resource in the application; clients in the API's file; ${placeIn(facts, 'scope')}`,
  }
}

/**
 * The parameter has a value that the client does not have under `key`, which is
 * its name or the plural of it.
 */
function explainUnregistered(
  key: Compared & keyof ClientFile,
  facts: Facts,
): Explanation {
  const parameter = key.replace(/s$/, '')
  const sent = facts.failure.sent[parameter]
  const registered = registeredOf(facts, key)
  const known = wordsIn(registered)
  const values = sent?.split(' ') ?? []
  const refused = values.filter(value => !known.includes(value))
  const isKnown = values.length > 0 && !refused.length
  const isUri = key.endsWith('uris')
  const which = isUri
    ? '; they are compared byte for byte'
    : `: ${refused.join(' ') || UNKNOWN}`
  const unknown = `is none of those registered for ${clientIn(facts)}${which}`
  const wrong = isKnown ? 'is registered now, and was not then' : unknown
  return {
    wrong: `the ${parameter} ${wrong}`,
    sent: sentAs(facts, parameter),
    registered,
    difference: isUri ? differenceOf(sent, known) : undefined,
    change: changeFor(key, refused, facts),
  }
}

/** The remedy for values of a parameter that are not registered. */
function changeFor(
  key: Compared & keyof ClientFile,
  refused: string[],
  facts: Facts,
): string {
  const place = placeIn(facts, key)
  const inForce = wordsIn(inFolder(facts, key))
  const isAdded =
    refused.length > 0 && refused.every(value => inForce.includes(value))
  if (isAdded) return `${place} has it now: ${ADDED_SINCE}`
  const what = key.endsWith('uris') ? 'URI' : key.replace(/s$/, '')
  return `${place}, or the ${what} in the application`
}

/**
 * The values that the provider compared with. The folder has them only for a
 * request that is known by its log line.
 */
function registeredOf(facts: Facts, compared: Compared): string[] {
  return facts.failure.registered ?? inFolder(facts, compared)
}

const NO_SETTINGS = { clients: [], resources: {}, scopes: {} }

/** The values of the folder as it is now; none while it has errors. */
function inFolder({ client, settings }: Facts, compared: Compared): string[] {
  const known = client && withoutSecret(client.value)
  const isOfClient = known?.[compared as keyof typeof known] !== undefined
  if (!settings && !isOfClient) return []
  return registeredValues(compared, settings ?? NO_SETTINGS, known)
}

const clientsFolder = () => join(configFolder(), 'clients')

/**
 * The place of a key of the client: its line, its file, its registration or its
 * metadata document.
 */
function placeIn({ client, failure }: Facts, key: string): string {
  const isDocument = failure.client_id?.startsWith('https://')
  const elsewhere = isDocument ? 'its metadata document' : clientsFolder()
  return `${key} in ${client?.origin([key]) ?? client?.file ?? elsewhere}`
}

/** A parameter as it was sent. */
function sentAs({ failure }: Facts, name: string): string {
  const isUnknown = failure.authentication === UNKNOWN
  return failure.sent[name] ?? (isUnknown ? UNKNOWN : 'none')
}

/**
 * Values as they are compared with a sent one, which was stored without what
 * may be secret.
 */
const wordsIn = (values: string[]) =>
  values.flatMap(value => redact(value).split(' '))

/** The parts of a URI that are compared, with their names. */
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
  const sentUrl = URL.parse(sent)
  const nearUrl = URL.parse(near)
  if (!sentUrl || !nearUrl)
    return `${near} is nearest, and the sent value is not an absolute URI`
  const isSlash = `${sent}/` === near || sent === `${near}/`
  if (isSlash) return `${near} is nearest; the / at the end differs`
  const parts: string[] = []
  for (const [part, name] of URI_PARTS) {
    if (sentUrl[part] === nearUrl[part]) continue
    const pair = `${sentUrl[part] || 'none'} for ${nearUrl[part] || 'none'}`
    parts.push(`the ${name}: ${pair}`)
  }
  const named = parts.join(', ') || 'the spelling'
  return `${near} is nearest; ${named} differs`
}

/**
 * The request succeeded; the log names the parameters and scopes that had no
 * effect.
 */
function explainIgnored({ failure, settings }: Facts): Explanation {
  const { detail = '' } = failure
  const reasons = detail.split(', ').map(part => whyIgnored(part, settings))
  return {
    wrong: 'the request succeeded, and a part of it was ignored',
    sent: detail,
    difference: reasons.join('; '),
    change:
      'the request of the application; claims.yaml, and scopes of resources/NAME.yaml',
  }
}

/** Says why a part of a request had no effect. */
function whyIgnored(part: string, settings?: Settings): string {
  if (part === 'audience')
    return 'audience is not supported: send resource (RFC 8707)'
  if (part === 'resource')
    return 'resource is not supported: features.resource_indicators is off'
  if (part.startsWith('acr_values '))
    return `${part} is the acr of no sign-in: see acr_values_supported`
  if (part.startsWith('claim ')) return `${part} is in no claims.yaml`
  const [, scope] = /^scope (.+)$/.exec(part) ?? []
  if (!scope) return `${part} is not supported`
  const { scopes = {}, resources = {} } = settings ?? {}
  const api = Object.values(resources).find(({ scopes }) =>
    Object.hasOwn(scopes, scope),
  )
  if (api)
    return `${part} belongs to an API: send resource=${api.resource} with it`
  return `${part} is in no file of the folder${didYouMean(scope, Object.keys(scopes))}`
}
