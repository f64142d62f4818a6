// Stand-ins for what the product gives the wrapper: a socket, a store, a key, one user, and a sign-in without pages.

import { createServer } from 'node:http'
import { exportJWK, generateKeyPair } from 'jose'
import type { Context, Middleware } from 'koa'
import { onTestFinished } from 'vitest'
import { currentRequest } from '../../src/oidc/adapter/request.ts'
import type { createInteractions } from '../../src/oidc/interactions.ts'
import { unlock } from '../../src/store/open.ts'
import type { Name } from '../../src/store/records.ts'
import { now } from '../../src/store/store.ts'
import { listen } from '../support/ports.ts'
import { openPatientStore, startRedis } from '../support/redis.ts'

export const SECRET = Buffer.alloc(32, 1)

export const ADA = { id: 'usr_0123456789abcdefghijklmnop', attributes: {} }
export const CLAIMS = { name: 'Ada Lovelace', email: 'ada@example.org' }

/** One user. */
export const USERS = {
  findEnabled: async (id: string) => (id === ADA.id ? ADA : undefined),
  recordName: (id: string): Name => ['User', id],
  claimsOf: () => CLAIMS,
}

/** Pages in place of those of the product. */
export const PAGES = {
  showError(ctx: Context, out: object) {
    ctx.body = out
  },
  handOver() {},
  navigate: (ctx: Context, url: string) => ctx.redirect(url),
}

/** Starts a server without a handler on a free port. It closes at the end of the test. */
export async function openSocket() {
  const server = createServer()
  const port = await listen(server)
  onTestFinished(() => {
    server.close()
  })
  return { server, issuer: `http://localhost:${port}` }
}

/** Opens the records of a store, which closes at the end of the test. */
export async function openRecords(location: string) {
  const opened = await openPatientStore(location)
  const { store, records } = await unlock(opened, location, [SECRET], currentRequest)
  onTestFinished(() => store.close())
  return records
}

/** Starts a Redis for the test. Returns its address, for `openRecords`. */
export async function startRedisLocation(): Promise<string> {
  const { url, stop } = await startRedis()
  onTestFinished(stop)
  return url
}

/** Returns a new key that signs. */
export async function makeKey() {
  const { privateKey } = await generateKeyPair('RS256', { extractable: true })
  return { ...(await exportJWK(privateKey)), kid: 'k', alg: 'RS256', use: 'sig' as const }
}

/** Returns the sign-in: Ada signs in without a password, and allows everything. */
export function signInAtOnce(interactions: ReturnType<typeof createInteractions>): Middleware {
  return async (ctx, next) => {
    Object.assign(ctx.state, { log: {}, auditEvents: [] })
    const [, uid] = /^\/interaction\/([\w-]+)/.exec(ctx.path) ?? []
    if (!uid) return next()
    ctx.params = { uid }
    const { prompt, accountId } = await interactions.read(ctx)
    const login = { accountId: ADA.id, ts: now(), amr: ['pwd'] }
    const decision = { ...prompt.details, declined: [] } as never
    const outcome = prompt.name === 'login' ? { login } : { consent: { decision, accountId } }
    ctx.redirect(await interactions.saveAnswer(ctx, outcome))
  }
}
