// For whoever looks after the process: alive at all, and ready for requests.

import { setTimeout } from 'node:timers/promises'
import type { Context, Middleware } from 'koa'

const PROBE_TIMEOUT_MS = 800
const PROBE_EVERY_MS = 1_000

export interface Readiness {
  /** `closing`: draining, and no connection is accepted any more. */
  state: 'ready' | 'draining' | 'closing'
  /** Touches the store; throws when it does not answer. */
  probe: () => Promise<unknown>
  /** What was found out about the store, by itself or at the last look. */
  checks: { name: string; state: 'ok' | 'warning' | 'wrong' }[]
  /** `warning`: the folder holds a configuration that could not be taken. */
  config?: 'ok' | 'warning'
}

/** Answers `/livez` and `/readyz`. */
export function health(readiness: Readiness): Middleware {
  let latest: Promise<string> | undefined
  let startedAt = 0
  /** Anybody may ask: the store is asked once a second at most. */
  const probeOnce = () => {
    if (!latest || performance.now() - startedAt > PROBE_EVERY_MS) {
      startedAt = performance.now()
      latest = probe(readiness)
    }
    return latest
  }

  async function answer(ctx: Context) {
    ctx.state.isQuiet = true
    ctx.set('Cache-Control', 'no-store')
    const isReady = ctx.path === '/readyz'
    const status = isReady ? (stateOf(readiness) ?? (await probeOnce())) : 'alive'
    ctx.status = status === 'alive' || status === 'ready' ? 200 : 503
    ctx.body = isReady ? { status, ...notes(readiness) } : { status }
  }

  return (ctx, next) => {
    // Clients use another connection from now on, before this one is closed. Not earlier: a connection
    // that waits to be accepted is lost when the listener closes, and with it a POST that nginx has sent.
    if (readiness.state === 'closing') ctx.set('Connection', 'close')
    const { path, method } = ctx
    const isProbe = path === '/livez' || path === '/readyz'
    return isProbe && (method === 'GET' || method === 'HEAD') ? answer(ctx) : next()
  }
}

/** By name only: what was found is for `usher doctor` and the log. */
function notes({ checks, config = 'ok' }: Readiness) {
  const noted = [...checks, { name: 'config', state: config }].filter(({ state }) => state !== 'ok')
  return noted.length ? { checks: Object.fromEntries(noted.map(c => [c.name, c.state])) } : {}
}

/** Known without the store; undefined when it has to be asked. */
function stateOf({ state, checks }: Readiness): string | undefined {
  if (state !== 'ready') return 'draining'
  return checks.some(({ state }) => state === 'wrong') ? 'degraded' : undefined
}

function probe(readiness: Readiness): Promise<string> {
  const answer = readiness.probe().then(
    () => stateOf(readiness) ?? 'ready',
    () => 'degraded',
  )
  return Promise.race([answer, setTimeout(PROBE_TIMEOUT_MS, 'degraded', { ref: false })])
}
