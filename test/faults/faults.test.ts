// A few of the faults, briefly: three Usher processes over a Redis to which something happens, and a
// ledger of everything that was acknowledged. All of them, and for longer: npm run test:faults.

import { expect, test } from 'vitest'
import { type Fault, runFaults } from './experiment.ts'
import { FAULTS } from './faults.ts'

const SECONDS = { baseline: 1.5, fault: 1.5, recovery: 2.5 }
/** Milliseconds. An answer comes within a second; this is a machine with other things to do. */
const LONGEST_ANSWER = 1500
const BACK = 5000
/** Ends a test that hangs. Starting and filling take minutes beside other work. */
const HANG_MS = 300_000

function named(id: string, name: string): Fault {
  const fault = FAULTS.find(one => one.id === id && one.name.startsWith(name))
  if (!fault) throw new Error(`there is no fault ${id} ${name}`)
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
  ['F1, F2, F10, F11, F14: killed, hung, replies lost, out of memory, scripts forgotten', ALONE],
  ['F4: the primary is killed, Sentinels promote another', [named('F4', 'Sentinel')]],
  ['F6: the primary is lost with what no replica has', [named('F6', 'the same, replicated')]],
  ['F24: strangers of many networks fill the store', [named('F24', 'strangers')]],
])(
  '%s: nothing acknowledged is lost, and no healthy token is called bad',
  async (_, faults) => {
    for (const outcome of await runFaults(faults, SECONDS)) {
      const { id, slowest } = outcome
      expect({ ...outcome, id }).toMatchObject({ id, wrong: [], details: [], missed: [] })
      expect(outcome.otherErrors, id).toBe(0)
      expect(outcome.requests, id).toBeGreaterThan(50)
      expect(outcome.highest, `${id} ${slowest}`).toBeLessThan(LONGEST_ANSWER)
      expect(outcome.back, id).toBeLessThan(BACK)
    }
  },
  HANG_MS,
)
