// The tables of the bench: one for each load. A row has one figure of one request, for each variant.

import { formatMarkdown } from '../../../support/program.ts'
import { median, quantile } from '../statistics.ts'
import type { Run } from './load.ts'

/** A process that was measured. `base`: the name of the variant that it is compared with. */
interface Measured {
  name: string
  base?: string
}

/** A run, and what ran. */
export interface Figures extends Run {
  load: string
  request: string
  contender: Measured
}

/** Of the runs of one request under one load: the runs of each variant, in the order of the rounds. */
type Rounds = Map<string, Figures[]>

const p50 = ({ times }: Run) => quantile(times, 0.5)

/** Formats the runs as Markdown: medians, then the ratio to the base, with its least and its greatest. */
export function tableOf(all: Figures[]): string {
  const tables = Map.groupBy(all, ({ load }) => load)
  return [...tables].map(([load, runs]) => tableOfLoad(load, runs)).join('\n')
}

function tableOfLoad(load: string, runs: Figures[]): string {
  const names = [...new Set(runs.map(({ contender }) => contender.name))]
  const rows = [...Map.groupBy(runs, ({ request }) => request)].flatMap(([request, ofRequest]) => {
    const rounds: Rounds = Map.groupBy(ofRequest, ({ contender }) => contender.name)
    const row = (figure: string, cell: (runs: Figures[]) => string) => [
      `${request}: ${figure}`,
      ...names.map(name => cell(rounds.get(name) ?? [])),
    ]
    return [
      row('CPU, µs', runs => compared(runs, rounds, ({ cpu }) => cpu, 0)),
      row('p50, ms', runs => compared(runs, rounds, p50, 2)),
      row('p99, ms', runs => (runs.length ? quantile(timesOf(runs), 0.99).toFixed(1) : '')),
      row('requests', runs => String(timesOf(runs).length)),
    ]
  })
  return `${formatMarkdown([load, ...names], rows)}\n`
}

const timesOf = (runs: Run[]) => runs.flatMap(({ times }) => times)

/** Each run is compared with that of the base in the same round, which had the same disturbances. */
function compared(
  runs: Figures[],
  rounds: Rounds,
  figureOf: (run: Run) => number | undefined,
  digits: number,
): string {
  const figures = runs.map(figureOf).filter(figure => figure !== undefined)
  if (!figures.length) return ''
  const { base = '' } = runs[0]?.contender ?? {}
  const others = rounds.get(base) ?? []
  const ratios = runs.flatMap((run, i) => {
    const figure = figureOf(run)
    const other = others[i] && figureOf(others[i])
    return figure && other ? [figure / other] : []
  })
  const value = median(figures).toFixed(digits)
  if (!ratios.length) return value
  const [middle, least, most] = [median(ratios), Math.min(...ratios), Math.max(...ratios)]
  return `${value} = ${middle.toFixed(2)} × (${least.toFixed(2)}–${most.toFixed(2)})`
}

type WithMemory = Measured & { memory(): { idle?: number; now?: number } }

/** Formats the memory of the processes before their first request, and after all loads. */
export function memoryTable(contenders: WithMemory[]): string {
  const memory = contenders.map(contender => contender.memory())
  const megabytes = (figure = Number.NaN) => figure.toFixed(0)
  return `${formatMarkdown(
    ['RSS, MB', ...contenders.map(({ name }) => name)],
    [
      ['idle', ...memory.map(({ idle }) => megabytes(idle))],
      ['after all loads', ...memory.map(({ now }) => megabytes(now))],
    ],
  )}\n`
}
