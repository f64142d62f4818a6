// The config folder and the environment become settings, or one report of all that is wrong.
// The only file that reads `process.env`.

import { type Dirent, readdirSync, statSync } from 'node:fs'
import { basename, dirname, join, parse, relative, sep } from 'node:path'
import { withoutSecret } from './client-secret.ts'
import { overlays, parseSecrets, secretsFromEnvironment } from './environment.ts'
import { type FileResult, readFile } from './files.ts'
import { ConfigError, type Finding, inOrder, type Locate } from './report/finding.ts'
import { didYouMean } from './report/wording.ts'
import { clientFindings } from './rules/client.ts'
import { detailFindings } from './rules/details.ts'
import { readClientAuthorities } from './rules/files.ts'
import { type Picture, readLocales, readLook } from './rules/pages.ts'
import {
  featureFindings,
  importKeys,
  judgeIssuer,
  readAccounts,
  startFindings,
} from './rules/provider.ts'
import { resourceFindings } from './rules/resource.ts'
import { clientWarnings, providerWarnings, resourceWarnings } from './rules/warnings.ts'
import type { ClientMetadata } from './schema/client.ts'
import type { DetailFile } from './schema/details.ts'
import type { Locales } from './schema/locale.ts'
import type { ResourceFile } from './schema/resource.ts'
import type { ClaimsFile, UsherFile } from './schema/usher.ts'

/** All of `usher.yaml` under its own keys, and what follows from it and the other files. */
export interface Settings extends UsherFile {
  folder: string
  /** An origin, byte for byte what clients compare with. */
  issuer: string
  /** A loopback http issuer: generated secrets, the demo account and http redirects are allowed. */
  development: boolean
  listen: UsherFile['listen'] & { host: string }
  /** `module` is an absolute path; `digest` changes with its file. */
  accounts: UsherFile['accounts'] & { digest?: string }
  /** The first signs and seals, all verify and open; empty: to be made (development only). */
  secrets: Uint8Array[]
  /** Private keys of the operator's, as PKCS #8 PEM. */
  importedKeys: string[]
  /** Those of clients, PEM; empty: none. */
  clientAuthorities: string
  claims: ClaimsFile['claims']
  /** All scopes a client can ask for, with the operator's words for those that have some. */
  scopes: Record<string, { description?: string | Record<string, string> }>
  clients: ClientMetadata[]
  /** The pictures that the files name, by the path that they name. */
  pictures: Record<string, Picture>
  /** The files of pages/, by their names. */
  pages: Record<string, string>
  /** The operator's words for the pages. */
  locales: Locales
  /** Makes a finding in the file of a client, by its client_id. */
  clientFiles: Map<string, Locate>
  /** The protected APIs, by identifier. */
  resources: Record<string, ResourceFile>
  /** Makes a finding in the file of a resource, by its identifier. */
  resourceFiles: Map<string, Locate>
  /** The types of authorization details, by their names. */
  details: Record<string, DetailFile>
  /** What is allowed and unwise. */
  warnings: Finding[]
}

/** The folder as it is, right or wrong: `settings` is absent when there are findings. */
export type Reading = ReturnType<typeof readFolder>

/** Claims that the protocol itself sets (OIDC Core §2, §5.1; RFC 7519 §4.1). */
const PROTOCOL_CLAIMS = new Set(
  'sub iss aud exp iat nbf jti nonce auth_time acr amr azp sid at_hash c_hash s_hash'.split(' '),
)

export const configFolder = (env: NodeJS.ProcessEnv = process.env) => env.USHER_CONFIG || 'config'

/** As it is given; an empty one is not. */
export const variable = (name: string, env: NodeJS.ProcessEnv = process.env) =>
  env[name] || undefined

/** What it takes to open the store: an operator's commands work while a client file is wrong. */
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

/** Throws a `ConfigError` only when there is no folder to read. */
export function readFolder(env: NodeJS.ProcessEnv = process.env, folder = configFolder(env)) {
  const { usher, issuer, development, secrets, accounts, findings } = readUsher(env, folder)
  findings.push(...strayFindings(folder, accounts.module), ...featureFindings(usher))
  const importedKeys = importKeys(usher, findings)
  const clientAuthorities = readClientAuthorities(usher, findings)
  const claims = readFile(join(folder, 'claims.yaml'), 'claims')
  const listed = (name: string) => listYaml(join(folder, name), findings)
  const clients = listed('clients').map(file => readFile(file, 'client'))
  const look = readLook(usher, clients, folder, findings)
  const resources = listed('resources').map(file => readFile(file, 'resource'))
  const details = listed('details').map(file => readFile(file, 'detail'))
  const files = [claims, ...clients, ...resources, ...details]
  findings.push(...files.flatMap(({ findings }) => findings))
  const scopes = scopesOf(claims, findings)
  const loopbackIssuer = issuer === undefined ? undefined : development
  const { features, compatibility } = usher.parts
  const claimScopes = claims.value && scopes
  findings.push(
    ...clientFindings(clients, {
      scopes: withResources(claimScopes, resources),
      loopbackIssuer,
      features,
      compatibility,
      clientAuthorities,
    }),
    ...resourceFindings(resources, { clients, scopes: claimScopes, issuer, features }),
    ...detailFindings(details, { clients, resources }),
  )
  const locales = readLocales(listYaml(join(folder, 'locales'), findings), findings)
  const warnings = inOrder([
    ...look.warnings,
    ...(issuer ? providerWarnings(usher, development) : []),
    ...(issuer ? clients.flatMap(client => clientWarnings(client, development)) : []),
    ...resources.flatMap(resourceWarnings),
  ])

  const reading = { settings: undefined, findings, warnings, usher, claims, clients, resources }
  if (findings.length || !usher.value || !claims.value || !issuer) return reading
  const { listen } = usher.value
  const clientIds = clients.flatMap(({ parts }) => parts.client_id ?? [])
  const settings: Settings = {
    importedKeys,
    clientAuthorities: clientAuthorities ?? '',
    ...usher.value,
    folder,
    issuer,
    development,
    listen: { ...listen, host: listen.host ?? (development ? '127.0.0.1' : '0.0.0.0') },
    accounts,
    secrets,
    claims: claims.value.claims,
    scopes,
    pictures: look.pictures,
    pages: look.pages,
    locales,
    clients: clients.flatMap(({ value }) => (value ? [withoutSecret(value)] : [])),
    clientFiles: new Map(clients.map(({ parts, at }) => [parts.client_id ?? '', at])),
    resources: Object.fromEntries(
      resources.flatMap(({ value }) =>
        // A client that registered itself has to be named.
        value ? [[value.resource, { ...value, clients: value.clients ?? clientIds }]] : [],
      ),
    ),
    resourceFiles: new Map(resources.map(({ parts, at }) => [parts.resource ?? '', at])),
    details: Object.fromEntries(
      details.flatMap(({ value }) => (value ? [[value.type, value]] : [])),
    ),
    warnings,
  }
  return { ...reading, settings }
}

/** `issuer` is absent when it is wrong. */
function readUsher(env: NodeJS.ProcessEnv, folder: string) {
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
    const message = `there is no such folder${didYouMean(
      basename(folder),
      entriesOf(dirname(folder)).map(({ name }) => name),
    )}`
    throw new ConfigError([{ file: folder, rule: 'folder', message }])
  }
  const findings: Finding[] = []
  const { store, secret } = secretsFromEnvironment(env, findings)
  const usher = readFile(join(folder, 'usher.yaml'), 'usher', overlays(env, store))
  findings.push(...usher.findings)
  const secrets = parseSecrets(secret, findings)
  const accounts = readAccounts(usher, folder, findings)
  const { parts } = usher
  const isKnown = Object.hasOwn(parts, 'issuer')
  const issuer = parts.issuer ?? `http://localhost:${parts.listen?.port ?? 3000}`
  const { development, problem } = judgeIssuer(issuer)
  if (isKnown && problem) findings.push(usher.at(['issuer'], 'issuer', problem))
  const isRight = isKnown && !problem
  if (isRight) findings.push(...startFindings(usher, secret, development))
  const known = isRight ? issuer : undefined
  return { usher, issuer: known, development, secrets, accounts, findings }
}

/** What lies in the folder and is read by nobody: most likely a misspelt name. */
function strayFindings(folder: string, module = ''): Finding[] {
  const [ofModule] = relative(folder, module).split(sep)
  return entriesOf(folder).flatMap(entry => {
    // A mounted ConfigMap keeps what it shows in a folder called ..2026_11_21_….
    const isOurs = [...KNOWN, ofModule].includes(entry.name) || entry.name.startsWith('.')
    if (isOurs || !(isData(entry.name) || entry.isDirectory())) return []
    const message = `nothing reads this${didYouMean(entry.name, KNOWN)}`
    return [{ file: join(folder, entry.name), rule: 'stray-file', message }]
  })
}

/** None where it may not be read: its files will say so. */
function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
  } catch {
    return []
  }
}

const KNOWN = 'usher.yaml claims.yaml clients resources details locales pages schema'.split(' ')
const isData = (name: string) => /\.(ya?ml|json)$/i.test(name)

const NO_CLAIMS = 'offline_access carries no claims; give the claim a scope of its own'

function scopesOf(claims: FileResult<ClaimsFile>, findings: Finding[]): Settings['scopes'] {
  const scopes: Settings['scopes'] = { openid: {}, offline_access: {} }
  for (const [name, { scope }] of Object.entries(claims.value?.claims ?? {})) {
    scopes[scope] ??= {}
    if (PROTOCOL_CLAIMS.has(name)) {
      findings.push(
        claims.at(['claims', name], 'protocol-claim', 'is set by the protocol, not here'),
      )
    }
    if (scope === 'offline_access') {
      findings.push(claims.at(['claims', name, 'scope'], 'claim-scope', NO_CLAIMS))
    }
  }
  for (const [scope, { description }] of Object.entries(claims.value?.scopes ?? {})) {
    if (scopes[scope]) scopes[scope] = { description }
    else {
      const message = `no claim belongs to this scope${didYouMean(scope, Object.keys(scopes))}`
      findings.push(claims.at(['scopes', scope], 'unknown-scope', message))
    }
  }
  return scopes
}

/** All that a client can ask for; undefined while a file says wrong which there are. */
function withResources(scopes: object | undefined, resources: FileResult<ResourceFile>[]) {
  const theirs = resources.map(({ parts }) => parts.scopes)
  return theirs.includes(undefined) ? undefined : scopes && Object.assign({ ...scopes }, ...theirs)
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
