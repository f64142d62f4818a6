// Environment variables. They replace keys of the files. No other file reads
// `process.env`.

import { readText } from './disk.ts'
import { type Finding, wrongVariable } from './report/finding.ts'
import { meant, noEffect } from './report/wording.ts'

/** The variables of this process. */
export const ENVIRONMENT = process.env

/** Returns an environment variable; undefined if it is empty. */
export const variable = (name: string) => ENVIRONMENT[name] || undefined

/** Returns the path of the config folder. */
export const configFolder = (env = ENVIRONMENT) => env.USHER_CONFIG || 'config'

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

/**
 * Whether a variable was meant for Usher. Kubernetes sets `USHER_PORT…` and
 * `USHER_SERVICE_…` for a service `usher`.
 */
const isOfUsher = (name: string) =>
  /^USHER_(?!PORT|SERVICE_)/.test(name) && !READ.includes(name)

const withoutPrefix = (name: string) => name.replace(/^USHER_/, '')

/**
 * Values that replace keys of usher.yaml, by the path of the key. `name` is the
 * variable.
 */
export type Overlays = Map<string, { name: string; value: unknown }>

/**
 * Returns the values that replace keys, and the secrets, of the environment or
 * of the files that `…_FILE` variables name. An empty variable is ignored.
 */
export function readEnvironment(env: NodeJS.ProcessEnv, findings: Finding[]) {
  findings.push(...unreadVariables(env))
  const secret = readVariable(env, 'USHER_SECRET', findings)
  const overlays: Overlays = new Map()
  for (const [name, path] of Object.entries(VARIABLES)) {
    const text =
      name === 'USHER_STORE' ? readVariable(env, name, findings) : env[name]
    if (text) overlays.set(path, { name, value: portOrText(text, path) })
  }
  const variable = env.USHER_SECRET_FILE ? 'USHER_SECRET_FILE' : 'USHER_SECRET'
  const secrets = parseSecrets(variable, secret, findings)
  return { overlays, hasSecret: secret !== undefined, secrets }
}

/** Returns a warning for each variable whose name is probably misspelt. */
function unreadVariables(env: NodeJS.ProcessEnv): Finding[] {
  return Object.keys(env).flatMap(name => {
    const near =
      isOfUsher(name) && meant(withoutPrefix(name), READ.map(withoutPrefix))
    if (!near) return []
    const message = noEffect(`nothing reads it; did you mean USHER_${near}?`)
    return [wrongVariable(name, 'no-effect', message)]
  })
}

/**
 * Returns the value of a variable, or the content of the file that its `…_FILE`
 * twin names.
 */
function readVariable(
  env: NodeJS.ProcessEnv,
  name: string,
  findings: Finding[],
) {
  const file = env[`${name}_FILE`]
  if (!file) return env[name] || undefined
  const twice = `is given twice, as ${name}_FILE too: unset one of them`
  if (env[name]) findings.push(wrongVariable(name, 'given-twice', twice))
  const { text, problem } = readText(file)
  if (problem)
    findings.push(wrongVariable(`${name}_FILE`, 'file', `its file ${problem}`))
  return text?.trim()
}

/** A port is a number, also in a variable. */
const portOrText = (text: string, path: string) =>
  path.endsWith('.port') && /^\d+$/.test(text) ? Number(text) : text

/**
 * Returns the bytes of secrets in base64url, separated by commas or spaces.
 * Findings never quote them.
 */
function parseSecrets(
  name: string,
  text: string | undefined,
  findings: Finding[],
): Uint8Array[] {
  if (text === undefined) return []
  const parts = text.split(/[\s,]+/).filter(Boolean)
  // An empty text is a secret that is too short.
  const written = parts.length ? parts : ['']
  const secrets: Uint8Array[] = []
  for (const [i, part] of written.entries()) {
    const bytes = Buffer.from(part, 'base64url')
    const which = written.length > 1 ? `number ${i + 1} ` : ''
    if (/^[\w-]+=*$/.test(part) && bytes.length >= MIN_SECRET_BYTES)
      secrets.push(bytes)
    else findings.push(wrongVariable(name, 'secret', `${which}${RANDOM}`))
  }
  return secrets
}
