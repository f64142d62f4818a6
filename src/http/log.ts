// The log: one JSON line each, on standard output.

import { pino } from 'pino'

/** Of what several processes write into one pipe, 4 KB at once stay together. */
const DESTINATION = { sync: false, minLength: 3072, maxWrite: 4096, periodicFlush: 100 }

/** A log that `worker`, one of several processes, writes to; 0 is the one that started them. */
export const createLog = (worker?: number) =>
  pino(
    { base: worker ? { worker } : null, timestamp: pino.stdTimeFunctions.isoTime },
    pino.destination(DESTINATION),
  )
