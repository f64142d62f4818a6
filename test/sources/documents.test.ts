// The documents agree with the source, their links are valid, and tests run their commands.

import { globSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { BOUNDS } from '../../src/oidc/bounds.ts'
import { AUDIT_EVENTS } from '../../src/operation/audit.ts'
import { createClusterMetrics, createMetrics } from '../../src/operation/prometheus.ts'
import { keysOf, pages, withGenerated } from '../support/documents.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const page = (path: string) => pages.get(path) ?? ''
const all = [...pages.values()].join('\n')
const generated = [...pages].flatMap(([path, text]) =>
  text.includes('<!-- generated: ') ? path : [],
)

test.each(generated)('the tables of %s are those of the source (npm run reference)', async path => {
  await expect(await withGenerated(page(path))).toMatchFileSnapshot(join(ROOT, path))
})

const DESCRIPTIONS: Record<string, object> = parse(read('src/config/schema/descriptions.yaml'))

test.each(['usher', 'claims', 'client', 'resource', 'detail', 'upstream'])(
  'every key of %s has a description, and every description a key',
  file => {
    const keys = keysOf(file)
    expect(keys.length).toBeGreaterThan(2)
    const silent = keys.filter(({ schema }) => !schema.description)
    expect(silent.map(({ path }) => path)).toEqual([])
    const described = Object.keys(DESCRIPTIONS[file] ?? {})
    expect(described.toSorted()).toEqual(keys.map(({ path }) => path).toSorted())
  },
)

/** The source without the table itself. */
const limiters = globSync('src/**/*.ts', { cwd: ROOT })
  .filter(path => !path.endsWith('oidc/bounds.ts'))
  .map(read)
  .join('\n')

test('src takes each bound of what strangers can make from the table', () => {
  const numbers = Object.entries(BOUNDS).filter(([, bound]) => !('setting' in bound))
  const unused = numbers.filter(([name]) => !new RegExp(`BOUNDS\\.${name}\\b`).test(limiters))
  expect(numbers.length).toBeGreaterThan(20)
  expect(unused.map(([name]) => name)).toEqual([])
})

test('each rate limiter has a row in the table of bounds', () => {
  const made = /(?<!function )\bcreateQuotas?\((?!BOUNDS\.)|: Limit = (?!BOUNDS\.).*/g
  expect([...limiters.matchAll(made)].map(([text]) => text)).toEqual([])
  expect(limiters).toContain('createQuota(BOUNDS.')
  expect(limiters).toContain(': Limit = BOUNDS.')
})

test('every variable of the environment that is read is documented', () => {
  const [, section = ''] = page('docs/reference/configuration.md').split('\n## Environment\n')
  const source = read('src/config/environment.ts') + read('src/config/load.ts')
  const names = [...source.matchAll(/\benv\.([A-Z_]+)\b|read\('([A-Z_]+)'\)|^ {2}([A-Z_]+): '/gm)]
  const variables = new Set(names.map(([, plain, secret, key]) => plain ?? secret ?? key ?? ''))
  expect(variables.size).toBeGreaterThan(5)
  expect([...variables].filter(name => !section.includes(`\`${name}\``))).toEqual([])
})

test('every event of the log is documented, and no other', () => {
  const source = globSync('src/**/*.ts', { cwd: ROOT }).map(read).join('\n')
  const others = [...source.matchAll(/\bevent: '(\w+)'/g)].map(([, name]) => name)
  const rows = [...page('docs/reference/audit-events.md').matchAll(/^\| (`.*?) \|/gm)]
  const named = rows.flatMap(([, cell = '']) => [...cell.matchAll(/`(\w+)`/g)].map(m => m[1]))
  expect(named.sort()).toEqual([...new Set([...AUDIT_EVENTS, ...others])].sort())
})

test('every reason of a failed sign-in is documented', () => {
  const source = globSync('src/**/*.ts', { cwd: ROOT }).map(read).join('\n')
  const [, union = ''] = /export type Refusal =\n([^\n]*(?:\n {2}\|[^\n]*)*)/.exec(source) ?? []
  const thrown = [...source.matchAll(/new Refused\('(\w+)'/g)].map(([, reason = '']) => reason)
  const named = [...union.matchAll(/'(\w+)'/g)].map(([, name = '']) => name)
  expect(thrown).toContain('passkey_counter')
  expect(named).toContain('wrong_password')
  // The events sign_in_throttled and second_factor_throttled say it.
  const words = [...thrown, ...named].filter(word => word !== 'throttled')
  const text = page('docs/reference/audit-events.md')
  expect(words.filter(word => !text.includes(`\`${word}\``))).toEqual([])
})

test('every account page is documented', () => {
  const source = globSync('src/**/*.ts', { cwd: ROOT }).map(read).join('\n')
  const paths = [...source.matchAll(/'(\/account\/[a-z-]+)'/g)].map(([, path = '']) => path)
  expect(paths).toContain('/account/security')
  // These have no page of their own.
  const shown = paths.filter(path => !/\/(signed-in|sign-out)$/.test(path))
  const text = page('docs/account-pages.md')
  expect(shown.filter(path => !text.includes(`| \`${path}\` |`))).toEqual([])
})

test('the constants and files that comments name exist', () => {
  const files = globSync(['src/**/*.ts', 'test/**/*.ts'], { cwd: ROOT })
  const lines = /\/\*[\s\S]*?\*\/|(?<!\S)\/\/ [^\n]*/g
  const sources = files.filter(file => file.startsWith('src/')).map(read)
  const code = sources.map(text => text.replaceAll(lines, '')).join('\n')
  const comments = sources
    .flatMap(text => [...text.matchAll(lines)].map(([found]) => found))
    .join('\n')
  const constants = [...comments.matchAll(/`([A-Z]+(?:_[A-Z]+)*)`/g)].map(([, name = '']) => name)
  const named = [...comments.matchAll(/(?<![\w/.-])[a-z][\w/-]*(?:\.test)?\.ts\b/g)].map(
    ([name]) => name,
  )
  expect(constants.length).toBeGreaterThan(10)
  expect(named.length).toBeGreaterThan(40)
  const isMissing = (name: string) => !new RegExp(`\\b${name}\\b`).test(code)
  expect(constants.filter(isMissing)).toEqual([])
  expect(named.filter(name => !files.some(file => `/${file}`.endsWith(`/${name}`)))).toEqual([])
})

const table = [...page('docs/reference/commands.md').matchAll(/^\| `usher ([a-z]+(?: [a-z]+)?)/gm)]
const commands = table.map(([, words = '']) => words)

test('every command in the documents exists', () => {
  const used = [...all.matchAll(/\busher(?: --)? ([a-z]+ ?[a-z]*)/g)].map(([, words = '']) =>
    words.trim(),
  )
  const nouns = new Set(commands.map(words => words.split(' ')[0]))
  const unknown = used.filter(words => nouns.has(words.split(' ')[0]) && !commands.includes(words))
  expect(unknown.filter(words => !commands.includes(words.split(' ')[0] ?? ''))).toEqual([])
})

const tests = globSync('test/**/*.ts', { cwd: ROOT }).map(read).join('\n')

test('commands in a container run the program that the image has', () => {
  const run = [...all.matchAll(/(?:docker exec|compose\S* exec -T|kubectl exec -i) (.*)/g)]
  expect(run.length).toBeGreaterThan(2)
  const words = run.map(([, words = '']) => words)
  expect(words.filter(text => !/^\S+ (-- )?node usher\/src\/cli\.ts /.test(text))).toEqual([])
  const dockerfile = read('Dockerfile')
  expect(dockerfile).toMatch(/^WORKDIR \/\n[\s\S]*^COPY src \/usher\/src$/m)
})

/** Commands of a container engine, a cluster, systemd, a clean clone or the conformance suite. */
const ELSEWHERE =
  /npm run certification|docker|kubectl|systemctl|journalctl|^npm ci && npm (start|test)$/m

test('a test runs each block of commands, except those that need another machine', () => {
  const blocks = [...pages].flatMap(([path, text]) =>
    [...text.matchAll(/```sh ?(\S*)\n(.*?)```/gs)].map(([, name = '', text = '']) => {
      return { path, name, text }
    }),
  )
  const isRun = ({ path, name, text }: (typeof blocks)[number]) => {
    if (path === 'docs/quickstart.md' || name === 'compose') return name !== ''
    return name ? tests.includes(`block('${name}')`) : ELSEWHERE.test(text)
  }
  expect(blocks.length).toBeGreaterThan(15)
  expect(blocks.filter(block => !isRun(block))).toEqual([])
})

test('a test runs each command', () => {
  const words = commands.map(command => command.split(' '))
  const [, ...marked] = all.split(/```sh \w\S*\n/)
  const run = `${tests}${marked.map(text => text.split('```')[0]).join('')}`
  const isRun = (command: string[]) =>
    run.includes(command.map(word => `'${word}'`).join(', ')) ||
    new RegExp(`(usher |['"\`])${command.join(' ')}\\b`).test(run)
  expect(words.length).toBeGreaterThan(15)
  expect(words.filter(command => !isRun(command))).toEqual([])
})

test('git ignores the backup file of the documents', () => {
  const files = [...all.matchAll(/store backup ([a-z][\w.]*)/g)].map(([, file = '']) => file)
  expect(files).not.toEqual([])
  for (const file of files) expect(read('.gitignore').split('\n')).toContain(`/${file}`)
})

test('npm ci prints no engine warnings for production dependencies, with Node 20 and later', () => {
  const { packages } = JSON.parse(read('package-lock.json'))
  const production = Object.entries<Installed>(packages).filter(([, { dev }]) => !dev)
  const oldest = ([, { engines }]: [string, Installed]) =>
    Number(/(?:>=|\^|~) ?v?(\d+)/.exec(engines?.node ?? '')?.[1] ?? 0)
  expect(production.length).toBeGreaterThan(50)
  expect(production.filter(found => oldest(found) > 20)).toEqual([])
})
interface Installed {
  dev?: boolean
  engines?: { node?: string }
}

/** The anchors of headings, as GitHub builds them. */
const anchors = (text: string) =>
  [...text.replaceAll(/```.*?```/gs, '').matchAll(/^#+ (.*)$/gm)].map(([, head = '']) =>
    head
      .toLowerCase()
      .replace(/[^\w -]/g, '')
      .replaceAll(' ', '-'),
  )

/** Targets of the links of a page: path from the root, and anchor. */
const linksOf = (path: string) =>
  [
    ...page(path)
      .replaceAll(/```.*?```/gs, '')
      .matchAll(/\]\(([^)\s]+)\)/g),
  ]
    .map(([, target = '']) => target)
    .filter(target => !/^https?:/.test(target))
    .map(target => {
      const [file = '', anchor] = target.split('#')
      return { target: file ? relative(ROOT, join(ROOT, dirname(path), file)) : path, anchor }
    })

test.each([...pages.keys()])('the links of %s are valid', path => {
  const isDead = ({ target, anchor }: { target: string; anchor: string | undefined }) =>
    !globSync(join(ROOT, target)).length || (anchor && !anchors(page(target)).includes(anchor))
  expect(linksOf(path).filter(isDead)).toEqual([])
})

const AUDIT_PATH = 'docs/reference/self-audit.md'

/** The rows of the self-audit: number, requirement, verdict, tests; by the section's heading. */
const AUDIT = page(AUDIT_PATH)
  .split('\n## ')
  .flatMap(section =>
    [...section.matchAll(/^\| ([\d., ]+) \| (.*) \| (.*) \|(.*)\|$/gm)].map(
      ([, number = '', requirement = '', verdict = '', shown = '']) => {
        return { section: section.split('\n')[0], number, requirement, verdict, shown }
      },
    ),
  )
const isMet = ({ verdict }: (typeof AUDIT)[number]) => /^met\b/.test(verdict)

test('each test that the self-audit names exists, and each requirement that is met has one', () => {
  const named = AUDIT.flatMap(({ shown }) =>
    [...shown.matchAll(/\]\(([^)]*)\) `([^`]*)`/g)].map(([, file = '', name = '']) => {
      return { file: join(dirname(AUDIT_PATH), file), name }
    }),
  )
  expect(named.length).toBeGreaterThan(120)
  const isMissing = ({ file, name }: (typeof named)[number]) => {
    const isTest = file.startsWith('test/') && file.endsWith('.test.ts')
    return !isTest || !globSync(join(ROOT, file)).length || !read(file).includes(name)
  }
  expect(named.filter(isMissing)).toEqual([])
  expect(AUDIT.filter(row => isMet(row) && !/\]\(.*\) `/.test(row.shown))).toEqual([])
})

test('the summary of the self-audit counts its rows, and names each that is not met', () => {
  const summary = page(AUDIT_PATH).matchAll(/^\| \[.*\]\((.*)\) \| (\d+) \| (.*) \|$/gm)
  const sections = [...new Set(AUDIT.map(({ section }) => section))].map(section => {
    const rows = AUDIT.filter(row => row.section === section)
    const missing = rows.filter(({ verdict }) => verdict.startsWith('**not met**'))
    return `${rows.length}: ${missing.map(({ number }) => number).join(', ')}`
  })
  expect(sections.length).toBe(4)
  const counted = [...summary].map(([, , count, missing]) => `${count}: ${missing}`)
  expect(counted.toSorted()).toEqual(sections.toSorted())
})

/** Words of prose: without blocks of code and tables. */
const prose = (text: string) => text.replaceAll(/```.*?```/gs, '').replaceAll(/^ *\|.*$/gm, '')
const wordsIn = (text: string) => text.split(/\s+/).filter(Boolean).length

test('the README has at most 1,000 words of prose', () => {
  expect(wordsIn(prose(page('README.md')))).toBeLessThanOrEqual(1000)
})

test('no page of docs/ has more than 1,500 words, except the reference and the changelog', () => {
  const own = [...pages].filter(([path]) => /^(docs|config)\/(?!reference\/|CHANGELOG)/.test(path))
  const written = (text: string) => text.replaceAll(/<!-- generated: .*?<!-- end -->/gs, '')
  expect(own.filter(([, text]) => wordsIn(written(text)) > 1500).map(([path]) => path)).toEqual([])
})

test('the index has every page, with the terms that engineers search for', () => {
  const linked = new Set(
    ['docs/README.md', 'docs/applications/README.md'].flatMap(path =>
      linksOf(path).map(({ target }) => target),
    ),
  )
  const missing = [...pages.keys()].filter(path => path.startsWith('docs/') && !linked.has(path))
  expect(missing.filter(path => path !== 'docs/README.md')).toEqual([])
  for (const word of ['MFA', 'LDAP', 'roles', 'rate limit', 'disaster recovery', '502', 'logout']) {
    expect(page('docs/README.md')).toMatch(new RegExp(`^\\| [^|]*\\b${word}\\b.*\\]\\(`, 'm'))
  }
})

test('alerts and dashboard use metrics that exist', async () => {
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
