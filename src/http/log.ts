// The log: one JSON line each, on standard output.

import { pino } from 'pino'

/** Milliseconds that a line waits for others, and bytes that wait no longer. */
const LINES = { sync: false, periodicFlush: 100, minLength: 16_000, contentMode: 'buffer' } as const
/** Of what several processes write into one pipe, no more than 4 KB at once stays together. */
const SHARED = { ...LINES, minLength: 3072, maxWrite: 4096 }

/** `worker`: which of several processes says it; 0: the one that started them. */
export function createLog(worker?: number) {
  const output: { write(bytes: Buffer): void } = Object(
    pino.destination(worker === undefined ? LINES : SHARED),
  )
  return pino(
    { base: worker ? { worker } : null, timestamp: createTime() },
    // As bytes: to lines in one text it would listen anew each time for how long they are.
    { write: line => output.write(Buffer.from(line)) },
  )
}

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
