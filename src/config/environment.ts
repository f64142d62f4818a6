// What the environment says, which wins over the files.

import { readFileSync } from 'node:fs'
import type { Overlay } from './files.ts'
import { type Finding, wrongVariable } from './report.ts'

const SHORTEST_SECRET = 32

/** The settings it replaces. */
export function overlays(env: NodeJS.ProcessEnv, store: string | undefined): Overlay[] {
  const number = (text = '') => (/^\d+$/.test(text) ? Number(text) : text || undefined)
  const table: Overlay[] = [
    { name: 'USHER_ISSUER', path: ['issuer'], value: env.USHER_ISSUER || undefined },
    { name: 'PORT', path: ['listen', 'port'], value: number(env.PORT) },
    { name: 'HOST', path: ['listen', 'host'], value: env.HOST || undefined },
    {
      name: 'USHER_METRICS_PORT',
      path: ['metrics', 'port'],
      value: number(env.USHER_METRICS_PORT),
    },
    { name: 'USHER_STORE', path: ['store'], value: store },
  ]
  return table.filter(({ value }) => value !== undefined)
}

/** Each may come from a file instead, named by its `…_FILE` twin. */
export function secretsFromEnvironment(env: NodeJS.ProcessEnv, findings: Finding[]) {
  const read = (name: string) => {
    const file = env[`${name}_FILE`]
    if (!file) return env[name] || undefined
    if (env[name]) findings.push(wrongVariable(name, `is given twice, as ${name}_FILE too`))
    try {
      return readFileSync(file, 'utf8').trim()
    } catch {
      findings.push(wrongVariable(`${name}_FILE`, 'cannot be read'))
      return undefined
    }
  }
  return { store: read('USHER_STORE'), secret: read('USHER_SECRET') }
}

/** base64url values, separated by commas or white space; what they are is never repeated. */
export function parseSecrets(text: string | undefined, findings: Finding[]): Uint8Array[] {
  const parts = text?.split(/[\s,]+/).filter(Boolean) ?? []
  if (text !== undefined && !parts.length) {
    findings.push(wrongVariable('USHER_SECRET', 'is empty'))
  }
  return parts.flatMap((part, i) => {
    const bytes = Buffer.from(part, 'base64url')
    if (/^[\w-]+=*$/.test(part) && bytes.length >= SHORTEST_SECRET) return [bytes]
    const which = parts.length > 1 ? `number ${i + 1} ` : ''
    const message = `${which}must be at least 32 random bytes as base64url: openssl rand -base64 32 | tr '+/' '-_' | tr -d =`
    findings.push(wrongVariable('USHER_SECRET', message))
    return []
  })
}
