// Environment variables. They replace keys of the files.

import { type Finding, wrongVariable } from './report/finding.ts'
import { meant, noEffect } from './report/wording.ts'
import { readText } from './report/yaml.ts'

const MIN_SECRET_BYTES = 32
/** The requirement on secrets, with the command that fulfils it. */
export const RANDOM = `must be at least 32 random bytes as base64url: openssl rand -base64 32 | tr '+/' '-_' | tr -d =`

/** The keys that variables replace. */
export const VARIABLES: Record<string, string> = {
  USHER_ISSUER: 'issuer',
  PORT: 'listen.port',
  HOST: 'listen.host',
  USHER_METRICS_PORT: 'metrics.port',
  USHER_STORE: 'store',
}

/** All variables of Usher that begin with its name. */
const READ = [
  ...Object.keys(VARIABLES).filter(name => name.startsWith('USHER_')),
  'USHER_CONFIG',
  'USHER_SECRET',
  'USHER_SECRET_FILE',
  'USHER_STORE_FILE',
]

/** Whether a variable was meant for Usher. Kubernetes sets `USHER_PORT…` and `USHER_SERVICE_…` for a service `usher`. */
const isOfUsher = (name: string) => /^USHER_(?!PORT|SERVICE_)/.test(name) && !READ.includes(name)

const withoutPrefix = (name: string) => name.replace(/^USHER_/, '')

/** Values that replace keys of usher.yaml, by the path of the key. `name` is the variable. */
export type Overlays = Map<string, { name: string; value: unknown }>

/**
 * Returns the values that replace keys, and the secrets, of the environment or of the files that `…_FILE`
 * variables name. An empty variable is ignored.
 */
export function readEnvironment(env: NodeJS.ProcessEnv, findings: Finding[]) {
  const read = (name: string) => {
    const file = env[`${name}_FILE`]
    if (!file) return env[name] || undefined
    const twice = `is given twice, as ${name}_FILE too: unset one of them`
    if (env[name]) findings.push(wrongVariable(name, 'given-twice', twice))
    const { text, problem } = readText(file)
    if (problem) findings.push(wrongVariable(`${name}_FILE`, 'file', `its file ${problem}`))
    return text?.trim()
  }
  for (const name of Object.keys(env)) {
    const near = isOfUsher(name) && meant(withoutPrefix(name), READ.map(withoutPrefix))
    const unread = noEffect(`nothing reads it; did you mean USHER_${near}?`)
    if (near) findings.push(wrongVariable(name, 'no-effect', unread))
  }
  const secret = read('USHER_SECRET')
  const overlays: Overlays = new Map()
  for (const [name, path] of Object.entries(VARIABLES)) {
    const text = name === 'USHER_STORE' ? read(name) : env[name]
    const isPort = path.endsWith('.port') && /^\d+$/.test(text ?? '')
    if (text) overlays.set(path, { name, value: isPort ? Number(text) : text })
  }
  const variable = env.USHER_SECRET_FILE ? 'USHER_SECRET_FILE' : 'USHER_SECRET'
  const secrets = parseSecrets(variable, secret, findings)
  return { overlays, hasSecret: secret !== undefined, secrets }
}

/** Returns the bytes of secrets in base64url, separated by commas or spaces. Findings never quote them. */
function parseSecrets(name: string, text: string | undefined, findings: Finding[]): Uint8Array[] {
  const parts = text?.split(/[\s,]+/).filter(Boolean) ?? []
  if (text !== undefined && !parts.length) parts.push('')
  return parts.flatMap((part, i) => {
    const bytes = Buffer.from(part, 'base64url')
    if (/^[\w-]+=*$/.test(part) && bytes.length >= MIN_SECRET_BYTES) return [bytes]
    const which = parts.length > 1 ? `number ${i + 1} ` : ''
    findings.push(wrongVariable(name, 'secret', `${which}${RANDOM}`))
    return []
  })
}
