// What is wrong with a configuration: every finding at once, each with its place and its rule.
// The text of a file is never quoted, for a line may hold a secret.

export interface Finding {
  /** Path of the file, or `environment`. */
  file: string
  line?: number
  column?: number
  /** The key it is about, as `a.b.0`. */
  key?: string
  message: string
}

/** A finding about an environment variable. */
export function wrongVariable(key: string, message: string): Finding {
  return { file: 'environment', key, message }
}

export class ConfigError extends Error {
  override name = 'ConfigError'
  findings: Finding[]

  constructor(findings: Finding[]) {
    super(formatReport(findings))
    this.findings = findings
  }
}

function formatReport(findings: Finding[]): string {
  const lines = [...findings]
    .sort((a, b) => a.file.localeCompare(b.file) || (a.line ?? 0) - (b.line ?? 0))
    .map(({ file, line, column, key, message }) => {
      const place = line === undefined ? file : `${file}:${line}:${column ?? 1}`
      return `  ${place}  ${key ? `${key}: ` : ''}${message}`
    })
  const count = findings.length === 1 ? '1 problem' : `${findings.length} problems`
  return `${count} in the configuration.\n\n${lines.join('\n')}\n`
}
