// One of several processes that serve. The primary (workers.ts) says what to do, and hears when it is
// done; without it there are none.

import type { Held } from './config/diff.ts'
import { readSettings } from './config/load.ts'
import { createLog } from './http/log.ts'
import { type NOTICE, prepare, type Service } from './serve.ts'

/** One of them speaks for all: what each would say in the same words. */
const SPEAKER = 1

export type Told =
  | { order: 'begin'; number: number; held: Held }
  | { order: 'drain'; signal: keyof typeof NOTICE }
  | { order: 'listen' | 'greet' | 'reload' | 'metrics' | 'leave' }
/** The answer has its `id`. */
type Order = Told & { id: number }

/** Rejects when it cannot begin. */
export function work(): Promise<never> {
  let service: Promise<Service> | undefined
  // They are for the primary, and come to the whole group where they are sent to it.
  for (const signal of ['SIGHUP', 'SIGUSR2']) process.on(signal, () => {})
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => drain(signal).finally(() => process.exit(0)))
  }
  return new Promise((_, reject) => {
    process.on('message', async (order: Order) => {
      try {
        const answer = await obey(order)
        const isEnd = order.order === 'leave' || order.order === 'drain'
        process.send?.({ id: order.id, answer }, () => isEnd && process.exit(0))
      } catch (error) {
        reject(error)
      }
    })
  })

  async function obey(order: Order): Promise<unknown> {
    if (order.order === 'begin') service = begin(order.number, order.held)
    if (order.order === 'drain') return drain(order.signal)
    const { listen, greet, reload, leave, metrics } = (await service) ?? {}
    if (order.order === 'listen') return listen?.()
    if (order.order === 'greet') return greet?.()
    if (order.order === 'reload') return reload?.()
    if (order.order === 'leave') await leave?.()
    return metrics?.values()
  }

  /** One that has not begun has nothing to finish. */
  async function drain(signal: keyof typeof NOTICE) {
    await (await service)?.drain(signal)
  }
}

function begin(number: number, held: Held): Promise<Service> {
  process.title = `usher worker ${number}`
  const log = createLog(number)
  const news = log.child({}, { level: number === SPEAKER ? 'info' : 'silent' })
  return prepare({ ...readSettings(), ...held }, log, news)
}
