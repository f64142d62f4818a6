// Tables of texts, which fit the terminal. A cell that is too long for its
// column ends with `…`.

/** A column, and the text of its cell in a row. */
export interface Column<T> {
  title: string
  text(row: T): string
  /**
   * Columns of a smaller number become narrow first. 3: a command needs the
   * whole text.
   */
  keep: 1 | 2 | 3
}

const GAP = '  '
const CUT = '…'
/** No column of a narrow terminal is cut to less. */
const MIN_COLUMN_WIDTH = 6

const graphemes = new Intl.Segmenter()
/** Characters that take two columns of a terminal. */
const WIDE =
  /[\p{sc=Han}\p{sc=Hangul}\p{sc=Hira}\p{sc=Kana}\u3000-\u303F\uFF01-\uFF60]|\p{RGI_Emoji}/v

/**
 * Returns a table whose columns are as wide as these rows need. Later rows have
 * the same columns. `maxWidth`: the columns of the terminal; without one,
 * nothing is cut.
 */
export function tableFor<T>(
  columns: Column<T>[],
  rows: T[],
  maxWidth = Number.POSITIVE_INFINITY,
) {
  const widths = columns.map(({ title, text }) => {
    const lengths = rows.map(row => widthOf(text(row)))
    return lengths.reduce((most, each) => Math.max(most, each), widthOf(title))
  })
  const isLimited = maxWidth !== Number.POSITIVE_INFINITY
  const available = maxWidth - GAP.length * (widths.length - 1)
  for (const keep of [1, 2, 3]) {
    const some = [...columns.keys()].filter(i => columns[i]?.keep === keep)
    shrink(widths, some, available)
  }
  let isCut = false

  function lineOf(cells: string[]): string {
    const shown = cells.map((text, i) => {
      const width = widths[i] ?? 0
      if (widthOf(text) <= width || !isLimited) return padded(text, width)
      isCut = true
      return padded(beginning(text, width - 1) + CUT, width)
    })
    return shown.join(GAP).trimEnd()
  }

  return {
    head: () => lineOf(columns.map(({ title }) => title)),
    line: (row: T) => lineOf(columns.map(({ text }) => text(row))),
    /** Whether a cell was cut so far. */
    isCut: () => isCut,
  }
}

/**
 * Makes the widest of some columns narrower until all columns have place, or
 * none of these is wide.
 */
function shrink(widths: number[], some: number[], available: number): void {
  let sum = widths.reduce((total, each) => total + each, 0)
  while (sum > available) {
    const most = Math.max(...some.map(i => widths[i] ?? 0))
    if (most <= MIN_COLUMN_WIDTH) return
    const widest = some.find(i => widths[i] === most) ?? 0
    widths[widest] = most - 1
    sum--
  }
}

/** Latin letters, and the signs of our tables: one column each. */
const NARROW = /^[ -~¡-˿–…✓]*$/

/** Returns the columns of a terminal that a text takes. */
export function widthOf(text: string): number {
  if (NARROW.test(text)) return text.length
  let width = 0
  for (const { segment } of graphemes.segment(text)) {
    width += WIDE.test(segment) ? 2 : 1
  }
  return width
}

const padded = (text: string, width: number) =>
  text + ' '.repeat(Math.max(0, width - widthOf(text)))

/** Returns the beginning of a text that takes at most so many columns. */
function beginning(text: string, width: number): string {
  let taken = ''
  for (const { segment } of graphemes.segment(text)) {
    if (widthOf(taken + segment) > width) break
    taken += segment
  }
  return taken
}
