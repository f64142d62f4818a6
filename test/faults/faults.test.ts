// Short runs of some faults: three Usher processes, one Redis with a fault, and a ledger of every acknowledged
// operation. `npm run test:faults` runs all faults, for longer.

import { expect, test } from 'vitest'
import { type Fault, runFaults } from './experiment.ts'
import { FAULTS } from './faults.ts'

const SECONDS = { baseline: 1.5, fault: 1.5, recovery: 2.5 }
/** Usher answers within a second. The rest is for a busy machine. */
const MAX_ANSWER_MS = 1500
const MAX_RECOVERY_MS = 5000
/** Ends a test that hangs. On a busy machine the preparation takes minutes. */
const HANG_MS = 300_000

function named(id: string, name: string): Fault {
  const fault = FAULTS.find(one => one.id === id && one.name.startsWith(name))
  if (!fault) throw new Error(`fault not found: ${id} ${name}`)
  return fault
}

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
      const { id, slowest } = outcome
      expect({ ...outcome, id }).toMatchObject({ id, wrong: [], details: [], missed: [] })
      expect(outcome.otherErrors, id).toBe(0)
      expect(outcome.requests, id).toBeGreaterThan(50)
      expect(outcome.highest, `${id} ${slowest}`).toBeLessThan(MAX_ANSWER_MS)
      expect(outcome.back, id).toBeLessThan(MAX_RECOVERY_MS)
    }
  },
  HANG_MS,
)
