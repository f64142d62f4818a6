// The difference between a URI that a client sent and the nearest of those in the files.

import { closest } from 'fastest-levenshtein'

const URI_PARTS = [
  ['protocol', 'scheme'],
  ['host', 'host'],
  ['pathname', 'path'],
  ['search', 'query'],
] as const

/** Says which parts of a sent URI differ from the nearest of the known ones, of which there is at least one. */
export function differenceOf(sent: string, known: string[]): string {
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
