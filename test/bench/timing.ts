// Timing: whether the duration of a failed sign-in reveals its reason.

import { type Deployment, deploy, ON_SQLITE, type Shape } from '../races/deployment.ts'
import { PASSWORD } from '../support/usher.ts'
import { auc, median } from './statistics.ts'
import { attempt, PROXY, type Visitor, visit, WRONG } from './visitor.ts'

/** Of each kind, so that no account comes near its limit. */
const ACCOUNTS = 8
const LIMIT = 100

type Kind = (turn: number) => [username: string, password: string]
const KINDS: Record<string, Kind> = {
  'wrong password': turn => [`wrong-${turn % ACCOUNTS}`, WRONG],
  'unknown name': turn => [`nobody-${turn % ACCOUNTS}`, WRONG],
  disabled: turn => [`disabled-${turn % ACCOUNTS}`, PASSWORD],
  throttled: () => ['throttled', PASSWORD],
}

export interface Alike {
  kind: string
  median: number
  /** From the wrong password, in milliseconds. */
  difference: number
  auc: number
}

/** `n` of each kind, in turn. */
export async function measureAlike(n: number, shape: Shape = ON_SQLITE): Promise<Alike[]> {
  const security = { account_attempts: LIMIT, network_attempts: 100_000 }
  const deployment = await deploy(shape, {}, { ...PROXY, security })
  try {
    const visitor = await prepare(deployment)
    const times = Object.values(KINDS).map((): number[] => [])
    for (let turn = -5; turn < n; turn++) {
      for (const [i, kind] of shuffled(Object.values(KINDS).entries())) {
        const started = performance.now()
        const { status } = await attempt(deployment.node(0), visitor, ...kind(turn + ACCOUNTS))
        if (status !== 400) throw new Error(`${Object.keys(KINDS)[i]}: ${status}`)
        // The first turns are for the machine to get warm.
        if (turn >= 0) times[i]?.push(performance.now() - started)
      }
    }
    return judge(times)
  } finally {
    await deployment.stop()
  }
}

/** What comes after a wait finds a colder machine: each kind comes after each other as often. */
function shuffled<T>(all: Iterable<T>): T[] {
  const drawn = Array.from(all, one => ({ one, lot: Math.random() }))
  return drawn.sort((a, b) => a.lot - b.lot).map(({ one }) => one)
}

async function prepare(deployment: Deployment): Promise<Visitor> {
  const { directory } = deployment
  for (let i = 0; i < ACCOUNTS; i++) {
    await directory.add({ username: `wrong-${i}` }, PASSWORD)
    const { id } = await directory.add({ username: `disabled-${i}` }, PASSWORD)
    await directory.change(id, account => ({ ...account, enabled: false }))
  }
  const { id } = await directory.add({ username: 'throttled' }, PASSWORD)
  // As if it had been guessed at for hours: it waits for the longest time there is.
  const count = { count: LIMIT + 20, at: Date.now() }
  await deployment.records.save('Attempts', `account ${id}`, count)
  return await visit(deployment)
}

function judge(times: number[][]): Alike[] {
  const [wrong = []] = times
  return Object.keys(KINDS).map((kind, i) => {
    const own = times[i] ?? []
    return {
      kind,
      median: median(own),
      difference: median(own) - median(wrong),
      auc: i === 0 ? 0.5 : auc(own, wrong),
    }
  })
}
