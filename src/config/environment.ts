// What the environment says, which wins over the files.

import type { Overlay } from './files.ts'
import { type Finding, wrongVariable } from './report/finding.ts'
import { readText } from './report/yaml.ts'

export const SHORTEST_SECRET = 32
export const RANDOM = `must be at least 32 random bytes as base64url: openssl rand -base64 32 | tr '+/' '-_' | tr -d =`

/** The keys that variables replace. */
export const VARIABLES: Record<string, string> = {
  USHER_ISSUER: 'issuer',
  PORT: 'listen.port',
  HOST: 'listen.host',
  USHER_METRICS_PORT: 'metrics.port',
  USHER_STORE: 'store',
}

/** Those that replace no key. */
// biome-ignore format: a table
export const OTHER_VARIABLES: Record<string, string> = {
  USHER_CONFIG: 'The folder; absent: config',
  USHER_STORE_FILE: 'A file that holds USHER_STORE',
  USHER_SECRET: 'What the store is sealed with: at least 32 random bytes as base64url. Several, with a space between: the first seals, all open. Absent, a loopback issuer on SQLite makes one and keeps it beside the store',
  USHER_SECRET_FILE: 'A file that holds USHER_SECRET',
}

/** An empty variable is not given. */
export function overlays(env: NodeJS.ProcessEnv, store: string | undefined): Overlay[] {
  return Object.entries(VARIABLES).flatMap(([name, key]) => {
    const text = name === 'USHER_STORE' ? store : env[name]
    const isPort = key.endsWith('.port') && /^\d+$/.test(text ?? '')
    return text ? [{ name, path: key.split('.'), value: isPort ? Number(text) : text }] : []
  })
}

/** Each may come from a file instead, named by its `…_FILE` twin. */
export function secretsFromEnvironment(env: NodeJS.ProcessEnv, findings: Finding[]) {
  const read = (name: string) => {
    const file = env[`${name}_FILE`]
    if (!file) return env[name] || undefined
    const twice = `is given twice, as ${name}_FILE too: unset one of them`
    if (env[name]) findings.push(wrongVariable(name, 'given-twice', twice))
    const { text, problem } = readText(file)
    if (problem) findings.push(wrongVariable(`${name}_FILE`, 'file', `its file ${problem}`))
    return text?.trim()
  }
  return { store: read('USHER_STORE'), secret: read('USHER_SECRET') }
}

/** base64url values, separated by commas or white space; what they are is never repeated. */
export function parseSecrets(text: string | undefined, findings: Finding[]): Uint8Array[] {
  const parts = text?.split(/[\s,]+/).filter(Boolean) ?? []
  if (text !== undefined && !parts.length) {
    findings.push(wrongVariable('USHER_SECRET', 'secret', `is empty; ${RANDOM}`))
  }
  return parts.flatMap((part, i) => {
    const bytes = Buffer.from(part, 'base64url')
    if (/^[\w-]+=*$/.test(part) && bytes.length >= SHORTEST_SECRET) return [bytes]
    const which = parts.length > 1 ? `number ${i + 1} ` : ''
    findings.push(wrongVariable('USHER_SECRET', 'secret', `${which}${RANDOM}`))
    return []
  })
}
