// A queue of work that costs CPU, for everybody who signs in at nine o'clock.
//
//   run → free place?            → runs
//       → short enough a wait?   → waits; networks take turns
//       → another network waits
//         with more requests?    → its last one is refused, this one waits
//       → refused
//
// The wait is expected from how long the work took so far. A flood from one
// network fills the queue only until others come: they take its places, and
// are served in turn with it.

/** Thrown for work that would wait for too long, or that made room. */
export class QueueFull extends Error {}

/** Thrown for work whose request ended while it waited. It does not run. */
export class RequestGone extends Error {}

/** The request that work is for. */
interface Origin {
  /** Its network, by which requests take turns. */
  network: string
  /** Whether its client has disconnected. */
  isGone(): boolean
}

interface Waiting extends Origin {
  begin(): void
  refuse(error: Error): void
}

interface Settings {
  /** How much work runs at the same time. */
  concurrency: number
  /** Work that is expected to wait for longer is refused. */
  maxWaitMs: number
}

/** The duration of work before any was measured. */
const FIRST_GUESS_MS = 25
/** The shortest duration that is expected; it bounds the length of the queue. */
const MIN_EXPECTED_MS = 5
/** The weight of the latest duration in the average. */
const WEIGHT = 0.1

/** See the head of this file. */
export class FairQueue {
  readonly #settings: Settings
  /** By network. The first one has the next turn. No list is empty. */
  readonly #waiting = new Map<string, Waiting[]>()
  #length = 0
  #running = 0
  #averageMs = FIRST_GUESS_MS

  constructor(settings: Settings) {
    this.#settings = settings
  }

  /**
   * Runs the work in its turn, and returns its result. Rejects with `QueueFull`
   * or `RequestGone`, without having run it.
   */
  async run<T>(origin: Origin, work: () => Promise<T>): Promise<T> {
    if (this.#running < this.#settings.concurrency) this.#running++
    else await this.#wait(origin)
    const began = performance.now()
    try {
      return await work()
    } finally {
      this.#learn(performance.now() - began)
      this.#running--
      this.#beginNext()
    }
  }

  /** Resolves when the turn of this request has come. */
  #wait(origin: Origin): Promise<void> {
    if (this.#isFull()) this.#makeRoom(origin.network)
    return new Promise((begin, refuse) => {
      const ofNetwork = this.#waiting.get(origin.network) ?? []
      ofNetwork.push({ ...origin, begin, refuse })
      this.#waiting.set(origin.network, ofNetwork)
      this.#length++
    })
  }

  #isFull(): boolean {
    const { concurrency, maxWaitMs } = this.#settings
    const expectedMs = (this.#length / concurrency) * this.#averageMs
    return expectedMs >= maxWaitMs
  }

  /**
   * Refuses the last request of the network that has most of them. Throws
   * `QueueFull` if that is this network, or would be.
   */
  #makeRoom(network: string): void {
    const lists = [...this.#waiting.values()]
    const longest = lists.reduce((one, other) =>
      other.length > one.length ? other : one,
    )
    const own = this.#waiting.get(network)?.length ?? 0
    if (longest.length <= own + 1) throw new QueueFull()
    this.#length--
    longest.pop()?.refuse(new QueueFull())
  }

  /** Begins the work whose turn it is; work of ended requests is dropped. */
  #beginNext(): void {
    for (const [network, [first, ...others]] of this.#waiting) {
      // A network that was served goes to the end.
      this.#waiting.delete(network)
      if (others.length) this.#waiting.set(network, others)
      this.#length--
      if (first && !first.isGone()) {
        this.#running++
        first.begin()
        return
      }
      first?.refuse(new RequestGone())
    }
  }

  #learn(ms: number): void {
    const expected = Math.max(ms, MIN_EXPECTED_MS)
    this.#averageMs += (expected - this.#averageMs) * WEIGHT
  }
}
