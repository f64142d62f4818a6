// For whoever looks after the process: alive at all, and ready for requests.

import { setTimeout } from 'node:timers/promises'
import type { Context, Middleware } from 'koa'

const PROBE_TIMEOUT_MS = 800
const PROBE_EVERY_MS = 1_000

export interface Readiness {
  state: 'ready' | 'draining'
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
    // Clients that keep a connection open use another from now on, before this one is closed.
    if (readiness.state !== 'ready') ctx.set('Connection', 'close')
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
  if (state === 'draining') return state
  return checks.some(({ state }) => state === 'wrong') ? 'degraded' : undefined
}

function probe(readiness: Readiness): Promise<string> {
  const answer = readiness.probe().then(
    () => stateOf(readiness) ?? 'ready',
    () => 'degraded',
  )
  return Promise.race([answer, setTimeout(PROBE_TIMEOUT_MS, 'degraded', { ref: false })])
}
