// What is wrong with a configuration, or unwise: every finding at once, each with its place and rule.
// A line of a file is only shown where it cannot tell a secret (yaml.ts).

export interface Finding {
  /** Path of the file, or `environment`. */
  file: string
  line?: number
  column?: number
  /** The key it is about, as `a.b.0`. */
  key?: string
  /** Its name, the same in every version. */
  rule: string
  message: string
  /** The line of the file, and the offending part underlined. */
  excerpt?: string
}

/** Makes a finding at a key of one file. */
export type Locate = (path: PropertyKey[], rule: string, message: string) => Finding

/** A finding about an environment variable. */
export function wrongVariable(key: string, rule: string, message: string): Finding {
  return { file: 'environment', key, rule, message }
}

export class ConfigError extends Error {
  override name = 'ConfigError'
  findings: Finding[]

  constructor(findings: Finding[]) {
    super(describe(findings, 'problem'))
    this.findings = inOrder(findings)
  }
}

/** The report as people read it. */
export function describe(findings: Finding[], noun: 'problem' | 'warning'): string {
  const blocks = inOrder(findings).map(({ key, rule, message, excerpt, ...place }) => {
    const head = `  ${placeOf(place)}  ${key ? `${key}: ` : ''}${message}  [${rule}]\n`
    return excerpt ? `${head}${excerpt}\n` : head
  })
  const count = findings.length === 1 ? `1 ${noun}` : `${findings.length} ${noun}s`
  return `${count} in the configuration.\n\n${blocks.join('')}`
}

/** For programs and logs. */
export const toRecord = ({ excerpt: _, ...finding }: Finding) => finding

export function placeOf({ file, line, column = 1 }: Pick<Finding, 'file' | 'line' | 'column'>) {
  return line === undefined ? file : `${file}:${line}:${column}`
}

export function inOrder(findings: Finding[]): Finding[] {
  return [...findings].sort(
    (a, b) =>
      a.file.localeCompare(b.file) ||
      (a.line ?? 0) - (b.line ?? 0) ||
      (a.column ?? 0) - (b.column ?? 0),
  )
}
