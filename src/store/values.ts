// Values whose type is not known: JSON, members of maps, what must be there.

/** Returns the value if it is a map, otherwise an empty map. */
export const mapOf = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null
    ? (value as Record<string, unknown>)
    : {}

/** Whether a map has a key. */
export const hasKeys = (map: object) => Object.keys(map).length > 0

/** Whether a value is a map; a list is none. */
export const isMap = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * Returns the value; throws if it is missing, which is a mistake of the caller.
 */
export function required<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('a required value is missing')
  return value
}

/** Returns the value of a JSON text; undefined if the text is no JSON. */
export function readJson(text: string) {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * Returns the values of nested maps with their paths, `a.b`. An empty map is a
 * value.
 */
export const leavesOf = (
  map: object,
  above = '',
): [path: string, value: unknown][] =>
  Object.entries(map).flatMap(([name, value]) => {
    return isMap(value) && hasKeys(value)
      ? leavesOf(value, `${above}${name}.`)
      : [[above + name, value]]
  })
