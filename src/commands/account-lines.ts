// Accounts in a file, for import and export: lines of JSON, or a table.

import { didYouMean, plainWords } from '../config/report/wording.ts'
import {
  type Account,
  InvalidAccount,
  type Transfer,
  transferSchema,
} from '../sign-in/account.ts'
import { isMap, readJson } from '../store/values.ts'
import { jsonForTerminal } from './output.ts'

/** Returns an account as a line of JSON. */
export function writeLine({
  password: password_hash,
  ...account
}: Account): string {
  return `${jsonForTerminal(JSON.stringify({ ...account, password_hash }))}\n`
}

/**
 * Returns the account of a line. Throws `InvalidAccount` for an invalid one.
 */
export function readLine(line: string): Transfer {
  if (line.includes('\uFFFD')) throw new InvalidAccount('is not UTF-8')
  const value: unknown = readJson(line)
  if (value === undefined)
    throw new InvalidAccount('is not JSON: one object a line, and nothing else')
  const { data, error } = transferSchema.safeParse(value, { error: plainWords })
  if (data) return data
  throw new InvalidAccount(error.issues.map(inWords).join('; '))
}

/**
 * Returns the lines of a file, each with the JSON of an account. The file has
 * them, or it is a table (CSV, RFC 4180) with a header, whose columns are keys
 * of `transferSchema`, with `username`, `groups` and `attributes.NAME`. Throws
 * `InvalidAccount` for text that is neither.
 */
export function linesIn(content: string): string[] {
  // Some systems begin a file with a byte order mark.
  const text = content.replace(/^\uFEFF/, '')
  if (!/^\s*[^\s{[]/.test(text)) return text.split('\n')
  const [, separator = ','] = /^[^\n]*?([,;\t])/.exec(text) ?? []
  const cell = new RegExp(
    `(?:"((?:[^"]|""){0,65536})"|([^"${separator}\\r\\n]*))(${separator}|\\r?\\n|$)`,
    'gy',
  )
  const rows: string[][] = [[]]
  let read = 0
  for (const [all, quoted, plain = '', end] of text.matchAll(cell)) {
    read += all.length
    rows.at(-1)?.push(quoted?.replaceAll('""', '"') ?? plain.trim())
    if (end && end !== separator) rows.push([])
  }
  const [first = [], ...others] = rows
  const header = first.map(
    cell => KNOWN.find(key => key === cell.toLowerCase()) ?? cell,
  )
  if (!header.includes('username')) throw new InvalidAccount(NO_USERNAME)
  const lines = others.map(cells =>
    cells.some(Boolean) ? jsonOf(header, cells) : '',
  )
  // A quote that is not closed: the rest is a wrong line.
  return ['', ...lines, ...(read < text.length ? [text.slice(read)] : [])]
}

const NO_USERNAME =
  'The first line is no JSON, and does not name the columns of a table: a table has a column username.'
/** Columns whose values are texts. The others have JSON. */
const TEXTS: string[] = ['id', 'username', 'name', 'email', 'password_hash']

/** Returns a row of a table as JSON. An empty cell is absent. */
function jsonOf(header: string[], cells: string[]): string {
  const account: Record<string, unknown> = {}
  const attributes: Record<string, unknown> = {}
  for (const [i, text] of cells.entries()) {
    const name = header[i] ?? `column ${i + 1}`
    const [, attribute = ''] = /^attributes\.(.+)$/.exec(name) ?? []
    if (!text) continue
    if (name === 'groups') attributes.groups = text.split(/ *[;,] */)
    else if (attribute) attributes[attribute] = text
    else account[name] = TEXTS.includes(name) ? text : (readJson(text) ?? text)
  }
  const { attributes: own = {} } = account
  return JSON.stringify({
    ...account,
    attributes: isMap(own) ? { ...own, ...attributes } : own,
  })
}

function inWords(issue: Issue): string {
  if (issue.code !== 'unrecognized_keys')
    return [...issue.path, issue.message].join(': ')
  return issue.keys
    .map(key => `${key}: unknown key${suggestion(key)}`)
    .join('; ')
}

type Issue = NonNullable<
  ReturnType<typeof transferSchema.safeParse>['error']
>['issues'][number]

const KNOWN = Object.keys(transferSchema.shape)
const suggestion = (key: string) =>
  key === 'password'
    ? '; a hash stands in password_hash'
    : didYouMean(key, KNOWN)
