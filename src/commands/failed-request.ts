// The failed request that `config explain` is about: from the store, or from the log.

import { mapOf, readJson } from '../config/schema/values.ts'
import { type FailedRequest, failedSignIn, findFailure, harmless } from '../provider/failures.ts'
import { endpointOf } from '../provider/routes.ts'
import { Failure, openState, readStdin } from './command.ts'
import { IGNORED, UNKNOWN } from './failure.ts'

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
  const { time, route, status, client_id } = line
  const about = { at: Math.floor(Date.parse(String(time)) / 1000) || 0, status: Number(status) }
  const sameRequest = lines.filter(({ id }) => id === line.id)
  const signIn = sameRequest.map(failedSignIn).find(Boolean)
  if (signIn) return { ...about, ...signIn }
  const isIgnored = line.error === undefined && line.ignored !== undefined
  const { error, detail } = isIgnored ? { error: IGNORED, detail: line.ignored } : line
  if (error === undefined) throw new Failure(`This request did not fail: ${status}.`)
  const text = (value: unknown) => (value === undefined ? undefined : harmless(String(value)))
  return {
    ...about,
    endpoint: endpointOf(String(route)) ?? String(route ?? 'none'),
    error: harmless(String(error)),
    detail: text(detail),
    client_id: text(client_id),
    authentication: UNKNOWN,
    sent: {},
    names: [],
  }
}

/** Usher's line begins at the brace; a collector may write a prefix. */
const parseLine = (line: string) => mapOf(readJson(line.slice(line.indexOf('{'))))
