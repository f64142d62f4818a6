// The library hangs its context on each request by an accessor of the request's own. V8 puts accessors
// among what is old, where nothing is looked through until there is much of it, and all that the request
// had stays with them: 10 kB a request, moved there by every scavenge. Here it is one accessor for all,
// and what the library gave it is a value of the request.

import type { Provider } from 'oidc-provider'

const CONTEXT = Symbol('context')
const { defineProperty } = Object

interface Shared {
  [CONTEXT]?: () => unknown
}

Object.defineProperty = <T>(target: T, name: PropertyKey, descriptor: PropertyDescriptor): T => {
  if (name !== 'oidc' || !isShared(target)) return defineProperty(target, name, descriptor)
  target[CONTEXT] = descriptor.get
  return target
}

const isShared = (target: unknown): target is Shared => CONTEXT in Object(target)

/** To be called before the first request. */
export function shareAccessor({ context }: Provider): void {
  Object.defineProperties(context, {
    [CONTEXT]: { value: undefined, writable: true },
    oidc: {
      get(this: Shared) {
        return this[CONTEXT]?.()
      },
    },
  })
}
