import { join } from 'node:path'
import { configDefaults, defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Mocks a module: what it has imported is not for others. */
const APART = ['test/flow/interleavings.test.ts']
/** Hold something against a limit of time: a machine with too much else to do would break it. */
const TIMED = [
  'test/bench/*.test.ts',
  'test/faults/*.test.ts',
  'test/races/*.test.ts',
  'test/store/redis-*.test.ts',
  ...[
    'deploy',
    'log-flood',
    'reload',
    'secret-change',
    'service',
    'sign-in-limits',
    'slow-clients',
    'workers',
  ].map(name => `test/flow/${name}.test.ts`),
]

/** In little files, which are otherwise the last: what is alone at the end keeps everybody waiting. */
const LONG = [
  'test/bench/sign-in.test.ts',
  'test/faults/faults.test.ts',
  'test/races/growth.test.ts',
]
class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]) {
    const rank = ({ moduleId }: TestSpecification) => {
      const place = LONG.findIndex(name => moduleId.endsWith(name))
      return place < 0 ? LONG.length : place
    }
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b))
  }
}

const project = (
  name: string,
  include: string[],
  exclude: string[],
  order: { isolate?: boolean; maxWorkers: number; sequence: { groupOrder: number } },
) => ({
  extends: true as const,
  test: { name, include, exclude: [...configDefaults.exclude, ...exclude], ...order },
})
const together = { maxWorkers: 4, sequence: { groupOrder: 0 } }
const quietly = { maxWorkers: 4, sequence: { groupOrder: 1 } }

// biome-ignore lint/style/noDefaultExport: vitest wants one
export default defineConfig({
  test: {
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // A worker keeps what it has imported: a third of the time was importing it again for each file.
    isolate: false,
    sequence: { sequencer: LongFirst },
    env: { NODE_COMPILE_CACHE: join(import.meta.dirname, 'node_modules/.cache/usher') },
    projects: [
      project('most', ['test/**/*.test.ts'], [...APART, ...TIMED], together),
      project('apart', APART, [], { ...together, isolate: true }),
      project('timed', TIMED, [], quietly),
    ],
  },
})
