// Attempts at factors: their limits, and their audit events.

import type { Context } from 'koa'
import type { Interaction } from '../../oidc/interactions.ts'
import { note } from '../../operation/audit.ts'
import { clientInfoOf } from '../../operation/client-info.ts'
import type { Metrics } from '../../operation/metrics.ts'
import type { Account } from '../../sign-in/account.ts'
import {
  aboutInteraction,
  accountCounter,
} from '../../sign-in/authentication.ts'
import type { Site } from '../../sign-in/site.ts'
import { now } from '../../store/store.ts'
import type { Method } from './factors.ts'

/**
 * Returns the place in which a challenge is valid: one interaction, or one
 * session.
 */
export const placeOf = ({ uid }: { uid: string }) => `at ${uid}`

/** Returns this request as the latest use of a factor. */
export const useOf = (ctx: Context) => ({
  at: now(),
  client: clientInfoOf(ctx),
})

/** Reasons of the audit event. commands/refusals.json explains each. */
export type FactorRefusal =
  | 'disabled'
  | 'passkey_counter'
  | 'passkey_replayed'
  | 'passkey_unknown'
  | 'passkey_wrong'
  | 'throttled'
  | 'wrong_code'

/** Thrown for a wrong answer or code. The message is the cause, for the log. */
export class Refused extends Error {
  reason: FactorRefusal

  constructor(reason: FactorRefusal, detail = '') {
    super(detail)
    this.reason = reason
  }
}

/** An attempt at a factor. */
export interface Attempt {
  factor: Method
  /** Absent if the attempt names no account that exists. */
  account?: Account
  /**
   * A passkey that the account does not have: its 256 random bits cannot be
   * guessed.
   */
  isForeign?: boolean
  /** Epoch seconds: a time before the attempt. */
  signedInAt: number
  interaction: Interaction
}

/** The reason of an attempt that the limits do not allow. */
const THROTTLED = 'throttled'

/** See `createFactorAttempts`. */
export type AttemptFactor = ReturnType<typeof createFactorAttempts>

/**
 * Returns the check of attempts at factors, with the limits of the password.
 */
export function createFactorAttempts(
  { authentication, records }: Site,
  metrics: Metrics,
) {
  /**
   * Returns the result of `check`, if the limits allow the attempt. Throws
   * `Refused` otherwise.
   */
  async function checkWithinLimits<T>(
    ctx: Context,
    isFactor: boolean,
    { account, isForeign }: Attempt,
    check: () => Promise<T>,
  ): Promise<T> {
    if (!account || isForeign) {
      const isAllowed = await authentication.countPasskeyOfNobody(ctx)
      throw new Refused(isAllowed ? 'passkey_unknown' : THROTTLED)
    }
    const name = accountCounter(account.id)
    const succeed = await authentication.countAttempt(ctx, {
      name,
      account,
      isFactor,
    })
    if (!succeed) throw new Refused(THROTTLED)
    const result = await check()
    await succeed('whole')
    return result
  }

  /**
   * Returns the result of `check`, or the `Refused` that it throws. Logs and
   * counts both.
   */
  return async function attempt<T>(
    ctx: Context,
    eventPrefix: 'sign_in' | 'second_factor',
    attempted: Attempt,
    check: () => Promise<T>,
  ): Promise<T | Refused> {
    const { factor, account, signedInAt, interaction } = attempted
    const about = { ...aboutInteraction(records, interaction), factor }
    const isFactor = eventPrefix === 'second_factor'
    try {
      const result = await checkWithinLimits(ctx, isFactor, attempted, check)
      if (account)
        await authentication.noteSuccess(ctx, account, signedInAt, about)
      metrics.secondFactors.inc({ factor, outcome: 'ok' })
      return result
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      const { reason, message } = error
      const event =
        `${eventPrefix}_${reason === THROTTLED ? 'throttled' : 'failed'}` as const
      const detail = message || undefined
      note(ctx, event, { ...about, reason, detail, account: account?.id })
      metrics.secondFactors.inc({ factor, outcome: 'failed' })
      return error
    }
  }
}
