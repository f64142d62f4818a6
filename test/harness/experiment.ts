// The form of every experiment: its name, the titles of its table, and what it measures.

export type Cell = string | number

export interface Row {
  cells: Cell[]
  /** Whether everything holds that the experiment is about. */
  isFine: boolean
  /** Lines below the table. */
  notes?: string[]
}

export interface Options {
  /** `--rounds`, and `--seconds` with commas between them. Each experiment has its own defaults. */
  rounds?: number
  seconds: number[]
}

export interface Experiment {
  /** `--only` selects by words of the name. */
  name: string
  titles: string[]
  run(options: Options): Promise<Row[]>
}
