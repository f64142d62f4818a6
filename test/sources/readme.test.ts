// What the tables of the README say about Usher, as far as a program can check it. The image and the commands of
// the quickstart have tests of their own.

import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { usherSchema } from '../../src/config/schema/usher.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const readme = read('README.md')
const defaults = usherSchema.parse({})
const { features, sign_in } = defaults

/** The right cell of a row. */
function row(subject: string): string {
  const line = readme.split('\n').find(text => text.startsWith(`| ${subject} |`))
  return line?.split(' | ')[1]?.replace(/ \|$/, '') ?? ''
}

/** What a configuration without any setting has of each feature. */
const OFF: Record<string, unknown> = {
  'second factors': sign_in.second_factor === 'off' ? false : sign_in.second_factor,
  passkeys: sign_in.methods ?? false,
  mail: defaults.mail ?? false,
  'sign-up': defaults.sign_up ?? false,
  'other issuers': globSync('config/upstreams/*', { cwd: ROOT }).length > 0,
  registration: features.dynamic_registration,
  'metadata documents': features.client_id_metadata_documents,
  'device flow': features.device_flow,
  CIBA: features.ciba,
  mTLS: features.mtls,
  attestation: features.client_attestation,
  encryption: features.encryption,
  'pairwise subjects': features.pairwise_subjects,
  'authorization details': features.rich_authorization_requests,
}

test('what is off until it is turned on is off by default, and DPoP is on', () => {
  const [list = '', rest = ''] = row('Off until you turn it on').split('. ')
  expect(list.split(/, | and /)).toEqual(Object.keys(OFF))
  expect(Object.entries(OFF).filter(([, value]) => value !== false)).toEqual([])
  expect(rest).toMatch(/^DPoP is on;/)
  expect(features.dpop).toBe(true)
})

test('the protocol that the table names is on by default', () => {
  const ON: Record<string, unknown> = {
    revocation: features.revocation,
    introspection: features.introspection,
    'client credentials': features.client_credentials,
    PAR: features.pushed_authorization_requests,
    'resource indicators': features.resource_indicators,
    'RP-initiated': features.rp_initiated_logout,
    'back-channel logout': features.backchannel_logout,
  }
  const named = row('OAuth 2.0, OpenID Connect')
  expect(Object.keys(ON).filter(name => !named.includes(name))).toEqual([])
  expect(Object.keys(ON).filter(name => !ON[name])).toEqual([])
})

test('there are six languages', () => {
  expect(row('Languages, branding')).toMatch(/^six languages;/)
  expect(globSync('src/pages/locales/*.yaml', { cwd: ROOT })).toHaveLength(6)
})

test('the oldest Redis is the one that the start accepts', () => {
  const [, oldest] =
    /^const OLDEST_VERSION = '(.*)'$/m.exec(read('src/store/redis/checks.ts')) ?? []
  expect(row('Store')).toContain(`Redis ${oldest}+`)
})

test('each script of npm that the README names exists', () => {
  const named = [...readme.matchAll(/npm run (?:-s )?([\w:-]+)/g)].map(([, name = '']) => name)
  expect(named.length).toBeGreaterThan(5)
  expect(named.filter(name => !(name in packageJson.scripts))).toEqual([])
})

interface Installed {
  dev?: boolean
  optional?: boolean
}

test('as many packages are in production as the README says', () => {
  const { packages } = JSON.parse(read('package-lock.json'))
  const [, ...all] = Object.values<Installed>(packages)
  const production = all.filter(({ dev }) => !dev)
  // Binaries for one platform: argon2, bcrypt and Node are installed for that of the machine.
  const everywhere = production.filter(({ optional }) => !optional)
  expect(row('Packages in production')).toBe(`${everywhere.length + 3}, with Node itself`)
})
