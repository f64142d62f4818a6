// Reads the config folder and the environment. Returns settings, or one report
// of all findings.
//
// The folder config/: files and variables become settings, or one report.
// Not here: what a setting does.
//
//   1  the variables, and usher.yaml            readUsher; environment.ts
//   2  each other file by itself                readFiles; files.ts, schema/
//   3  settings, and the files that they name   settingsOf, if every file is valid
//   4  rules about several keys and files       sharedFindings, clientFindings; rules/
//   5  the settings, or all findings            report/

import { statSync } from 'node:fs'
import { basename, join, parse, relative, sep } from 'node:path'
import { LOOPBACK_HOSTS } from '../oidc/vocabulary.ts'
import { pause } from '../store/turns.ts'
import { entriesOf } from './disk.ts'
import { configFolder, ENVIRONMENT, readEnvironment } from './environment.ts'
import {
  type FileResult,
  isValid,
  namesakes,
  readFile,
  type ValidFile,
} from './files.ts'
import { ConfigError, type Finding, inOrder } from './report/finding.ts'
import { isProblem, strayFile, unknownNames } from './report/wording.ts'
import { readClientAuthorities } from './rules/certificates.ts'
import { clientFindings, OF_PROTOCOL } from './rules/client.ts'
import { noEffectFindings } from './rules/no-effect.ts'
import { logoFindings, readLook } from './rules/pages.ts'
import { detailFindings, resourceFindings } from './rules/resource.ts'
import { importKeys } from './rules/signing-keys.ts'
import {
  methodFindings,
  readUpstreams,
  upstreamFindings,
} from './rules/upstream.ts'
import { readModule, usherFindings } from './rules/usher.ts'
import { type ClientMetadata, withoutSecret } from './schema/client.ts'
import { flatten } from './schema/locale.ts'
import { normalUri } from './schema/resource.ts'
import { acrValuesOf } from './schema/upstream.ts'
import {
  type ClaimsFile,
  PROTOCOL_CLAIMS,
  type UsherFile,
  usherSchema,
} from './schema/usher.ts'
import { tagProblem } from './schema/values.ts'

/** Kinds of files that have a folder each, in the plural. */
type FolderKind = 'client' | 'resource' | 'detail' | 'upstream' | 'locale'

/** Result of reading the folder. `settings` is absent if there are findings. */
export type Reading = Awaited<ReturnType<typeof readFolder>>

/**
 * All keys of `usher.yaml`, and values from the environment and the other
 * files.
 */
export type Settings = NonNullable<Reading['settings']>

type StoreSettings = Pick<
  Settings,
  'store' | 'secrets' | 'redis' | 'accounts' | 'mail'
>

/**
 * Returns the settings that open the store. Commands for operators work while a
 * client file is wrong. Throws a `ConfigError` for findings in usher.yaml or
 * the environment.
 */
export function readStoreSettings(): StoreSettings {
  const { usher, secrets, accounts, findings } = readUsher(
    ENVIRONMENT,
    configFolder(),
  )
  const problems = findings.filter(isProblem)
  if (problems.length || !usher.value) throw new ConfigError(problems)
  return { ...usher.value, secrets, accounts }
}

/**
 * Returns what opens the store although other keys of usher.yaml are wrong: a
 * running service still uses the file as it was. Undefined if the store or its
 * secret is not known.
 */
export function readStoreKeys() {
  const { usher, secrets, findings } = readUsher(ENVIRONMENT, configFolder())
  const { store, redis } = usher.written
  const { data } = storeKeys.safeParse({ store, redis })
  // A file that is no YAML has no keys: only the environment names the store.
  const isRead =
    store !== undefined || !findings.some(({ rule }) => rule === 'yaml')
  const isSecretWrong = findings.some(({ file }) => file === 'environment')
  return data && isRead && !isSecretWrong ? { ...data, secrets } : undefined
}
const storeKeys = usherSchema.pick({ store: true, redis: true })

/** Reads everything, or throws a `ConfigError` with every finding. */
export async function readSettings(env?: NodeJS.ProcessEnv): Promise<Settings> {
  const { settings, findings } = await readFolder(env)
  if (!settings) throw new ConfigError(findings)
  return settings
}

/**
 * Reads and checks the folder: first, each file by itself; if every file is
 * valid, the rules that look at several keys and files. Requests are answered
 * meanwhile. Throws a `ConfigError` only if there is no folder.
 */
export async function readFolder(
  env: NodeJS.ProcessEnv = ENVIRONMENT,
  folder = configFolder(env),
) {
  const start = readUsher(env, folder)
  const { usher, findings } = start
  const files = await readFiles(usher, folder, findings)
  findings.push(...strayFindings(folder, start.accounts.module))
  const problems = findings.filter(isProblem)
  const { claims, clients } = files
  const reading = {
    settings: undefined,
    findings: problems,
    warnings: [],
    usher,
    claims,
    clients,
  }
  if (problems.length || !isValid(usher) || !isValid(claims)) return reading

  const valid = { ...files, usher, claims }
  const settings = await settingsOf(valid, start, folder)
  await pause()
  findings.push(...sharedFindings(valid, settings))
  for (const client of clients) {
    await pause()
    findings.push(...clientFindings(client, settings))
  }
  findings.push(
    ...noEffectFindings({ ...valid, pages: settings.pages }, folder),
  )
  const wrong = findings.filter(isProblem)
  const warnings = inOrder(findings.filter(one => !isProblem(one)))
  const right = wrong.length ? undefined : { ...settings, warnings }
  return { ...reading, findings: wrong, warnings, settings: right }
}

/**
 * Reads all files except usher.yaml. Returns those of the folders that are
 * valid.
 */
async function readFiles(
  usher: FileResult<UsherFile>,
  folder: string,
  findings: Finding[],
) {
  async function readKind<K extends FolderKind>(
    kind: K,
    defaults?: FileResult<UsherFile>,
  ) {
    const files: ReturnType<typeof readFile<K>>[] = []
    for (const file of listYaml(join(folder, `${kind}s`), findings)) {
      await pause()
      files.push(readFile(file, kind, findings, undefined, defaults))
    }
    return files.filter(isValid)
  }
  return {
    claims: readFile(join(folder, 'claims.yaml'), 'claims', findings),
    clients: await readKind('client', usher),
    apis: await readKind('resource'),
    details: await readKind('detail'),
    upstreams: await readKind('upstream'),
    words: await readKind('locale'),
  }
}

/** The files of the folder, if all are valid. */
type Files = Awaited<ReturnType<typeof readFiles>> & {
  usher: ValidFile<UsherFile>
  claims: ValidFile<ClaimsFile>
}

/**
 * Returns the settings, and reads the files that they name. Adds what is wrong
 * with those to the findings.
 */
async function settingsOf(
  files: Files,
  start: ReturnType<typeof readUsher>,
  folder: string,
) {
  const { usher, claims, clients, apis, details, upstreams, words } = files
  const { accounts, development, issuer, secrets, findings } = start
  const { listen, keys, sign_in } = usher.value
  const loopback = issuer.startsWith('http://[::1]') ? '::1' : '127.0.0.1'
  const clientIds = clients.map(({ value }) => value.client_id)
  const issuers = readUpstreams(upstreams, folder, findings)
  return {
    ...usher.value,
    folder,
    /** An origin. Clients compare it byte for byte. */
    issuer,
    /** Where the settings come from. */
    sources: {
      /** The variable or the line that decides the issuer. */
      issuer:
        usher.origin(['issuer']) ??
        usher.origin(['listen', 'port']) ??
        'default',
      parts: partsOf(files, folder),
    },
    /**
     * The paths of the files of clients, by client_id, and of APIs, by
     * identifier.
     */
    files: {
      clients: Object.fromEntries(
        clients.map(({ value, file }) => [value.client_id, file]),
      ),
      resources: Object.fromEntries(
        apis.map(({ value, file }) => [value.resource, file]),
      ),
    },
    /**
     * A loopback http issuer: generated secrets, the demo account and http
     * redirects are allowed.
     */
    development,
    listen: { ...listen, host: listen.host ?? (development ? loopback : '::') },
    /** `module` is an absolute path. `digest` changes when the file does. */
    accounts,
    /**
     * The first encrypts and signs, all decrypt and verify. Empty: generate one
     * (development only).
     */
    secrets,
    keys: {
      ...keys,
      module: readModule(usher, 'keys', folder, findings).module,
    },
    /** Private keys of the operator, as PKCS #8 PEM. */
    importedKeys: importKeys(usher, findings),
    /** Authorities of client certificates, PEM; empty if there are none. */
    clientAuthorities: readClientAuthorities(usher, findings),
    claims: claims.value.claims,
    scopes: scopesOf(claims, findings),
    /**
     * `pictures` by their paths in the files. `pages`: contents of the files in
     * pages/, by name.
     */
    ...(await readLook([usher, ...clients, ...upstreams], folder, findings)),
    /** Texts of the pages by the operator. */
    locales: Object.fromEntries(
      words.map(({ file, value }) => [parse(file).name, flatten(value)]),
    ),
    clients: clients.map(({ value }): ClientMetadata => withoutSecret(value)),
    /**
     * The protected APIs, by identifier. A client that registered itself has to
     * be named.
     */
    resources: Object.fromEntries(
      apis.map(({ value }) => [
        value.resource,
        { clients: clientIds, ...value },
      ]),
    ),
    /** The types of authorization details, by their names. */
    details: Object.fromEntries(
      details.map(({ value }) => [value.type, value]),
    ),
    /** The issuers at which users sign in, by the names of their files. */
    upstreams: issuers,
    /** Values of `acr` that a sign-in can have. */
    acrValues: acrValuesOf(issuers, sign_in),
  }
}

/**
 * Returns the files with content, and the folders with such files. A running
 * service refuses to lose one.
 */
function partsOf(files: Files, folder: string): string[] {
  const { usher, claims, clients, apis, details, upstreams } = files
  const all = [usher, claims, ...clients, ...apis, ...details, ...upstreams]
  const written = all.filter(({ isEmpty }) => !isEmpty)
  const parts = written.map(
    ({ file }) => relative(folder, file).split(sep)[0] ?? '',
  )
  return [...new Set(parts)]
}

/** Returns the findings about several files, except those about each client. */
function sharedFindings(
  files: Files,
  settings: Awaited<ReturnType<typeof settingsOf>>,
): Finding[] {
  const { usher, clients, apis, details, upstreams, words } = files
  return [
    ...logoFindings(usher, settings.pictures),
    ...words.flatMap(languageFindings),
    ...namesakes(clients, 'client_id', 'client'),
    ...namesakes(apis, 'resource', 'resource', normalUri),
    ...namesakes(details, 'type', 'type'),
    ...resourceFindings(apis, clients, settings),
    ...detailFindings(details, clients, apis),
    ...upstreams.flatMap(file => upstreamFindings(file, settings)),
    ...methodFindings(usher, clients, settings.upstreams),
  ]
}

/**
 * Reads usher.yaml and the environment. The results are usable only without
 * findings.
 */
function readUsher(env: NodeJS.ProcessEnv, folder: string) {
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
    throw new ConfigError([
      { file: folder, rule: 'folder', message: 'folder not found' },
    ])
  }
  const findings: Finding[] = []
  const { overlays, secrets, hasSecret } = readEnvironment(env, findings)
  const usher = readFile(
    join(folder, 'usher.yaml'),
    'usher',
    findings,
    overlays,
  )
  const issuer =
    usher.value?.issuer ?? `http://localhost:${usher.value?.listen.port ?? ''}`
  const { protocol, hostname } = new URL(issuer)
  const development = protocol === 'http:' && LOOPBACK_HOSTS.has(hostname)
  const { self_service = [] } = usher.value?.accounts ?? {}
  const accounts = {
    self_service,
    ...readModule(usher, 'accounts', folder, findings),
  }
  if (isValid(usher))
    findings.push(...usherFindings(usher, { hasSecret, development }))
  return { usher, issuer, development, secrets, findings, accounts }
}

/** Returns a finding for each entry of the folder that nothing reads. */
function strayFindings(folder: string, module = ''): Finding[] {
  const [ofModule] = relative(folder, module).split(sep)
  const names = entryNames(folder).filter(
    name => ![...KNOWN, ofModule].includes(name),
  )
  return names.map(name => strayFile(join(folder, name), KNOWN))
}

function languageFindings({ file }: FileResult<unknown>): Finding[] {
  const problem = tagProblem(parse(file).name)
  return problem
    ? [{ file, rule: 'language', message: `the name ${problem}` }]
    : []
}

const KNOWN = [
  'usher.yaml',
  'claims.yaml',
  'clients',
  'resources',
  'details',
  'upstreams',
  'locales',
  'pages',
  'schema',
]

/**
 * Returns the names of YAML and JSON files and of folders, except those that a
 * mounted ConfigMap hides.
 */
function entryNames(folder: string, findings?: Finding[]): string[] {
  const entries = entriesOf(folder, findings).filter(
    ({ name }) => !name.startsWith('.'),
  )
  const ours = entries.filter(
    one => one.isDirectory() || /\.(ya?ml|json)$/i.test(one.name),
  )
  return ours.map(({ name }) => name).sort()
}

const UNCLAIMED = ['unknown-scope', 'no claim belongs to this scope'] as const
const NO_CLAIMS =
  'offline_access carries no claims; give the claim a scope of its own'

/**
 * Returns all scopes except those of APIs, with descriptions by the operator.
 */
function scopesOf(
  { value: { claims, scopes }, at }: ValidFile<ClaimsFile>,
  findings: Finding[],
) {
  const names = [
    'openid',
    'offline_access',
    ...Object.values(claims).map(({ scope }) => scope),
  ]
  for (const [name, { scope }] of Object.entries(claims)) {
    const path = ['claims', name]
    if (PROTOCOL_CLAIMS.has(name))
      findings.push(at(path, 'protocol-claim', OF_PROTOCOL))
    if (scope === 'offline_access')
      findings.push(at([...path, 'scope'], 'claim-scope', NO_CLAIMS))
  }
  for (const name of Object.keys(scopes)) {
    findings.push(...unknownNames(at, ['scopes', name], name, names, UNCLAIMED))
  }
  return Object.fromEntries(names.map(name => [name, { ...scopes[name] }]))
}

function listYaml(folder: string, findings: Finding[]): string[] {
  const names = entryNames(folder, findings)
  for (const name of names.filter(name => !name.endsWith('.yaml'))) {
    const message = `is not read: only ${basename(folder)}/NAME.yaml is`
    findings.push({ file: join(folder, name), rule: 'stray-file', message })
  }
  return names
    .filter(name => name.endsWith('.yaml'))
    .map(name => join(folder, name))
}
