// The flow of a sign-in as a table: which step follows which (src/sign-in/flow.ts).

import { expect, test } from 'vitest'
import { type FactorNeed, next, type Step } from '../../src/sign-in/flow.ts'

type Follows = ReturnType<typeof next>

const PERMANENT = false
const TEMPORARY = true

test.each<[from: Step, password: boolean, factor: FactorNeed, follows: Follows]>([
  ['login', PERMANENT, 'none', 'session'],
  ['login', PERMANENT, 'use', 'second_factor'],
  ['login', PERMANENT, 'add', 'second_factor'],
  ['login', TEMPORARY, 'none', 'change_password'],
  // A temporary password that was stolen is not enough to replace it.
  ['login', TEMPORARY, 'use', 'second_factor'],
  ['login', TEMPORARY, 'add', 'second_factor'],
  ['second_factor', PERMANENT, 'none', 'session'],
  // The user adds one later.
  ['second_factor', PERMANENT, 'add', 'session'],
  ['second_factor', TEMPORARY, 'none', 'change_password'],
  ['second_factor', TEMPORARY, 'add', 'change_password'],
  ['change_password', TEMPORARY, 'none', 'session'],
  ['change_password', TEMPORARY, 'add', 'session'],
  // Another browser has added a factor meanwhile.
  ['change_password', TEMPORARY, 'use', 'second_factor'],
  ['change_password', PERMANENT, 'use', 'second_factor'],
])(
  'after %s, with a temporary password: %s, factor: %s → %s',
  (from, password, factor, follows) => {
    expect(next({ from, factor, hasTemporaryPassword: password })).toBe(follows)
  },
)

test('every way through the steps of a sign-in ends at the session', () => {
  const needs: FactorNeed[] = ['none', 'use', 'add']
  for (const factor of needs) {
    for (const hasTemporaryPassword of [false, true]) {
      const taken: Follows[] = ['login']
      for (let step: Follows = 'login'; step !== 'session'; taken.push(step)) {
        step = next({
          from: step,
          // A factor that was used is no longer needed.
          factor: factor === 'use' && taken.includes('second_factor') ? 'none' : factor,
          hasTemporaryPassword: hasTemporaryPassword && !taken.includes('change_password'),
        })
      }
      expect(new Set(taken).size).toBe(taken.length)
    }
  }
})
