// Failed requests that `usher config explain` is asked about: as they are remembered, or from the log.

import { mapOf } from '../config/schema/values.ts'
import { type FailedRequest, findFailure, harmless } from '../provider/failures.ts'
import { endpointOf } from '../provider/routes.ts'
import { Failure, readStdin, withRecords } from './command.ts'

const REQUEST_ID = /^[0-9a-f]{16}$/
/** Stands for what a line of the log does not say. */
export const UNKNOWN = 'not known'

/** The failed request of this id; undefined when it is not remembered, or the text is no id. */
export async function recallFailure(id: string): Promise<FailedRequest | undefined> {
  if (!REQUEST_ID.test(id)) return undefined
  return withRecords(records => findFailure(records, id))
}

/** The last request in the lines of the log on standard input. Throws a `Failure` without one. */
export async function readLoggedFailure(): Promise<FailedRequest> {
  const lines = (await readStdin()).split('\n').map(parseLine)
  const line = lines.findLast(({ status }) => Number.isInteger(status))
  if (!line) throw new Failure('Standard input has no line of the log about a request.')
  const { id, time, route, status, error, detail, client_id } = line
  const remembered = await recallFailure(String(id)).catch(() => undefined)
  if (remembered) return remembered
  if (error === undefined) throw new Failure(`This request did not fail: ${status}.`)
  return {
    at: Math.floor(new Date(String(time)).getTime() / 1000) || 0,
    endpoint: endpointOf(String(route)) ?? String(route ?? 'none'),
    status: Number(status),
    error: harmless(String(error)),
    ...(detail !== undefined && { detail: harmless(String(detail)) }),
    ...(client_id !== undefined && { client_id: harmless(String(client_id)) }),
    authentication: UNKNOWN,
    sent: {},
    names: [],
  }
}

/** The log of Usher begins at the brace; a collector may write something before it. */
function parseLine(line: string): Record<string, unknown> {
  try {
    return mapOf(JSON.parse(line.slice(line.indexOf('{'))))
  } catch {
    return {}
  }
}
