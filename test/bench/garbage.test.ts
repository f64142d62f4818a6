// What Usher does so that V8 lets go of requests soon: that it still has to, and that it works.

import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'

// With so much room V8 makes no great collection by itself, which would take what small ones leave.
const NODE = ['--expose-gc', '--initial-old-space-size=600']

function run(program: string, ...words: string[]): number {
  return Number(execFileSync('node', [...NODE, `test/bench/${program}`, ...words]))
}

test('a request that was answered is gone after small collections; with the library alone it is not', () => {
  expect(run('kept.ts')).toBeGreaterThan(0.9)
  expect(run('kept.ts', 'shared-accessor')).toBeLessThan(0.1)
})

test('after great collections in a quiet time a tick takes no longer than before; without Usher it does', () => {
  expect(run('quiet-time.ts')).toBeGreaterThan(3)
  expect(run('quiet-time.ts', 'ticks')).toBeLessThan(3)
})
