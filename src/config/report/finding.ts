// Findings: everything that is wrong or unwise in a configuration, each with
// its place and its rule. A finding shows a part of a file only if that part
// cannot be a secret (`excerpt`).
//
// The folder config/report/: the place of a finding in its file, and its words.
// Not here: the conditions of findings (rules/, schema/).

import { basename } from 'node:path'

/** A mistake or a warning, at its place. */
export interface Finding {
  /** Path of the file, or `environment`. */
  file: string
  line?: number
  column?: number
  /** Path of the key, as `a.b.0`. */
  key?: string
  /** Name of the rule. It is the same in every version. */
  rule: string
  message: string
  /** The key with its value, as the file has them. */
  excerpt?: string
  /** The client file that inherits the key from `defaults` of usher.yaml. */
  inheritedBy?: string
}

/** Makes a finding at a key of one file. */
export type Locate = (
  path: PropertyKey[],
  rule: string,
  message: string,
) => Finding

/** Makes a finding about an environment variable. */
export function wrongVariable(
  key: string,
  rule: string,
  message: string,
): Finding {
  return { file: 'environment', key, rule, message }
}

/**
 * Thrown for a configuration that cannot take effect. The message is the
 * report.
 */
export class ConfigError extends Error {
  override name = 'ConfigError'
  findings: Finding[]

  constructor(findings: Finding[]) {
    super(formatReport(findings, 'problem'))
    this.findings = inOrder(findings)
  }
}

/** Returns the report for operators, one block for each finding. */
export function formatReport(
  findings: Finding[],
  noun: 'problem' | 'warning',
): string {
  const all = inOrder(findings)
  const blocks = all.map(({ key, rule, message, excerpt, line, ...place }) => {
    const head = `  ${placeOf({ ...place, line })}  ${key ? `${key}: ` : ''}${message}  [${rule}]\n`
    return excerpt ? `${head}    ${line} | ${excerpt}\n` : head
  })
  const count = all.length === 1 ? `1 ${noun}` : `${all.length} ${noun}s`
  return `${count} in the configuration.\n\n${blocks.join('')}`
}

/** Returns a finding for programs and logs, without an excerpt. */
export const toRecord = ({ excerpt: _, ...finding }: Finding) => finding

/** Returns `file:line:column`, or the file alone. */
export function placeOf({
  file,
  line,
  column = 1,
}: Pick<Finding, 'file' | 'line' | 'column'>) {
  return line === undefined ? file : `${file}:${line}:${column}`
}

/**
 * Returns the findings sorted by their places, each once: several clients can
 * have one about `defaults`, which then names them.
 */
export function inOrder(findings: Finding[]): Finding[] {
  const { compare } = new Intl.Collator('en', { numeric: true })
  const heirs = new Map<string, (string | undefined)[]>()
  for (const { inheritedBy, ...finding } of findings) {
    const json = JSON.stringify(finding)
    heirs.set(json, [...(heirs.get(json) ?? []), inheritedBy])
  }
  return [...heirs]
    .map(([json, files]) => namingHeirs(JSON.parse(json), files))
    .toSorted((a, b) => compare(placeOf(a), placeOf(b)))
}

/** Client files that a finding about `defaults` names. */
const MAX_HEIRS = 3

/**
 * Returns the finding with the files that inherit its key. None are named where
 * usher.yaml has the finding, whatever the clients are.
 */
function namingHeirs(finding: Finding, heirs: (string | undefined)[]): Finding {
  const files = heirs.filter(file => file !== undefined)
  if (files.length < heirs.length) return finding
  const names = [...new Set(files)].map(file => `clients/${basename(file)}`)
  const more = names.length - MAX_HEIRS
  const others = more > 0 ? ` and ${more} more` : ''
  const shown = names.slice(0, MAX_HEIRS).join(', ') + others
  return { ...finding, message: `${finding.message} (${shown})` }
}

const MAX_EXCERPT_CHARS = 90
/** Random text, and parts of a URL that may be secret. Colours are excluded. */
const SUSPECT =
  /(?=[\w-]*\d)(?=[\w-]*[A-Z])[\w-]{20,}|(?=[\w+/=-]*[A-Z])[\w+/=-]{40,}|[0-9a-f]{32,}|(?<=\/\/)[^/\s]*@|[?#](?!(?<=#)[\da-fA-F]{6}\b)[^\s,'"\]]+/g

/**
 * Returns the first line of a source text. Text that may be a secret is
 * replaced by dots.
 */
export function excerpt(source: string): string {
  const [line = ''] = source.trim().split(/\r?\n/, 1)
  const shown = line
    .replace(SUSPECT, found => '•'.repeat(found.length))
    .replaceAll(/\p{C}/gu, ' ')
  return shown.length < MAX_EXCERPT_CHARS
    ? shown
    : `${shown.slice(0, MAX_EXCERPT_CHARS)} …`
}
