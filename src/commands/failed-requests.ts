// The failed request that `config explain` is about, always as a
// `FailedRequest`: the record of the store, or, for a request that was not
// kept, the same record made from its lines of the log. Nothing else knows of
// log lines.

import { harmless } from '../oidc/harmless.ts'
import { endpointOf } from '../oidc/paths.ts'
import {
  type FailedRequest,
  failedSignIn,
  findFailure,
  IGNORED,
  minutesLeftOut,
} from '../operation/failures.ts'
import { mapOf, readJson } from '../store/values.ts'
import { Failure, readStdin } from './command.ts'
import { openRecordsOfService, openState } from './open-store.ts'

/** A value that neither the store nor the log has. */
export const UNKNOWN = 'not known'

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
    error: harmless(String(error)),
    detail: harmlessText(detail),
    client_id: harmlessText(line.client_id ?? unkept.client_id),
    authentication: harmlessText(unkept.authentication) ?? UNKNOWN,
    sent: Object.fromEntries(
      sent.map(([name, value]) => [name, harmless(String(value))]),
    ),
    names: Array.isArray(unkept.names) ? unkept.names.map(String) : [],
  }
}

function resultOf({ time, status }: LogLine) {
  const at = Math.floor(Date.parse(String(time)) / 1000)
  return { at: at || 0, status: Number(status) }
}

function harmlessText(value: unknown): string | undefined {
  return value === undefined ? undefined : harmless(String(value))
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
