// The table of commands.

import { expect, test } from 'vitest'
import { TABLE } from '../../src/commands/table.ts'

test.each(TABLE)('%s is a function, which runs: usher %s', async run => {
  const [file, name = ''] = run.split('.')
  const functions: Record<string, unknown> = await import(`../../src/commands/${file}.ts`)
  expect(functions[name]).toBeTypeOf('function')
})

test('each command is in the table once', () => {
  const names = TABLE.map(([, usage]) => usage.replace(/ [^a-z].*/, ''))
  expect(names).toEqual([...new Set(names)])
})
