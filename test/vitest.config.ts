import { join } from 'node:path'
import { configDefaults, defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { PATIENCE_MS } from './support/patience.ts'

/** The paths of these test files. */
function tests(...names: string[]): string[] {
  return names.map(name => `test/${name}.test.ts`)
}

/** Compare the source and the documents, most of them as text: `npm run test:sources`, a part of `npm run check`. */
const SOURCES = ['test/sources/*.test.ts', ...tests('documents/map')]

/** Compare durations: `npm run test:timed`, on a quiet machine. */
const TIMED = [
  'test/harness/sign-in/*.test.ts',
  'test/timed/*.test.ts',
  ...tests('operation/log-flood', 'operation/slow-clients', 'sign-in/sign-in-limits'),
]

/** Take long or need more than Usher itself: `npm run test:slow`. */
const SLOW = [
  'test/compare/*.test.ts',
  'test/harness/bench/speed/*.test.ts',
  'test/harness/faults/*.test.ts',
  'test/harness/races/*.test.ts',
  ...tests(
    // Start many processes, the service and the command line, or wait for time limits.
    'commands/accounts-transfer',
    'commands/cli',
    'commands/cli-access',
    'commands/doctor',
    'commands/explain-request',
    'commands/folder-of-service',
    'commands/operator-commands',
    'commands/factor-commands',
    'commands/scripts',
    'commands/store-backup',
    'commands/store-copy',
    'commands/upstream-commands',
    'documents/http-directory-example',
    'documents/ldap-example',
    'documents/nginx',
    'documents/production',
    'documents/proxies',
    'documents/redis-restore',
    'documents/release',
    'features/accounts-source',
    'features/mail-slow',
    'features/mail-tls',
    'operation/image',
    'operation/key-rotation',
    'operation/memory',
    'operation/operator-events',
    'operation/outage',
    'operation/reload',
    'operation/secret-change',
    'operation/service',
    'operation/tls',
    'operation/workers',
    'store/redis-checks',
    'store/redis-durability',
    'store/redis-faults',
    'store/redis-growth',
    'store/redis-plaintext',
    // Every page in Chromium. In `npm test` are the journey of a user and the keyboard.
    'pages/accessibility.chromium',
    'pages/factors.chromium',
    'pages/passkeys.chromium',
    'pages/phone.chromium',
    'pages/upstream.chromium',
    'pages/way-forward.chromium',
  ),
]

/** Run applications with other client libraries, which install.ts installs first. */
const CLIENTS = ['test/clients/*.test.ts']

/** Run a product of others as upstream issuer: `npm run test:upstream`. */
const UPSTREAM = ['test/upstream/*.test.ts']

/** Starts the longest files first, so that they do not run alone at the end. */
const LONGEST = tests(
  // Slow ones.
  'operation/image',
  'harness/faults/faults',
  'commands/scripts',
  'operation/reload',
  'harness/races/races',
  'compare/compare',
  'features/accounts-source',
  'pages/accessibility.chromium',
  'store/redis-checks',
  'commands/operator-commands',
  'features/mail-slow',
  'harness/bench/speed/bench',
  'operation/outage',
  'operation/key-rotation',
  'operation/secret-change',
  'store/redis-durability',
  'operation/workers',
  'pages/upstream.chromium',
  'pages/phone.chromium',
  'commands/folder-of-service',
  'documents/nginx',
  // Those of `npm test`.
  'oidc/interleavings',
  'oidc/interrupted',
  'features/passkeys',
  'features/second-factors',
  'features/client-documents',
  'oidc/authorize-redirects',
  'oidc/odd-json',
  'pages/journey.chromium',
  'store/large-index',
  'store/refresh-tokens',
  'store/redis',
  'oidc/ending-races',
  'oidc/token-crash',
  'features/upstream-attacks',
  'features/upstream-claims',
  'store/redis-connection',
  'store/redis-reasons',
  'operation/egress',
  'operation/reload-keys',
  'features/upstream-off',
)

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]) {
    const rank = ({ moduleId }: TestSpecification) => {
      const place = LONGEST.findIndex(name => moduleId.endsWith(name))
      return place < 0 ? LONGEST.length : place
    }
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b))
  }
}

const alias = { '@node-rs/argon2': join(import.meta.dirname, 'support/argon2.ts') }
const FAST = { globalSetup: 'test/support/some-of.ts', alias }

const project = (name: string, include: string[], more: object = {}, exclude: string[] = []) => ({
  extends: true as const,
  test: {
    name,
    include,
    exclude: [...configDefaults.exclude, '**/node_modules/**', ...exclude],
    // More than cores: the tests wait for processes and sockets a third of their time.
    maxWorkers: 6,
    ...more,
  },
})

// biome-ignore lint/style/noDefaultExport: vitest requires a default export
export default defineConfig({
  test: {
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // The default of a second is short on a busy machine.
    expect: { poll: { timeout: PATIENCE_MS } },
    // A worker keeps the modules it has imported: importing them for each file took a third of the time.
    isolate: false,
    sequence: { sequencer: LongestFirst },
    env: { NODE_COMPILE_CACHE: join(import.meta.dirname, '../node_modules/.cache/usher') },
    projects: [
      project('fast', ['test/**/*.test.ts'], FAST, [
        ...SOURCES,
        ...TIMED,
        ...SLOW,
        ...CLIENTS,
        ...UPSTREAM,
      ]),
      project('sources', SOURCES),
      project('timed', TIMED, { maxWorkers: 1, sequence: { groupOrder: 1 } }),
      project('slow', SLOW),
      project('upstream', UPSTREAM, { maxWorkers: 1 }),
      project('clients', CLIENTS, {
        globalSetup: 'test/clients/install.ts',
        setupFiles: 'test/clients/installed.ts',
      }),
    ],
  },
})
