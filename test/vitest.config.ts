import { join } from 'node:path'
import { configDefaults, defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Mocks a module, and must not share it with other files. */
const ISOLATED = ['test/flow/interleavings.test.ts', 'test/flow/interrupted.test.ts']

/** Read the source and the documents as text: `npm run test:sources`, a part of `npm run check`. */
const SOURCES = ['architecture', 'documents', 'glossary', 'words'].map(
  name => `test/unit/${name}.test.ts`,
)

/**
 * Have long lists, of which `npm test` takes a part each day (support/some-of.ts). `npm run test:slow`
 * takes whole lists.
 */
const LONG_LISTS = [
  'test/store/large-index.test.ts',
  ...['corpus', 'values'].map(name => `test/unit/config-${name}.test.ts`),
  ...[
    'authorize-anonymous',
    'authorize-redirects',
    'ciba-attacks',
    'client-documents',
    'ending-races',
    'interleavings',
    'interrupted',
    'odd-json',
    'passkeys',
    'session',
    'sign-out-plan',
    'token-crash',
    'upstream-assertions',
    'upstream-attacks',
    'upstream-claims',
  ].map(name => `test/flow/${name}.test.ts`),
]

/** Compare durations: `npm run test:timed`, on a quiet machine. */
const TIMED = [
  'test/bench/*.test.ts',
  'test/timed/*.test.ts',
  ...['log-flood', 'sign-in-limits', 'slow-clients'].map(name => `test/flow/${name}.test.ts`),
]

/** Take long or need more than Usher itself: `npm run test:slow`. */
const SLOW = [
  'test/bench/speed/*.test.ts',
  'test/compare/*.test.ts',
  'test/faults/*.test.ts',
  'test/operation/*.test.ts',
  'test/races/*.test.ts',
  ...['checks', 'durability', 'faults'].map(name => `test/store/redis-${name}.test.ts`),
  // Start many processes, the service and the command line, or wait for time limits.
  ...[
    'accounts-set',
    'accounts-source',
    'accounts-transfer',
    'accounts-why',
    'cli',
    'cli-access',
    'client-secret-change',
    'deploy',
    'doctor',
    'explain-request',
    'folder-of-service',
    'key-metrics',
    'key-rotation',
    'mail-slow',
    'mail-tls',
    'operator-commands',
    'operator-events',
    'outage',
    'passkey-commands',
    'production',
    'reload',
    'scripts',
    'second-factor-commands',
    'secret-change',
    'service',
    'store-backup',
    'store-copy',
    'tls',
    'upstream-commands',
    'workers',
  ].map(name => `test/flow/${name}.test.ts`),
  ...['accessibility', 'passkeys', 'reflow', 'upstream'].map(
    name => `test/pages/${name}.chromium.test.ts`,
  ),
]

/** Run applications with other client libraries, which install.ts installs first. */
const CLIENTS = ['test/clients/*.test.ts']

/** Run a product of others as upstream issuer: `npm run test:upstream`. */
const UPSTREAM = ['test/upstream/*.test.ts']

/** Starts the longest files first, so that they do not run alone at the end. */
const LONGEST = [
  // Slow ones.
  'test/pages/accessibility.chromium.test.ts',
  'test/faults/faults.test.ts',
  ...['mail-slow', 'store-backup', 'reload', 'operator-commands'].map(
    name => `test/flow/${name}.test.ts`,
  ),
  'test/store/redis-checks.test.ts',
  // Those of `npm test`.
  ...['interleavings', 'passkeys', 'second-factors', 'client-documents', 'interrupted'].map(
    name => `test/flow/${name}.test.ts`,
  ),
  'test/pages/journey.chromium.test.ts',
  ...['large-index', 'refresh-tokens', 'redis'].map(name => `test/store/${name}.test.ts`),
  ...['ending-races', 'token-crash', 'upstream-attacks', 'upstream-claims', 'egress'].map(
    name => `test/flow/${name}.test.ts`,
  ),
]
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
const FAST = { globalSetup: 'test/support/announce.ts', alias }

const project = (name: string, include: string[], more: object = {}, exclude: string[] = []) => ({
  extends: true as const,
  test: {
    name,
    include,
    exclude: [...configDefaults.exclude, '**/node_modules/**', ...exclude],
    maxWorkers: 4,
    ...more,
  },
})

// biome-ignore lint/style/noDefaultExport: vitest requires a default export
export default defineConfig({
  test: {
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // A worker keeps the modules it has imported: importing them for each file took a third of the time.
    isolate: false,
    sequence: { sequencer: LongestFirst },
    env: { NODE_COMPILE_CACHE: join(import.meta.dirname, '../node_modules/.cache/usher') },
    projects: [
      project('fast', ['test/**/*.test.ts'], FAST, [
        ...ISOLATED,
        ...SOURCES,
        ...TIMED,
        ...SLOW,
        ...CLIENTS,
        ...UPSTREAM,
      ]),
      project('isolated', ISOLATED, { isolate: true }),
      project('sources', SOURCES),
      ...(process.env.ALL === '1' ? [project('whole', LONG_LISTS, { isolate: true, alias })] : []),
      project('timed', TIMED, { maxWorkers: 1, sequence: { groupOrder: 1 } }),
      project('slow', SLOW),
      project('upstream', UPSTREAM, { maxWorkers: 1 }),
      project('clients', CLIENTS, { globalSetup: 'test/clients/install.ts' }),
    ],
  },
})
