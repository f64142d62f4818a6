// Replaces what differs between two runs of the same walk: ids, tokens, keys and times. The same value always has
// the same placeholder, so that a mix-up of two values is a difference.

import type { Exchange } from './side.ts'

/** Headers of the connection. */
const IGNORED_HEADERS = ['date', 'content-length', 'connection', 'keep-alive', 'transfer-encoding']

const TIMES = [
  /\w{3}, \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} GMT/,
  /\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z| UTC)?/,
  // Epoch seconds or milliseconds.
  /\b1[6-9]\d{8}(?:\d{3})?\b/,
  /\b(?:this minute|now|\d+ minutes? ago|in \d+ minutes?)\b/,
]
/** The place of an entry in a list by time: entries of one second have no order. */
const PLACE = /(?<=(?:application|browser|end|group|remove|session)-)\d{1,3}(?:-\d{1,3})?\b/
const IDS = [
  /(?<=\b|%\w\w)(?:usr|app)_[0-9a-z]{24,26}\b/,
  // A user code.
  /[B-DF-HJ-NP-TV-XZ]{4}-[B-DF-HJ-NP-TV-XZ]{4}\b/,
  // A UUID.
  /(?<=\b|%\w\w)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b/,
  /(?<=\b|%\w\w)[0-9a-f]{8,}\b/,
  // The secret of an authenticator app, and its QR code.
  /\b[A-Z2-7]{4}(?: ?[A-Z2-7]{4}){3,}\b/,
  /(?<=\bd="M)[\dMhvz,-]{500,}/,
  /usher-compare-\w{6}/,
  // Short ids: in a signed cookie, and in a form.
  /[\w-]{12}(?=\.\d{10}\.)/,
  /(?<=name="nonce" value="|\bnonce=)[\w-]{16}\b/,
  // Random text has a digit, or many capitals. Names of parameters have not.
  /(?<!%\w?)(?=[\w-]*[a-z])(?=[\w-]*[A-Z])(?=[\w-]*\d|(?:[\w-]*[A-Z]){4})[\w-]{20,}/,
]
const JWT = /eyJ[\w-]+\.[\w-]+\.[\w-]*/
const sourceOf = (patterns: RegExp[]) => patterns.map(({ source }) => source).join('|')
const TIME = new RegExp(`^(?:${sourceOf(TIMES)})$`)
const VOLATILE = new RegExp(sourceOf([JWT, ...TIMES, PLACE, ...IDS]), 'g')

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The lines of a text in an order that does not depend on ids. */
export function sortedLines(text: string): string {
  const keyOf = (line: string) => line.replaceAll(VOLATILE, '')
  const lines = text.split('\n').map(line => ({ line, key: keyOf(line) }))
  const inOrder = lines.toSorted((one, other) =>
    one.key < other.key ? -1 : +(one.key > other.key),
  )
  return inOrder.map(({ line }) => line).join('\n')
}

/** Returns functions that replace what is volatile. They remember the values that they have seen. */
export function createPlaceholders() {
  const known: string[] = []

  function nameOf(value: string): string {
    if (!known.includes(value)) known.push(value)
    return `‹${known.indexOf(value) + 1}›`
  }

  function plain(text: string): string {
    return text.replaceAll(VOLATILE, value => {
      if (TIME.test(value)) return '‹time›'
      if (/^[\d-]{1,7}$/.test(value)) return '‹place›'
      return value.startsWith('eyJ') ? jwt(value) : nameOf(value)
    })
  }

  /** The header and the claims. The signature is left out. */
  function jwt(token: string): string {
    try {
      const parts = token.split('.').slice(0, 2)
      return parts.map(part => json(JSON.parse(String(Buffer.from(part, 'base64url'))))).join(' ')
    } catch {
      return nameOf(token)
    }
  }

  /** JSON with lifetimes in place of times, in tens of seconds: some have begun. */
  function json(value: unknown): string {
    const tens = (seconds: unknown) => Math.round(Number(seconds) / 10) * 10
    const relative = (_key: string, part: unknown) => {
      if (!isObject(part)) return part
      const { iat, exp, expires_in } = part
      const lifetime = iat && exp ? { exp: `iat + ${tens(Number(exp) - Number(iat))}` } : {}
      return {
        ...part,
        ...lifetime,
        ...(expires_in !== undefined && { expires_in: tens(expires_in) }),
      }
    }
    return plain(JSON.stringify(value, relative))
  }

  /** A request and its response as text. Some lists on pages of the account have no order. */
  function exchange({ request, reply }: Exchange): string {
    const { status, headers, json: parsed } = reply
    const isAccount = request.split(' ')[1]?.startsWith('/account')
    const text = isAccount ? sortedLines(reply.text) : reply.text
    const named = [...headers].filter(([name]) => !IGNORED_HEADERS.includes(name))
    const head = named.map(header => plain(header.join(': ')))
    const body = headers.get('content-type')?.includes('json') && text ? json(parsed) : plain(text)
    return [plain(request), `→ ${status}`, ...head, '', body].join('\n')
  }

  return { exchange, plain }
}
