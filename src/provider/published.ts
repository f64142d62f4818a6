// What is published: the discovery document and the keys. They are the same for everybody for as long as
// there is this provider, so the library is asked for them once; a reload makes another (reload.ts).

import { createHash } from 'node:crypto'
import type { Context, Middleware } from 'koa'
import { DISCOVERY, type Routes } from './routes.ts'

interface Answer {
  headers: Record<string, string>
  body: Buffer
}

export function publish({ paths }: Routes): Middleware {
  const published = [...DISCOVERY, paths.jwks]
  const answers = new Map<string, Answer>()

  return (ctx, next) => {
    const isRead = ctx.method === 'GET' || ctx.method === 'HEAD'
    return isRead && published.includes(ctx.path) ? tell(ctx, next) : next()
  }

  async function tell(ctx: Context, next: () => Promise<unknown>) {
    const answer = answers.get(ctx.path) ?? (await ask(ctx, next))
    if (!answer) return
    answers.set(ctx.path, answer)
    ctx.set(answer.headers)
    // All that depends on who asks: the library allows every origin by its name.
    ctx.set('Access-Control-Allow-Origin', ctx.get('Origin') || '*')
    ctx.body = answer.body
    if (ctx.fresh) ctx.status = 304
    ctx._matchedRoute = ctx.path
  }
}

/** What the library answers; undefined for an error, which stays as it is. */
async function ask(ctx: Context, next: () => Promise<unknown>): Promise<Answer | undefined> {
  const before = ctx.response.headers
  await next()
  if (ctx.status !== 200) return undefined
  const added = Object.entries(ctx.response.headers)
    .filter(([name, value]) => before[name] !== value)
    .map(([name, value]) => [name, String(value)])
  const body = Buffer.from(JSON.stringify(ctx.body))
  const etag = `"${createHash('sha256').update(body).digest('base64url')}"`
  return { headers: Object.fromEntries([...added, ['etag', etag]]), body }
}
