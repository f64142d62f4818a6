// Probes for load balancers and orchestrators: `/livez` and `/readyz`.

import type { Middleware } from 'koa'
import { BOUNDS } from '../oidc/bounds.ts'
import { createQuota } from './limits.ts'

/** The state that `/readyz` reports. */
export interface Readiness {
  /** `closing`: draining, and new connections are refused. */
  state: 'ready' | 'draining' | 'closing'
  /** Writes to the store. Returns within a second whether it could. */
  probe: () => Promise<boolean>
  /** Results of the latest checks of the store. */
  checks: { name: string; state: 'ok' | 'warning' | 'wrong' }[]
  /**
   * `warning`: the folder has a configuration with an error, which is not in
   * force.
   */
  config?: 'ok' | 'warning'
}

/** Answers `/livez` and `/readyz`. */
export function health(readiness: Readiness): Middleware {
  // Anonymous requests reach this: the store is probed once a second at most.
  const mayProbe = createQuota(BOUNDS.probes)
  let latest = Promise.resolve(true)

  return async (ctx, next) => {
    // Makes clients reconnect, to another node. While the listener is still
    // open they would reconnect here, and a connection that was not accepted
    // yet is lost when the listener closes.
    if (readiness.state === 'closing') ctx.set('Connection', 'close')
    const { path, method } = ctx
    const isReady = path === '/readyz'
    if (!(isReady || path === '/livez') || !['GET', 'HEAD'].includes(method))
      return next()
    ctx.state.isQuiet = true
    ctx.set('Cache-Control', 'no-store')
    if (!isReady) {
      ctx.body = { status: 'alive' }
      return
    }
    const status = stateOf(readiness) ?? (await probed())
    ctx.status = status === 'ready' ? 200 : 503
    ctx.body = { status, ...notes(readiness) }
  }

  /** The state by the latest probe of the store. */
  async function probed(): Promise<string> {
    if (mayProbe()) latest = readiness.probe()
    return (await latest) ? 'ready' : 'degraded'
  }
}

/** Names and states only. `usher doctor` and the log have the findings. */
function notes({ checks, config = 'ok' }: Readiness) {
  const noted = [...checks, { name: 'config', state: config }].filter(
    ({ state }) => state !== 'ok',
  )
  return noted.length
    ? { checks: Object.fromEntries(noted.map(c => [c.name, c.state])) }
    : {}
}

/**
 * The state that is known without the store; undefined if the store must be
 * probed.
 */
function stateOf({ state, checks }: Readiness): string | undefined {
  if (state !== 'ready') return 'draining'
  return checks.some(({ state }) => state === 'wrong') ? 'degraded' : undefined
}
