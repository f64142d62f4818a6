// Reads the config folder and the environment. Returns settings, or one report of all findings. No
// other file reads `process.env`.

import { readdirSync, statSync } from 'node:fs'
import { basename, dirname, join, parse, relative, sep } from 'node:path'
import { withoutSecret } from './client-secret.ts'
import { overlays, parseSecrets, secretsFromEnvironment } from './environment.ts'
import { type FileResult, isValid, readFile, type ValidFile } from './files.ts'
import { ConfigError, type Finding, inOrder, type Locate } from './report/finding.ts'
import { didYouMean } from './report/wording.ts'
import { entriesOf } from './report/yaml.ts'
import { clientFindings, clientNameFindings } from './rules/client.ts'
import { type Picture, readLook } from './rules/pages.ts'
import {
  checkIssuer,
  importKeys,
  readAccounts,
  readClientAuthorities,
  startFindings,
} from './rules/provider.ts'
import { detailFindings, resourceFindings } from './rules/resource.ts'
import { clientWarnings, providerWarnings, resourceWarnings } from './rules/warnings.ts'
import type { ClientMetadata } from './schema/client.ts'
import type { DetailFile } from './schema/details.ts'
import { flatten, type Locales } from './schema/locale.ts'
import type { ResourceFile } from './schema/resource.ts'
import type { ClaimsFile, UsherFile } from './schema/usher.ts'
import { tagProblem } from './schema/values.ts'

/** All keys of `usher.yaml`, and values from the environment and the other files. */
export interface Settings extends UsherFile {
  folder: string
  /** An origin. Clients compare it byte for byte. */
  issuer: string
  /** A loopback http issuer: generated secrets, the demo account and http redirects are allowed. */
  development: boolean
  listen: UsherFile['listen'] & { host: string }
  /** `module` is an absolute path. `digest` changes when the file does. */
  accounts: UsherFile['accounts'] & { digest?: string }
  /** The first encrypts and signs, all decrypt and verify. Empty: generate one (development only). */
  secrets: Uint8Array[]
  /** Private keys of the operator, as PKCS #8 PEM. */
  importedKeys: string[]
  /** Authorities of client certificates, PEM; empty if there are none. */
  clientAuthorities: string
  claims: ClaimsFile['claims']
  /** All scopes except those of APIs, with descriptions by the operator. */
  scopes: Record<string, { description?: string | Record<string, string> }>
  clients: ClientMetadata[]
  /** Pictures by their paths in the files. */
  pictures: Record<string, Picture>
  /** Contents of the files in pages/, by name. */
  pages: Record<string, string>
  /** Texts of the pages by the operator. */
  locales: Locales
  /** Makes a finding in the file of a client, by its client_id. */
  clientFiles: Map<string, Locate>
  /** The protected APIs, by identifier. */
  resources: Record<string, ResourceFile>
  /** Makes a finding in the file of a resource, by its identifier. */
  resourceFiles: Map<string, Locate>
  /** The types of authorization details, by their names. */
  details: Record<string, DetailFile>
  /** Settings that are valid but unsafe. */
  warnings: Finding[]
}

/** Result of reading the folder. `settings` is absent if there are findings. */
export type Reading = ReturnType<typeof readFolder>

/** Claims that the protocol itself sets (OIDC Core §2, §5.1; RFC 7519 §4.1). */
const PROTOCOL_CLAIMS = new Set(
  'sub iss aud exp iat nbf jti nonce auth_time acr amr azp sid at_hash c_hash s_hash'.split(' '),
)

/** Returns the path of the config folder. */
export const configFolder = (env: NodeJS.ProcessEnv = process.env) => env.USHER_CONFIG || 'config'

/** Returns an environment variable; undefined if it is empty. */
export const variable = (name: string, env: NodeJS.ProcessEnv = process.env) =>
  env[name] || undefined

/**
 * Returns the settings that open the store. Commands for operators work while a client file is wrong.
 * Throws a `ConfigError` for findings in usher.yaml or the environment.
 */
export function readStoreSettings(): Pick<Settings, 'store' | 'secrets' | 'redis' | 'accounts'> {
  const { usher, secrets, accounts, findings } = readUsher(process.env, configFolder())
  if (findings.length || !usher.value) throw new ConfigError(findings)
  const { store, redis } = usher.value
  return { store, secrets, redis, accounts }
}

/** Reads everything, or throws a `ConfigError` with every finding. */
export function readSettings(env?: NodeJS.ProcessEnv): Settings {
  const { settings, findings } = readFolder(env)
  if (!settings) throw new ConfigError(findings)
  return settings
}

/**
 * Reads and checks the folder in two steps. First, each file by itself. If every file is valid, the
 * rules that look at several keys and files follow. Throws a `ConfigError` only if there is no folder.
 */
export function readFolder(env: NodeJS.ProcessEnv = process.env, folder = configFolder(env)) {
  const { usher, accounts, development, issuer, secrets, findings } = readUsher(env, folder)
  const list = (name: string) => listYaml(join(folder, name), findings)
  const claims = readFile(join(folder, 'claims.yaml'), 'claims')
  const clients = list('clients').map(file => readFile(file, 'client'))
  const resources = list('resources').map(file => readFile(file, 'resource'))
  const types = list('details').map(file => readFile(file, 'detail'))
  const words = list('locales').map(file => readFile(file, 'locale'))
  for (const file of [claims, ...clients, ...resources, ...types, ...words]) {
    findings.push(...file.findings)
  }
  findings.push(...strayFindings(folder, accounts.module), ...words.flatMap(languageFindings))
  const reading = { settings: undefined, findings, warnings: [], usher, claims, clients, resources }
  if (findings.length || !isValid(usher) || !isValid(claims)) return reading

  const valid = {
    clients: clients.filter(isValid),
    resources: resources.filter(isValid),
    types: types.filter(isValid),
  }
  const { features, compatibility, listen } = usher.value
  const importedKeys = importKeys(usher, findings)
  const clientAuthorities = readClientAuthorities(usher, findings)
  const look = readLook([usher, ...valid.clients], folder, findings)
  const scopes = scopesOf(claims, findings)
  const apiScopes = valid.resources.flatMap(({ value }) => Object.keys(value.scopes))
  const surroundings = { features, compatibility, development, clientAuthorities }
  findings.push(
    ...clientNameFindings(valid.clients, [...Object.keys(scopes), ...apiScopes]),
    ...valid.clients.flatMap(client => clientFindings(client, surroundings)),
    ...resourceFindings({ ...valid, scopes, issuer, features }),
    ...detailFindings(valid),
  )
  const warnings = inOrder([
    ...providerWarnings(usher, development),
    ...valid.clients.flatMap(client => clientWarnings(client, development)),
    ...valid.resources.flatMap(resourceWarnings),
  ])
  if (findings.length) return { ...reading, warnings }
  const clientIds = valid.clients.map(({ value }) => value.client_id)
  const settings: Settings = {
    ...usher.value,
    folder,
    issuer,
    development,
    listen: { ...listen, host: listen.host ?? (development ? '127.0.0.1' : '0.0.0.0') },
    accounts,
    secrets,
    importedKeys,
    clientAuthorities,
    claims: claims.value.claims,
    scopes,
    pictures: look.pictures,
    pages: look.pages,
    locales: Object.fromEntries(words.map(({ file, value }) => [parse(file).name, flatten(value)])),
    clients: valid.clients.map(({ value }) => withoutSecret(value)),
    clientFiles: new Map(valid.clients.map(({ value, at }) => [value.client_id, at])),
    resources: Object.fromEntries(
      // A client that registered itself has to be named.
      valid.resources.map(({ value }) => [value.resource, { clients: clientIds, ...value }]),
    ),
    resourceFiles: new Map(valid.resources.map(({ value, at }) => [value.resource, at])),
    details: Object.fromEntries(valid.types.map(({ value }) => [value.type, value])),
    warnings,
  }
  return { ...reading, settings, warnings }
}

/** Reads usher.yaml and the environment. The results are usable only without findings. */
function readUsher(env: NodeJS.ProcessEnv, folder: string) {
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
    const siblings = entriesOf(dirname(folder)).map(({ name }) => name)
    const message = `folder not found${didYouMean(basename(folder), siblings)}`
    throw new ConfigError([{ file: folder, rule: 'folder', message }])
  }
  const findings: Finding[] = []
  const { store, secret } = secretsFromEnvironment(env, findings)
  const usher = readFile(join(folder, 'usher.yaml'), 'usher', overlays(env, store))
  findings.push(...usher.findings)
  const secrets = parseSecrets(secret, findings)
  const issuer = usher.value?.issuer ?? `http://localhost:${usher.value?.listen.port}`
  const { development, problem } = checkIssuer(issuer)
  const result = { usher, issuer, development, secrets, findings }
  if (!isValid(usher)) return { ...result, accounts: {} }
  if (problem) findings.push(usher.at(['issuer'], 'issuer', problem))
  else findings.push(...startFindings(usher, secret !== undefined, development))
  return { ...result, accounts: readAccounts(usher, folder, findings) }
}

/** Returns a finding for each entry of the folder that nothing reads: its name is probably misspelt. */
function strayFindings(folder: string, module = ''): Finding[] {
  const [ofModule] = relative(folder, module).split(sep)
  return entriesOf(folder).flatMap(entry => {
    // A mounted ConfigMap keeps its files in a folder named ..2026_11_21_….
    const isOurs = [...KNOWN, ofModule].includes(entry.name) || entry.name.startsWith('.')
    if (isOurs || !(isData(entry.name) || entry.isDirectory())) return []
    const message = `nothing reads this${didYouMean(entry.name, KNOWN)}`
    return [{ file: join(folder, entry.name), rule: 'stray-file', message }]
  })
}

function languageFindings({ file }: FileResult<unknown>): Finding[] {
  const problem = tagProblem(parse(file).name)
  return problem ? [{ file, rule: 'language', message: `the name ${problem}` }] : []
}

const KNOWN = 'usher.yaml claims.yaml clients resources details locales pages schema'.split(' ')
const isData = (name: string) => /\.(ya?ml|json)$/i.test(name)

const NO_CLAIMS = 'offline_access carries no claims; give the claim a scope of its own'

function scopesOf({ value, at }: ValidFile<ClaimsFile>, findings: Finding[]): Settings['scopes'] {
  const scopes: Settings['scopes'] = { openid: {}, offline_access: {} }
  for (const [name, { scope }] of Object.entries(value.claims)) {
    scopes[scope] ??= {}
    const path = ['claims', name]
    if (PROTOCOL_CLAIMS.has(name)) {
      findings.push(at(path, 'protocol-claim', 'is set by the protocol, not here'))
    }
    if (scope === 'offline_access') {
      findings.push(at([...path, 'scope'], 'claim-scope', NO_CLAIMS))
    }
  }
  for (const [scope, { description }] of Object.entries(value.scopes)) {
    if (scopes[scope]) scopes[scope] = { description }
    else {
      const message = `no claim belongs to this scope${didYouMean(scope, Object.keys(scopes))}`
      findings.push(at(['scopes', scope], 'unknown-scope', message))
    }
  }
  return scopes
}

function listYaml(folder: string, findings: Finding[]): string[] {
  try {
    const names = readdirSync(folder).filter(name => !name.startsWith('.'))
    const read = names.filter(name => name.endsWith('.yaml'))
    for (const name of names.filter(name => isData(name) && !read.includes(name))) {
      const message = `is not read: ${basename(folder)} are NAME.yaml; rename it to ${parse(name).name}.yaml`
      findings.push({ file: join(folder, name), rule: 'stray-file', message })
    }
    return read.sort().map(name => join(folder, name))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
      findings.push({ file: folder, rule: 'folder', message: 'cannot be read as a folder' })
    }
    return []
  }
}
