// What each request has read of the artefact it uses up: what it goes on from when it writes.

import type { Found, Records } from './records.ts'

type Request = { key: object } | undefined

export function createReads<T>(records: Records, kind: string, request: () => Request) {
  const reads = new WeakMap<object, { id: string; found: Found<T> }>()
  return {
    async read(id: string): Promise<Found<T>> {
      const found = await records.read<T>(kind, id)
      const { key } = request() ?? {}
      if (key) reads.set(key, { id, found })
      return found
    },

    /** Undefined where this request has read another since, or none. */
    before(id: string): Found<T> | undefined {
      const read = reads.get(request()?.key ?? reads)
      return read?.id === id ? read.found : undefined
    },
  }
}
