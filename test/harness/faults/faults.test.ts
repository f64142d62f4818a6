// Short runs of some faults: three Usher processes, one Redis with a fault, and a ledger of every acknowledged
// operation. `npm run harness -- faults` runs all faults, for longer. How long answers and the return take is in
// test/timed/faults.test.ts, because it depends on what else the machine does.

import { expect, test } from 'vitest'
import { rowOf, titles } from './experiments.ts'
import { named } from './faults.ts'
import { runFaults } from './run-faults.ts'

const SECONDS = { baseline: 1.5, fault: 1.5, recovery: 2.5 }
/** Ends a test that hangs. On a busy machine the preparation takes minutes. */
const HANG_MS = 300_000

const ALONE = [
  named('F10', 'dropped replies'),
  named('F1', 'kill -9'),
  named('F2', 'SIGSTOP'),
  named('F11', 'out of memory'),
  named('F14', 'SCRIPT FLUSH'),
]

test.each([
  ['F1, F2, F10, F11, F14: killed, hung, replies lost, out of memory, scripts flushed', ALONE],
  ['F4: the primary is killed, Sentinels promote a replica', [named('F4', 'Sentinel')]],
  [
    'F6: the primary is lost with its unreplicated writes',
    [named('F6', 'stalled, durability replicated')],
  ],
  ['F24: anonymous requests of many networks fill the store', [named('F24', 'strangers')]],
])(
  '%s: no acknowledged operation is lost, and no valid token is refused',
  async (_, faults) => {
    for (const outcome of await runFaults(faults, SECONDS)) {
      const { id } = outcome
      expect({ ...outcome, id }).toMatchObject({ id, wrong: [], details: [], missed: [] })
      expect(outcome.otherErrors, id).toBe(0)
      expect(outcome.requests, id).toBeGreaterThan(50)
      expect(rowOf(outcome).cells).toHaveLength(titles.length)
    }
  },
  HANG_MS,
)
