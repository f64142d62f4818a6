// The table of the bench: absolute values of the first variant, and the ratios of the others to it.

import { formatMarkdown } from '../../../support/program.ts'
import { median } from '../statistics.ts'
import type { Figures } from './load.ts'
import type { RedisCost } from './redis-cost.ts'

export interface Result {
  name: string
  /** By request. */
  runs: Record<string, Figures[]>
  redis?: RedisCost
}

const COLUMNS = [
  ...['request', 'of', 'CPU', 'CPU, one connection', 'requests a second', 'p50', 'p99'],
  ...['Redis commands', 'bytes sent', 'bytes kept'],
]

/** Formats a Markdown table: medians, and in brackets minimum and maximum. Equal names share a row. */
export function tableOf(ofProcesses: Result[]): string {
  const names = [...new Set(ofProcesses.map(({ name }) => name))]
  const results = names.map(name => together(ofProcesses.filter(result => result.name === name)))
  const requests = results.flatMap(({ runs, redis }) =>
    Object.keys({ ...runs, ...redis?.commands, ...redis?.memory }),
  )
  const rows = [...new Set(requests)].flatMap(name =>
    results.map(result => [name, result.name, ...cellsOf(name, result, results[0])]),
  )
  const filled = rows.filter(([, , ...cells]) => cells.some(Boolean))
  return `${formatMarkdown(COLUMNS, filled)}\n`
}

/** Joins the runs of the processes of one variant, in their order. */
function together(same: Result[]): Result {
  const requests = [...new Set(same.flatMap(({ runs }) => Object.keys(runs)))]
  const runsOf = (name: string) => same.flatMap(({ runs }) => runs[name] ?? [])
  const runs = Object.fromEntries(requests.map(name => [name, runsOf(name)]))
  return { name: '', ...same[0], runs }
}

function cellsOf(name: string, { runs, redis }: Result, first: Result | undefined): string[] {
  const own = runs[name] ?? []
  const others = first?.runs[name] ?? []
  const compare = (key: keyof Figures, digits: number, unit: string) =>
    own === others
      ? figure(
          own.map(run => run[key]),
          digits,
          unit,
        )
      : ratio(own, others, key)
  return [
    compare('cpu', 0, ' µs'),
    compare('alone', 0, ' µs'),
    compare('rate', 0, ''),
    compare('p50', 1, ' ms'),
    compare('p99', 1, ' ms'),
    String(redis?.commands[name] ?? ''),
    figure(own.map(({ bytes }) => bytes)),
    figure([redis?.memory[name]]),
  ]
}

/** The ratios of runs to the runs of the first variant beside them, which had the same disturbances. */
function ratio(own: Figures[], others: Figures[], key: keyof Figures): string {
  const ratios = own.flatMap((run, i) => {
    const [value, other] = [run[key], others[i]?.[key]]
    return value && other ? [value / other] : []
  })
  if (!ratios.length) return ''
  const [middle, least, most] = [median(ratios), Math.min(...ratios), Math.max(...ratios)]
  return `${middle.toFixed(2)} (${least.toFixed(2)}–${most.toFixed(2)})`
}

function figure(figures: (number | undefined)[], digits = 0, unit = ''): string {
  const known = figures.filter(figure => figure !== undefined)
  return known.length ? `${median(known).toFixed(digits)}${unit}` : ''
}
