// The operator's handbook says what the source says, and what is shipped beside it names what there is.

import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { createClusterMetrics, createMetrics } from '../../src/http/metrics.ts'
import { keysOf, withGenerated } from '../support/handbook.ts'

const ROOT = join(import.meta.dirname, '../..')
const HANDBOOK = join(ROOT, 'config/README.md')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const handbook = read('config/README.md')

test('its tables are those of the source; npm run handbook writes them', async () => {
  await expect(await withGenerated(handbook)).toMatchFileSnapshot(HANDBOOK)
})

test.each(['usher', 'claims', 'client', 'resource', 'detail'])(
  'it says of every key of %s what it is',
  file => {
    const keys = keysOf(file)
    expect(keys.length).toBeGreaterThan(2)
    const silent = keys.filter(({ schema }) => !schema.description)
    expect(silent.map(({ path }) => path)).toEqual([])
  },
)

test('it names every variable of the environment that is read', () => {
  const [, section = ''] = /### Environment\n(.*?)\n## /s.exec(handbook) ?? []
  const source = read('src/config/environment.ts') + read('src/config/load.ts')
  const names = [...source.matchAll(/\benv\.([A-Z_]+)\b|read\('([A-Z_]+)'\)|^ {2}([A-Z_]+): '/gm)]
  const variables = new Set(names.map(([, plain, secret, key]) => plain ?? secret ?? key ?? ''))
  expect([...variables].filter(name => !section.includes(`\`${name}\``))).toEqual([])
})

test('it names every event of the log, and no other', () => {
  const source = globSync('src/**/*.ts', { cwd: ROOT }).map(read).join('\n')
  const [, rows = ''] = /\| Event \|.*?\n(.*?)\n\n/s.exec(handbook) ?? []
  const facts = /type FactName =\n(.*?)\n\n/s.exec(read('src/http/audit.ts'))?.[1] ?? ''
  const told = [...source.matchAll(/\bevent: '(\w+)'/g), ...facts.matchAll(/'(\w+)'/g)].map(
    m => m[1],
  )
  const cells = rows.split('\n').map(row => row.split('|')[1] ?? '')
  const named = cells.flatMap(cell => [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name))
  expect(named.sort()).toEqual([...new Set(told)].sort())
})

test('the commands it uses exist', () => {
  const used = [...handbook.matchAll(/\busher ([a-z]+ ?[a-z]*)/g)].map(([, words = '']) => words)
  const table = new Set([...handbook.matchAll(/^\| `usher ([a-z]+(?: [a-z]+)?)/gm)].map(m => m[1]))
  const nouns = new Set([...table].map(name => name?.split(' ')[0]))
  const unknown = used.filter(words => nouns.has(words.split(' ')[0]) && !table.has(words.trim()))
  expect(unknown.filter(words => !table.has(words.split(' ')[0]))).toEqual([])
})

const tests = globSync('test/**/*.ts', { cwd: ROOT }).map(read).join('\n')

test('a test runs each of its blocks but those that take an engine, a cluster or systemd', () => {
  const blocks = [...handbook.matchAll(/```sh ?(\S*)\n(.*?)```/gs)]
  const isRun = (name: string) => tests.includes(`block('${name}')`) || name === 'compose'
  const stray = blocks.filter(([, name = '', text = '']) =>
    name ? !isRun(name) : !/docker|kubectl|systemctl|journalctl/.test(text),
  )
  expect(blocks.length).toBeGreaterThan(15)
  expect(stray.map(([text]) => text)).toEqual([])
})

test('a test runs each of its commands', () => {
  const named = [...handbook.matchAll(/^\| `usher ([a-z]+)(?: ([a-z]+))?/gm)]
  const words = named.map(([, noun, verb]) => (verb ? [noun, verb] : [noun]))
  const [, ...marked] = handbook.split(/```sh \w\S*\n/)
  const run = `${tests}${marked.map(text => text.split('```')[0]).join('')}`
  const isRun = (command: (string | undefined)[]) =>
    run.includes(command.map(word => `'${word}'`).join(', ')) ||
    new RegExp(`(usher |['"\`])${command.join(' ')}\\b`).test(run)
  expect(named.length).toBeGreaterThan(15)
  expect(words.filter(command => !isRun(command))).toEqual([])
})

test('its links lead somewhere', () => {
  const links = [...handbook.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target)
  const heads = [...handbook.matchAll(/^#+ (.*)$/gm)].map(([, text = '']) => anchorOf(text))
  const inside = links.filter(target => target.startsWith('#'))
  const files = links.filter(target => !/^(#|https?:)/.test(target))
  expect(inside.filter(target => !heads.includes(target.slice(1)))).toEqual([])
  expect(files.filter(target => !globSync(join(ROOT, 'config', target)).length)).toEqual([])
})

const anchorOf = (text: string) =>
  text
    .toLowerCase()
    .replace(/[^\w -]/g, '')
    .replaceAll(' ', '-')

test('alerts and dashboard are about metrics that there are', async () => {
  const text = (await createMetrics().text()) + (await createClusterMetrics().text())
  const families = [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)]
  const series = families.flatMap(([, name = '', type]) =>
    type === 'histogram' ? ['_bucket', '_sum', '_count'].map(end => name + end) : [name],
  )
  const { groups } = parse(read('docs/alerts.yaml'))
  const { panels } = JSON.parse(read('docs/grafana.json'))
  const rules: { expr: string }[] = groups.flatMap(({ rules }: { rules: object[] }) => rules)
  const targets: { expr: string }[] = panels.flatMap(({ targets = [] }) => targets)
  expect(rules.length).toBeGreaterThan(0)
  expect(targets.length).toBeGreaterThan(0)
  const used = [...rules, ...targets].flatMap(
    ({ expr }) => expr.match(/\b(usher|nodejs|process)_\w+/g) ?? [],
  )
  expect([...new Set(used)].filter(name => !series.includes(name))).toEqual([])
})
