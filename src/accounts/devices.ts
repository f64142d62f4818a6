// Browsers in which a person has signed in before. Such a browser tries that person's password in a
// count of its own, so that nobody else can make them wait (LG5; OWASP: device cookies). The cookie
// opens nothing, and names nobody: it holds `NONCE.SECONDS.SIGNATURE` for each of a few accounts.

import { randomBytes } from 'node:crypto'
import type { Context } from 'koa'
import { cookieNames, originCookie } from '../http/cookies.ts'
import type { Signatures } from '../http/signatures.ts'
import { now } from '../storage/store.ts'
import type { Account } from './account.ts'

/** People who share a browser. */
const PEOPLE = 4
/** Seconds. */
const LONGEST = 180 * 24 * 3600
const MARK = /^([\w-]{12})\.(\d{1,12})\.([\w-]{43})$/

export type Devices = ReturnType<typeof createDevices>

export function createDevices({ sign, isSigned }: Signatures, development: boolean) {
  const { device: name } = cookieNames(development)
  const textOf = (id: string, nonce: string, since: string) => `${id} ${nonce} ${since}`
  const marks = (ctx: Context) => (ctx.cookies.get(name, { signed: false }) ?? '').split('~')

  /** Ends with whatever ends the account's sessions everywhere: whoever had the password then. */
  function isOf({ id, ended = 0 }: Account, mark: string): boolean {
    const [, nonce = '', since = '', signature = ''] = MARK.exec(mark) ?? []
    const isCurrent = Number(since) > ended && Number(since) > now() - LONGEST
    return isCurrent && isSigned(textOf(id, nonce, since), signature)
  }

  /** What tells this browser from others that know the account; undefined when it does not. */
  function find(ctx: Context, account: Account): string | undefined {
    return marks(ctx).find(mark => isOf(account, mark))
  }

  /** `since`: when they signed in (epoch seconds). */
  function remember(ctx: Context, account: Account, since: number): void {
    const nonce = randomBytes(9).toString('base64url')
    const mark = `${nonce}.${since}.${sign(textOf(account.id, nonce, String(since)))}`
    const others = marks(ctx).filter(other => MARK.test(other) && !isOf(account, other))
    ctx.cookies.set(name, [mark, ...others].slice(0, PEOPLE).join('~'), {
      ...originCookie(development),
      maxAge: LONGEST * 1000,
      signed: false,
    })
  }

  return { find, remember }
}
