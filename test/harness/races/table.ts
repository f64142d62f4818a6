// Formats the results of races as a table, for a terminal or in Markdown.

import { formatMarkdown } from '../../support/program.ts'
import type { Result } from './race.ts'

const HEAD = [
  'artefact',
  'deployment',
  'N',
  'rounds',
  'winners per round',
  "losers' answers",
  '5xx',
  'violations',
]

export function formatTable(results: Result[]): string {
  const lines = [HEAD, ...results.map(cells)]
  const widths = HEAD.map((_, i) => Math.max(...lines.map(line => line[i]?.length ?? 0)))
  return lines.map(line => line.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join('  ')).join('\n')
}

export const markdownOf = (results: Result[]) => formatMarkdown(HEAD, results.map(cells))

/** Formats the violations: up to eight for each race. */
export function formatViolations(results: Result[]): string {
  return results
    .filter(({ violations }) => violations.length)
    .map(({ artefact, deployment, n, violations }) =>
      [`${artefact}, ${deployment}, ${n} callers:`, ...violations.slice(0, 8)].join('\n  '),
    )
    .join('\n')
}

function cells({ artefact, deployment, n, rounds, ...result }: Result): string[] {
  const { winners, losers, faults, violations } = result
  const [fewest, most] = winners
  const answers = [...losers].toSorted().map(([answer, count]) => `${count} × ${answer}`)
  return [
    artefact,
    deployment,
    String(n),
    String(rounds),
    fewest === most ? String(most) : `${fewest} to ${most}`,
    answers.join(', ') || 'none',
    String(faults),
    String(violations.length),
  ]
}
