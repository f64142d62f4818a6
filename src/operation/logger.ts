// The log of a process: JSON lines on standard output. The primary process of
// several workers has no other part of the log (log.ts).

import { type Logger, pino } from 'pino'

/**
 * POSIX does not interleave writes of at most 4 KB into a pipe that several
 * processes share.
 */
const DESTINATION = {
  sync: false,
  minLength: 3072,
  maxWrite: 4096,
  periodicFlush: 100,
}

/**
 * The log of this process. `worker`: its number if there are several; 0 is the
 * primary process.
 */
export function createLog(worker?: number): Logger {
  const options = {
    base: worker ? { worker } : null,
    timestamp: pino.stdTimeFunctions.isoTime,
  }
  return pino(options, pino.destination(DESTINATION))
}

/** A pipe takes all lines, and cannot be synchronised to a disk. */
const NOT_SYNCHRONISED = /^(EINVAL|ENOTSUP|EROFS)/
/** Resolves when all lines are written, and rejects when they cannot be. */
export const flushed = (log: Logger) =>
  new Promise<void>((resolve, reject) => {
    const isWritten = (error?: Error) =>
      !error || NOT_SYNCHRONISED.test(error.message)
    log.flush(error => (isWritten(error) ? resolve() : reject(error)))
  })

/**
 * The fields of an error that are logged. Others can hold bytes of a request,
 * or keys.
 */
export function faultOf(error: unknown) {
  if (!(error instanceof Error)) return { message: String(error) }
  const { name, message, code, stack, cause }: NodeJS.ErrnoException = error
  return {
    name,
    message,
    code,
    stack,
    ...(cause instanceof Error && { because: cause.message }),
  }
}
