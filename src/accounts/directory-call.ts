// The one call that is made to a directory of others: a JWT whose claims are the question, signed with
// the secret that both know (RFC 7515, HS256), answered with an account or with null. Anything else is
// taken for a directory that is away: it never ends anybody's tokens.

import { randomUUID } from 'node:crypto'
import { SignJWT } from 'jose'
import { readText } from '../config/report/yaml.ts'
import { StoreUnavailable } from '../storage/store.ts'
import { type Outsider, outsiderSchema } from './account.ts'

export type Question =
  | { find: { id: string } | { username: string } }
  | { check: { username: string; password: string } }

export type Ask = (question: Question) => Promise<Outsider | undefined>

export interface DirectoryAddress {
  url: string
  secret_file: string
}

/** Milliseconds. */
const PATIENCE = 1000
/** Characters of an answer. */
const LONGEST = 64 * 1024
/** So many failures one after another, and nothing is asked for so long (milliseconds). */
const FAILURES = 5
const REST = 5000

/** Ends in a 503 like a store that is away: here it is the people who are kept elsewhere. */
export class DirectoryUnavailable extends StoreUnavailable {
  override name = 'DirectoryUnavailable'
  override error_description =
    'the service cannot reach its directory of people; nothing is wrong with the request'

  constructor(detail: string, options?: ErrorOptions) {
    super(`the directory (accounts.http): ${detail}`, options)
  }
}

export function createAsk({ url, secret_file }: DirectoryAddress): Ask {
  const guard = createBreaker()

  const ask: Ask = async question => {
    // Read each time: a secret that was changed counts at once.
    const { text, problem } = readText(secret_file)
    if (text === undefined) throw new DirectoryUnavailable(`its secret_file ${problem}`)
    const body = await new SignJWT({ ...question })
      .setProtectedHeader({ alg: 'HS256' })
      .setAudience(url)
      .setIssuedAt()
      .setExpirationTime('60 s')
      .setJti(randomUUID())
      .sign(new TextEncoder().encode(text.trim()))
    return readAnswer(await send(url, body))
  }
  return question => guard(() => ask(question))
}

async function send(url: string, body: string): Promise<string> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/jwt', accept: 'application/json' },
      redirect: 'error',
      signal: AbortSignal.timeout(PATIENCE),
    })
    if (response.status !== 200) throw new DirectoryUnavailable(`it answered ${response.status}`)
    let text = ''
    for await (const part of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += part
      if (text.length > LONGEST) throw new DirectoryUnavailable('its answer is too long')
    }
    return text
  } catch (error) {
    if (error instanceof DirectoryUnavailable) throw error
    const { name, cause } = Object(error)
    const late = name === 'TimeoutError' && `it did not answer within ${PATIENCE} ms`
    const detail = late || `it cannot be reached: ${cause?.code ?? cause?.message ?? name}`
    throw new DirectoryUnavailable(detail, { cause: error })
  }
}

function readAnswer(text: string): Outsider | undefined {
  const { success, data, error } = outsiderSchema.safeParse(parse(text))
  if (success) return data.account ?? undefined
  // What stands there is not repeated: only where it is wrong.
  const places = error.issues.map(({ path }) => path.join('.') || 'all of it').join(', ')
  throw new DirectoryUnavailable(`its answer is no account; wrong: ${places}`)
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new DirectoryUnavailable('its answer is not JSON')
  }
}

/** A directory that is away is left alone for a while; then one asks, and the others go on waiting. */
function createBreaker() {
  let failures = 0
  let until = 0
  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (performance.now() < until) throw new DirectoryUnavailable('it was away a moment ago')
    if (failures >= FAILURES) until = performance.now() + REST
    try {
      const result = await work()
      failures = until = 0
      return result
    } catch (error) {
      if (++failures >= FAILURES) until = performance.now() + REST
      throw error
    }
  }
}
