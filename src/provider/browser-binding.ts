// Which browser an interaction was begun in. The cookies it goes by have a path of their own, so they
// cannot be `__Host-` cookies, and a neighbouring domain could plant those of a sign-in that somebody
// else has made (login CSRF). One that only we can set has to come with them.

import { createHash, randomBytes } from 'node:crypto'
import type { Context } from 'koa'
import { cookieNames, originCookie } from '../http/cookies.ts'
import { memberOf } from './feature.ts'

export type BrowserBinding = ReturnType<typeof createBrowserBinding>

/** Seconds: long, because of tabs opened at once in a browser without it only one keeps its own. */
const KEPT = 400 * 24 * 3600

export function createBrowserBinding(development: boolean) {
  const { browser: name } = cookieNames(development)
  const read = ({ cookies }: Pick<Context, 'cookies'>) => cookies.get(name, { signed: true })
  const hashOf = (value: string) => createHash('sha256').update(value).digest('base64url')

  return {
    /** What an interaction keeps of the browser it begins in. */
    bind(ctx: Pick<Context, 'cookies'>): { browser: string } {
      const value = read(ctx) ?? randomBytes(24).toString('base64url')
      ctx.cookies.set(name, value, { ...originCookie(development), maxAge: KEPT * 1000 })
      return { browser: hashOf(value) }
    },

    isBound(ctx: Pick<Context, 'cookies'>, details: unknown): boolean {
      const value = read(ctx)
      return value !== undefined && memberOf(details, 'browser') === hashOf(value)
    },
  }
}
