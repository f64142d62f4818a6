// Browsers in which an account has signed in before (OWASP: device cookies).
// Attempts from such a browser have a counter of their own, so that an attacker
// elsewhere cannot make the user wait. The cookie gives no access and
// identifies no account: it holds a mark `NONCE.SECONDS.SIGNATURE` for each of
// a few accounts.

import { randomBytes } from 'node:crypto'
import type { Context } from 'koa'
import { cookieNames, originCookie, type Signatures } from '../oidc/browser.ts'
import { now } from '../store/store.ts'
import type { Account } from './account.ts'
import type { SecondFactors } from './flow.ts'

/** Accounts of one browser. */
const MAX_REMEMBERED_ACCOUNTS = 4
const REMEMBERED_SECONDS = 180 * 24 * 3600
const MARK =
  /^(?<nonce>[\w-]{12})\.(?<since>\d{1,12})\.(?<signature>[\w-]{43})$/

/**
 * Returns the functions that remember browsers. `latestAdded`: when the latest
 * factor of an account was added (epoch seconds).
 */
export function createRememberedBrowsers(
  signatures: Signatures,
  development: boolean,
  latestAdded: SecondFactors['latestAdded'],
) {
  const { device: name } = cookieNames(development)
  const signedText = (id: string, nonce: string, since: string) =>
    `${id} ${nonce} ${since}`
  const fieldsOf = (mark: string) => MARK.exec(mark)?.groups ?? {}
  // Each mark costs a verification, but only for accounts that exist. Without a
  // limit, forged marks would delay other requests, and reveal by their time
  // that the account exists.
  const marks = (ctx: Context) =>
    (ctx.cookies.get(name, { signed: false }) ?? '').split(
      '~',
      MAX_REMEMBERED_ACCOUNTS,
    )

  /** A mark expires when all sessions of the account are ended. */
  function isOf(
    { id, ended = 0 }: Pick<Account, 'id' | 'ended'>,
    mark: string,
  ): boolean {
    const { nonce = '', since = '', signature = '' } = fieldsOf(mark)
    const isCurrent =
      Number(since) > ended && Number(since) > now() - REMEMBERED_SECONDS
    return (
      isCurrent && signatures.verify(signedText(id, nonce, since), signature)
    )
  }

  /**
   * Returns the mark of this browser for the account, unique among its
   * browsers. A mark from before the latest factor is void: a thief of the
   * password could make any number of them, and each would have a counter for
   * codes.
   */
  async function findMark(
    ctx: Context,
    account: Pick<Account, 'id' | 'ended'>,
  ) {
    const mark = marks(ctx).find(found => isOf(account, found))
    if (mark === undefined) return undefined
    const isValid =
      Number(fieldsOf(mark).since) > (await latestAdded(account.id))
    return isValid ? mark : undefined
  }

  /**
   * Remembers the browser for the account. `signedInAt`: epoch seconds of a
   * whole sign-in.
   */
  async function remember(
    ctx: Context,
    account: Account,
    signedInAt: number,
  ): Promise<void> {
    // Only marks from before the latest factor are void, and the clock counts
    // whole seconds.
    const since = Math.max(signedInAt, (await latestAdded(account.id)) + 1)
    const nonce = randomBytes(9).toString('base64url')
    const signature = signatures.sign(
      signedText(account.id, nonce, String(since)),
    )
    const mark = `${nonce}.${since}.${signature}`
    const others = marks(ctx).filter(
      other => MARK.test(other) && !isOf(account, other),
    )
    const kept = [mark, ...others].slice(0, MAX_REMEMBERED_ACCOUNTS)
    ctx.cookies.set(name, kept.join('~'), {
      ...originCookie(development),
      maxAge: REMEMBERED_SECONDS * 1000,
      signed: false,
    })
  }

  return { findMark, remember }
}
