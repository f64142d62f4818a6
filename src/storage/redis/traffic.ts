// What is on its way to Redis: bounded, counted, timed; and whether it takes writes.

import { now, type Observer, type Outage, StoreUnavailable } from '../store.ts'

/** Operations at once; one more is refused, so that a slow Redis does not fill our memory. */
const IN_FLIGHT = 2000

/** Milliseconds until whoever asks is told that there is no answer. */
const PATIENCE = 900

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
    if (this.#inFlight >= IN_FLIGHT) throw new StoreUnavailable('Redis: too much is asked at once')
    this.#inFlight++
    try {
      return await operate()
    } finally {
      this.#inFlight--
    }
  }

  /** Whatever Redis or the way to it says: nobody is told that something is not there. */
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

/** Of what waits behind other questions, too: those have as long each. */
function inTime<T>(answer: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new StoreUnavailable('Redis: no answer in time'))
    const timer = setTimeout(late, PATIENCE)
    answer.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}
