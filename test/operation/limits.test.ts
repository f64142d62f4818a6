// Limiters in memory: what they accept, and how much memory their keys take.

import { expect, test } from 'vitest'
import { BOUNDS } from '../../src/oidc/bounds.ts'
import { createQuotas } from '../../src/operation/limits.ts'

const quotas = (max: number) =>
  createQuotas({ what: 'tries', protects: 'memory', per: 'network', max, seconds: 3600 })

test('each key has its own quota', () => {
  const { hasRoom, take } = quotas(2)
  const taken = ['one', 'one', 'one', 'other'].map(take)
  expect(taken).toEqual([true, true, false, true])
  expect(['one', 'other'].map(hasRoom)).toEqual([false, true])
})

test('a key that is looked at or refused takes no memory', () => {
  const { hasRoom, take, size } = quotas(0)
  for (let i = 0; i < 100; i++) {
    hasRoom(`seen ${i}`)
    take(`refused ${i}`)
  }
  expect(size()).toBe(0)
})

test('the number of keys is limited, and further ones share a quota', () => {
  const { take, size } = quotas(1)
  const { max } = BOUNDS.countedKeys
  for (let i = 0; i < max; i++) take(`network ${i}`)
  const others = Array.from({ length: 1000 }, (_, i) => take(`further ${i}`))
  expect(others.filter(Boolean)).toHaveLength(1)
  expect(size()).toBe(max + 1)
  expect(take('network 0')).toBe(false)
})

test('a long key takes as much memory as a short one', () => {
  const { take } = quotas(1)
  const long = (i: number) => String(i).padEnd(100_000, 'x')
  const before = process.memoryUsage().heapUsed
  for (let i = 0; i < 2000; i++) expect(take(long(i))).toBe(true)
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(100_000_000)
  expect(take(long(0))).toBe(false)
})
