// Operations in flight to Redis: bounded, counted and timed; and whether Redis accepts writes.

import { now, type Observer, type Outage, StoreUnavailable } from '../store.ts'

/** One more is refused, so that a slow Redis does not fill the memory of this process. */
const MAX_IN_FLIGHT = 2000

/** A command without a reply is rejected after this time. */
const REPLY_TIMEOUT_MS = 900

/** Limits and observes operations. */
export class Traffic {
  #observe: Observer
  #inFlight = 0
  #failingSince?: number
  #lastOutage?: Outage

  constructor(observe: Observer) {
    this.#observe = observe
  }

  /** One operation, of as many commands as it takes. */
  async admit<T>(operate: () => Promise<T>): Promise<T> {
    if (this.#inFlight >= MAX_IN_FLIGHT) throw new StoreUnavailable('Redis: too many operations')
    this.#inFlight++
    try {
      return await operate()
    } finally {
      this.#inFlight--
    }
  }

  /** Sends a command. Every error becomes StoreUnavailable: a caller must not take it for a missing record. */
  async send<T>(command: string, ask: () => Promise<T>): Promise<T> {
    const started = performance.now()
    let failed = true
    try {
      const answer = await inTime(ask())
      failed = false
      return answer
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error
      // An error of ioredis has the command in it that failed: what was written, or a password.
      const cause = Object.assign(error as Error, { command: undefined })
      throw new StoreUnavailable(`Redis: ${cause.message}`, { cause })
    } finally {
      this.#observe(command, (performance.now() - started) / 1000, failed)
    }
  }

  /** As `send`, and remembers for how long writes have failed. */
  async write<T>(command: string, ask: () => Promise<T>): Promise<T> {
    try {
      const answer = await this.send(command, ask)
      this.#lastOutage = this.outage
      this.#failingSince = undefined
      return answer
    } catch (error) {
      this.#failingSince ??= now()
      throw error
    }
  }

  get outage(): Outage | undefined {
    return this.#failingSince ? { from: this.#failingSince, to: now() } : this.#lastOutage
  }
}

/** Rejects after the time limit, also for a command that waits behind others on its connection. */
function inTime<T>(answer: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new StoreUnavailable('Redis: no answer in time'))
    const timer = setTimeout(late, REPLY_TIMEOUT_MS)
    answer.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}
