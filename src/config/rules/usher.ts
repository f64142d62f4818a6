// Rules about usher.yaml that look at several keys, the environment, and the
// files that it names.

import { hash } from 'node:crypto'
import { resolve } from 'node:path'
import { isMethodUsed, PASSWORD } from '../../oidc/vocabulary.ts'
import { readBytes } from '../disk.ts'
import { RANDOM } from '../environment.ts'
import type { FileResult, ValidFile } from '../files.ts'
import { type Finding, wrongVariable } from '../report/finding.ts'
import type { UsherFile } from '../schema/usher.ts'
import { certificateFindings, unreadable } from './certificates.ts'
import { brokenRules, itemsWhere, type Rule } from './rule.ts'

type Usher = ValidFile<UsherFile>

/** Values that the rules look at beside the file. */
interface Surroundings {
  /** The environment has a USHER_SECRET, right or wrong. */
  hasSecret: boolean
  /** The issuer is http on loopback. */
  development: boolean
}

type UsherRule = Rule<UsherFile, Surroundings>

/**
 * Returns the findings about usher.yaml and the environment, with the warnings.
 */
export function usherFindings(
  usher: Usher,
  surroundings: Surroundings,
): Finding[] {
  return [
    ...secretFindings(usher.value, surroundings),
    ...fileFindings(usher, surroundings),
    ...brokenRules(RULES, usher, surroundings),
    ...unmetFeatures(usher),
  ]
}

const isSqlite = ({ store }: UsherFile) => store.startsWith('sqlite:')

const NO_SECRET = `is required, or a file that contains it in USHER_SECRET_FILE: only a loopback http issuer with SQLite gets a generated one. It ${RANDOM}`

function secretFindings(
  usher: UsherFile,
  { hasSecret, development }: Surroundings,
): Finding[] {
  const isGenerated = development && isSqlite(usher)
  if (hasSecret || isGenerated) return []
  return [wrongVariable('USHER_SECRET', 'secret', NO_SECRET)]
}

/**
 * Returns the findings about the files that usher.yaml names and that are used.
 */
function fileFindings(
  { at, value }: Usher,
  { development }: Surroundings,
): Finding[] {
  const { redis, mail, listen, issuer = '' } = value
  const { password_file, sentinel_password_file } = redis
  const findings = unreadable(at, ['mail', 'smtp'], {
    password_file: mail?.smtp.password_file,
  })
  if (!isSqlite(value)) {
    findings.push(
      ...unreadable(at, ['redis'], { password_file, sentinel_password_file }),
    )
    findings.push(...certificateFindings(at, ['redis', 'tls'], redis.tls))
  }
  if (!development) {
    const host = URL.parse(issuer)?.hostname
    findings.push(
      ...certificateFindings(at, ['listen', 'tls'], listen.tls, host),
    )
  }
  return findings
}

/**
 * Redis with TLS, on this machine, or by a name without a dot, which is one of
 * a container network.
 */
const SAFE_REDIS =
  /^rediss:|^redis\+unix:|(\/\/|@)(127\.|\[::1\]|[^.:/@]+(:\d+)?(\/|$))/

const IN_MEMORY = 'sqlite::memory:'

const STORE: UsherRule[] = [
  {
    rule: 'redis-socket',
    at: 'redis.tls',
    when: ({ redis, store }) => redis.tls && store.startsWith('redis+unix:'),
  },
  {
    rule: 'redis-database',
    at: 'redis.database',
    when: ({ redis, store }) =>
      redis.database && store.startsWith('redis+cluster:'),
  },
  {
    rule: 'durability-primary',
    at: 'redis.durability',
    when: usher => !isSqlite(usher) && usher.redis.durability === 'primary',
  },
  {
    rule: 'redis-plaintext',
    at: 'store',
    when: (usher, { development }) =>
      !development &&
      !isSqlite(usher) &&
      !usher.redis.tls &&
      !SAFE_REDIS.test(usher.store),
  },
  {
    rule: 'memory-store',
    at: 'store',
    when: ({ store }, { development }) => !development && store === IN_MEMORY,
  },
  {
    rule: 'memory-workers',
    at: 'workers',
    when: ({ store, workers }) => workers > 1 && store === IN_MEMORY,
  },
]

/**
 * A range with half of all addresses or more, by its prefix of at most 7 bits.
 */
const isAlmostEveryone = (range: string) => /\/[0-7]$/.test(range)

const NETWORK: UsherRule[] = [
  {
    rule: 'issuer',
    at: 'issuer',
    when: ({ issuer }, { development }) =>
      issuer?.startsWith('http:') && !development,
  },
  {
    rule: 'tls',
    at: 'listen.tls',
    when: ({ listen }, { development }) => listen.tls && development,
  },
  {
    rule: 'proxy-everyone',
    where: ({ proxy }) =>
      itemsWhere('proxy', proxy, isAlmostEveryone).slice(0, 1),
  },
  {
    rule: 'no-tls',
    at: 'proxy',
    when: ({ proxy, listen }, { development }) =>
      !development && !proxy.length && !listen.tls,
  },
]

/**
 * Every node has to have a new key, and then every copy of the JWKS, before the
 * key signs.
 */
const MIN_ANNOUNCE_SECONDS = 60
const MAX_ACCESS_TOKEN_SECONDS = 3600

const TOKENS: UsherRule[] = [
  {
    rule: 'key-times',
    at: 'keys.announce',
    when: ({ keys }) =>
      keys.announce >= keys.rotate_every ||
      keys.announce < MIN_ANNOUNCE_SECONDS,
  },
  {
    rule: 'access-token-lifetime',
    at: 'lifetimes.access_token',
    when: ({ lifetimes }) => isLong(lifetimes.access_token),
  },
  {
    rule: 'registration-open',
    at: 'features.dynamic_registration',
    when: ({ features: { dynamic_registration: set } }) =>
      set && set.mode === 'open',
  },
]

const CERTIFICATES: UsherRule[] = [
  {
    rule: 'certificate-header',
    at: 'client_certificates.header',
    when: ({ client_certificates, proxy }) =>
      client_certificates.header && !proxy.length,
  },
  {
    rule: 'certificate-source',
    at: 'features.mtls',
    when: ({ features, client_certificates, listen }) =>
      features.mtls && !client_certificates.header && !listen.tls,
  },
  {
    rule: 'mtls',
    at: 'client_certificates.origin',
    when: isSameListener,
  },
]

/**
 * Whether the origin for certificates would be that of the issuer, or of the
 * listener.
 */
function isSameListener({
  issuer,
  client_certificates,
  listen,
}: UsherFile): boolean {
  const own = URL.parse(issuer ?? '')
  const other = URL.parse(client_certificates.origin ?? '')
  if (!own || !other) return false
  const isListener = listen.tls !== undefined && portOf(other) === listen.port
  return (
    other.protocol !== own.protocol || other.host === own.host || isListener
  )
}

const isOnThisMachine = (host: string) => /^(localhost|127\.|\[?::1)/.test(host)

const ACCOUNTS: UsherRule[] = [
  {
    rule: 'mail-missing',
    at: 'sign_up',
    when: ({ sign_up, mail }) => sign_up && !mail,
  },
  {
    rule: 'sign-up-method',
    at: 'sign_in.methods',
    when: ({ sign_up, sign_in }) => sign_up && !isMethodUsed(sign_in, PASSWORD),
  },
  {
    rule: 'mail-missing',
    at: 'accounts.self_service',
    when: ({ accounts, mail }) =>
      accounts.self_service.includes('email') && !mail,
  },
  {
    rule: 'mail-plaintext',
    at: 'mail.smtp.tls',
    when: ({ mail }) =>
      mail?.smtp.tls === 'none' && !isOnThisMachine(mail.smtp.host),
  },
  {
    rule: 'own-accounts',
    at: 'accounts.module',
    when: ({ accounts, sign_up }) =>
      accounts.module && (sign_up || accounts.self_service.length > 0),
  },
  {
    rule: 'second-factor-off',
    at: 'sign_in.second_factor_required_for',
    when: ({ sign_in }) =>
      sign_in.second_factor === 'off' && sign_in.second_factor_required_for,
  },
]

const RULES = [...STORE, ...NETWORK, ...TOKENS, ...CERTIFICATES, ...ACCOUNTS]

/** Features that need another one. */
const NEEDS = [
  { feature: 'jwt_introspection', needs: 'introspection' },
  { feature: 'rich_authorization_requests', needs: 'resource_indicators' },
  {
    feature: 'rich_authorization_requests',
    needs: 'pushed_authorization_requests',
  },
] as const

function unmetFeatures({ value: { features }, at }: Usher): Finding[] {
  const unmet = NEEDS.filter(
    ({ feature, needs }) => features[feature] && !features[needs],
  )
  return unmet.map(({ feature, needs }) =>
    at(
      ['features', feature],
      'feature-off',
      `needs \`features.${needs}\`, which is off`,
    ),
  )
}

/** Whether this is too long for an access token, in seconds. */
export const isLong = (lifetime = 0) => lifetime > MAX_ACCESS_TOKEN_SECONDS

/** Returns the port of a URL, 443 by default. */
export const portOf = ({ port }: URL) => Number(port || 443)

/**
 * Returns the absolute path of the module under a key, and a digest that
 * changes when the file does.
 */
export function readModule(
  { value, at }: FileResult<UsherFile>,
  key: 'accounts' | 'keys',
  folder: string,
  findings: Finding[],
) {
  const named = value?.[key].module
  if (!named) return {}
  const module = resolve(folder, named)
  const { bytes = '', problem } = readBytes(module)
  if (problem) findings.push(at([key, 'module'], 'file', `its file ${problem}`))
  return { module, digest: hash('sha256', bytes, 'base64url') }
}
