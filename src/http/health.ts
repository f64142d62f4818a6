// For whoever looks after the process: alive at all, and ready for requests.

import { setTimeout } from 'node:timers/promises'
import type { Context, Middleware } from 'koa'

/** A probe that takes longer counts as failed; milliseconds. */
const PROBE = 800

export interface Readiness {
  state: 'ready' | 'draining'
  /** Touches the store; throws when it does not answer. */
  probe: () => Promise<unknown>
  /** What was found out about the store, by itself or at the last look. */
  checks: { name: string; state: 'ok' | 'warning' | 'wrong' }[]
  /** `warning`: the folder holds a configuration that could not be taken. */
  config?: 'ok' | 'warning'
}

export function health(readiness: Readiness): Middleware {
  return (ctx, next) => {
    // Whoever keeps the connection is told to come by another, before this one is closed.
    if (readiness.state !== 'ready') ctx.set('Connection', 'close')
    const { path, method } = ctx
    const isProbe = path === '/livez' || path === '/readyz'
    return isProbe && (method === 'GET' || method === 'HEAD') ? answer(ctx, readiness) : next()
  }
}

async function answer(ctx: Context, readiness: Readiness) {
  ctx.state.isQuiet = true
  ctx.set('Cache-Control', 'no-store')
  const status = ctx.path === '/livez' ? 'alive' : await probe(readiness)
  ctx.status = status === 'alive' || status === 'ready' ? 200 : 503
  ctx.body = ctx.path === '/livez' ? { status } : { status, ...notes(readiness) }
}

/** By name only: what was found is for `usher doctor` and the log. */
function notes({ checks, config = 'ok' }: Readiness) {
  const noted = [...checks, { name: 'config', state: config }].filter(({ state }) => state !== 'ok')
  return noted.length ? { checks: Object.fromEntries(noted.map(c => [c.name, c.state])) } : {}
}

async function probe(readiness: Readiness): Promise<string> {
  if (readiness.state === 'draining') return 'draining'
  if (readiness.checks.some(({ state }) => state === 'wrong')) return 'degraded'
  // Who asked before the signal and is answered after it is not told that more may come.
  const answer = readiness.probe().then(
    () => (readiness.state === 'draining' ? 'draining' : 'ready'),
    () => 'degraded',
  )
  return Promise.race([answer, setTimeout(PROBE, 'degraded', { ref: false })])
}
