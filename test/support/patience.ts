/** Milliseconds that a test waits for what comes soon: on a busy machine, much later than in a second. */
export const PATIENCE_MS = 20_000
