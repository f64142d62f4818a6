// The log: one JSON line each, on standard output.

import { pino } from 'pino'

/**
 * Bytes that are written at once, and milliseconds that a line waits for others. Of what several processes
 * write into one pipe, no more than 4 KB stays together.
 */
const LINES = { minLength: 3072, maxWrite: 4096, periodicFlush: 100 }

/** `worker`: which of several processes says it. */
export const createLog = (worker?: number) =>
  pino(
    { base: worker ? { worker } : null, timestamp: createTime() },
    pino.destination({ sync: false, ...LINES }),
  )

/** In ISO 8601, made once a millisecond. */
function createTime(): () => string {
  let latest = 0
  let text = ''
  return () => {
    const time = Date.now()
    if (time !== latest) text = `,"time":"${new Date(time).toISOString()}"`
    latest = time
    return text
  }
}
