// How long a client waits for an answer during a fault, and until requests succeed after it.

import { expect, test } from 'vitest'
import { named } from '../harness/faults/faults.ts'
import { runFaults } from '../harness/faults/run-faults.ts'

const SECONDS = { baseline: 1.5, fault: 1.5, recovery: 2.5 }
const MAX_ANSWER_MS = 1500
const MAX_RECOVERY_MS = 5000

test.each([
  ['F1', 'kill -9'],
  ['F2', 'SIGSTOP'],
  ['F4', 'Sentinel'],
  ['F10', 'dropped replies'],
])(
  '%s %s: every request is answered within 1.5 s, and succeeds 5 s after the fault',
  async (id, name) => {
    const [outcome] = await runFaults([named(id, name)], SECONDS)
    expect(outcome?.highest, outcome?.slowest).toBeLessThan(MAX_ANSWER_MS)
    expect(outcome?.back).toBeLessThan(MAX_RECOVERY_MS)
  },
  120_000,
)
