// docs/architecture.md shows what runs: each flow runs on a process of Usher, and the files and functions
// that ran are those of its picture. Each flow runs through few of them.

import { beforeAll, expect, test } from 'vitest'
import { FLOWS, type FlowName, measureFlows } from '../support/flows.ts'
import type { Ran } from '../support/inspector.ts'
import { listProblems, MAP, pictureProblems, readMap, withLists } from '../support/map.ts'

/**
 * Functions with a name that a flow may run, and their files. If your change exceeds a limit for a good reason,
 * raise it in the same commit and give the reason.
 */
const LIMITS: Record<FlowName, { files: number; functions: number }> = {
  'code exchange': { files: 37, functions: 156 },
  UserInfo: { files: 29, functions: 76 },
  refresh: { files: 38, functions: 155 },
  'authorization with a session': { files: 39, functions: 190 },
  'sign-in with a second factor': { files: 70, functions: 395 },
}
const DRAWN = ['code exchange', 'UserInfo', 'sign-in with a second factor'] as const

let flows: Map<FlowName, Ran>
beforeAll(async () => {
  flows = await measureFlows()
})
const ranIn = (flow: FlowName): Ran => flows.get(flow) ?? new Map()

test('the lists of docs/architecture.md have the files that run (npm run reference)', async () => {
  const page = readMap()
  const problems = DRAWN.flatMap(flow => listProblems(page, flow, ranIn(flow)))
  await expect(withLists(page, flows), problems.join('\n')).toMatchFileSnapshot(MAP)
})

test.each(DRAWN)('the picture of a flow has the files and functions that run: %s', flow => {
  expect(pictureProblems(readMap(), flow, ranIn(flow))).toEqual([])
})

test.each(FLOWS)('a flow runs through few files and functions: %s', flow => {
  const isNamed = (name: string) => !name.startsWith('@')
  const named = [...ranIn(flow).values()].map(names => [...names].filter(isNamed).length)
  const files = named.filter(functions => functions > 0).length
  const functions = named.reduce((sum, each) => sum + each, 0)
  const found = `${flow}: ${files} files, ${functions} functions`
  expect(files, found).toBeGreaterThan(10)
  expect(files, found).toBeLessThanOrEqual(LIMITS[flow].files)
  expect(functions, found).toBeLessThanOrEqual(LIMITS[flow].functions)
})
