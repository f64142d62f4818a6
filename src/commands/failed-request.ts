// The failed request that `usher config explain` explains: from the store by its id, or from the log.

import { mapOf } from '../config/schema/values.ts'
import { type FailedRequest, findFailure, harmless } from '../provider/failures.ts'
import { endpointOf } from '../provider/routes.ts'
import { Failure, openState, readStdin } from './command.ts'

/** A value that is not in the log. */
export const UNKNOWN = 'not known'
/** The `error` of a request that succeeded, and of which a part was ignored. */
export const IGNORED = 'ignored'

/** Returns the failed request of this id, or undefined when the store has none. */
export async function recallFailure(id: string): Promise<FailedRequest | undefined> {
  if (!/^[0-9a-f]{16}$/.test(id)) return undefined
  const { records } = await openState()
  return findFailure(records, id)
}

/** Reads the last request of the log on standard input. Throws a `Failure` if it did not fail. */
export async function readLoggedFailure(): Promise<FailedRequest> {
  const lines = (await readStdin()).split('\n').map(parseLine)
  const line = lines.findLast(({ status }) => Number.isInteger(status))
  if (!line) throw new Failure('Standard input has no line of the log about a request.')
  const remembered = await recallFailure(String(line.id)).catch(() => undefined)
  if (remembered) return remembered
  const isSignIn = ({ event }: Line) => /^sign_in_(failed|throttled)$/.test(String(event))
  const signIn = lines.find(other => other.id === line.id && isSignIn(other))
  if (signIn) {
    const { reason, account = 'unknown', ip } = signIn
    const sent = { account: harmless(String(account)), ip: harmless(String(ip)) }
    return { ...logged({ ...line, error: 'sign_in', detail: reason }), endpoint: 'sign-in', sent }
  }
  if (line.error) return logged(line)
  if (line.ignored) return logged({ ...line, error: IGNORED, detail: line.ignored })
  throw new Failure(`This request did not fail: ${line.status}.`)
}

type Line = Record<string, unknown>

function logged({ time, route, status, error, detail, client_id }: Line): FailedRequest {
  const text = (value: unknown) => (value === undefined ? undefined : harmless(String(value)))
  return {
    at: Math.floor(Date.parse(String(time)) / 1000) || 0,
    endpoint: endpointOf(String(route)) ?? String(route ?? 'none'),
    status: Number(status),
    error: harmless(String(error)),
    detail: text(detail),
    client_id: text(client_id),
    authentication: UNKNOWN,
    sent: {},
    names: [],
  }
}

/** Usher's line begins at the brace; a collector may write a prefix. */
function parseLine(line: string): Line {
  try {
    return mapOf(JSON.parse(line.slice(line.indexOf('{'))))
  } catch {
    return {}
  }
}
