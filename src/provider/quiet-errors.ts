// The library makes the error before it knows whether it needs one: three for each good UserInfo, and
// their stack traces were a fifth of its time. An error of the library is an answer; nobody reads where
// it was made. Faults, which are no such errors, keep theirs.

import { errors } from 'oidc-provider'

const { OIDCProviderError } = errors
const { captureStackTrace } = Error

class Traceless extends Error {
  constructor(...args: ConstructorParameters<typeof Error>) {
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = 0
    super(...args)
    Error.stackTraceLimit = stackTraceLimit
  }
}

Object.setPrototypeOf(OIDCProviderError, Traceless)
Error.captureStackTrace = (target, ...caller) => {
  if (!(target instanceof OIDCProviderError)) captureStackTrace(target, ...caller)
}
