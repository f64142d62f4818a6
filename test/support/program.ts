// The frame of the programs that measure: how they end, and their tables.

/** Ends this program at a signal, and the processes it started: the signal alone would leave them running. */
export function exitOnSignals(): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
    process.once(signal, () => process.exit(130))
}

/** Whether `--only` has words of this name. It has names with commas between them; empty: all. */
export function isChosen(only: string, name: string): boolean {
  const names = only.split(',').filter(Boolean)
  const words = ` ${name.replaceAll(',', '')} `
  return !names.length || names.some(part => words.includes(` ${part} `))
}

type Cell = string | number

/** A row of a Markdown table. */
export const tableRow = (cells: Cell[]) => `| ${cells.join(' | ')} |`

/** The first two lines of a Markdown table. */
export const tableHead = (titles: string[]) =>
  `${tableRow(titles)}\n${tableRow(titles.map(() => '---'))}`

/** A Markdown table. */
export const formatMarkdown = (titles: string[], rows: Cell[][]) =>
  [tableHead(titles), ...rows.map(tableRow)].join('\n')
