// Around the library's registration endpoint: how much may be sent to it, and what it tells.

import { Readable } from 'node:stream'
import type { Context, Middleware } from 'koa'
import readBody from 'raw-body'
import { hashSecret } from '../../config/client-secret.ts'
import { OWN_METADATA } from '../../provider/clients.ts'
import type { Routes } from '../../provider/routes.ts'

/** Bytes (OT7). */
const LONGEST = 16 * 1024

export function registrationEndpoint({ endpoints, registered }: Routes): Middleware {
  return async (ctx, next) => {
    if (ctx.path !== endpoints.registration && !registered?.test(ctx.path)) return next()
    const { req } = ctx
    if (/^(POST|PUT)$/.test(ctx.method)) await takeIn(ctx)
    await next().finally(() => Object.assign(ctx, { req }))
    tell(ctx)
  }
}

/** A secret that an update repeats is compared by its hash: the library is given that in its place. */
async function takeIn(ctx: Context) {
  const { length } = ctx.request
  const text = await readBody(ctx.req, { limit: LONGEST, length, encoding: 'utf8' })
  const body = Buffer.from(ctx.method === 'PUT' ? withHash(text) : text)
  if (length !== undefined) ctx.request.headers['content-length'] = String(body.length)
  Object.assign(ctx, { req: Readable.from([body], { objectMode: false }) })
}

function withHash(text: string): string {
  const body = parse(text)
  if (typeof body?.client_secret !== 'string') return text
  return JSON.stringify({ ...body, client_secret: hashSecret(body.client_secret) })
}

/** What is no JSON the library refuses. */
function parse(text: string): Record<string, unknown> | undefined {
  try {
    return Object(JSON.parse(text))
  } catch {
    return undefined
  }
}

/** A secret once, when it is new; and nothing of what is ours. */
function tell(ctx: Context) {
  const { client_secret: _, client_secret_expires_at: __, ...body } = Object(ctx.body)
  if (body.client_id === undefined) return
  const told = Object.entries(body).filter(([key]) => !OWN_METADATA.includes(key))
  const secret = ctx.state.newSecret
  ctx.body = {
    ...Object.fromEntries(told),
    response_modes: body.response_modes.filter((mode: string) => mode !== 'fragment'),
    ...(secret && { client_secret: secret, client_secret_expires_at: 0 }),
  }
}
