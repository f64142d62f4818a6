// The structure of src: the direction of imports, the place of each package, and the size.

import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { expect, test } from 'vitest'

const ROOT = `${import.meta.dirname}/../../`
const readTree = (pattern: string) =>
  globSync(pattern, { cwd: ROOT, exclude: ['**/node_modules'] })
    .toSorted()
    .map(path => ({ path, text: readFileSync(join(ROOT, path), 'utf8') }))

const source = readTree('src/**/*.ts')
const everything = readTree('src/**/*.*')
const code = everything.filter(({ path }) => /\.(ts|js|lua)$/.test(path))
const data = everything.filter(
  ({ path }) => /\.(json|yaml)$/.test(path) && !path.includes('/locales/'),
)
const page = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8')

/** The imports of a file: own modules as a path below src, packages by name. */
function importsOf({ path, text }: { path: string; text: string }): string[] {
  const quoted = [
    ...text.matchAll(/^(?:import|export|\})(?:[^'\n]*\bfrom)? '([^'\n]+)'$/gm),
    ...text.matchAll(/\bimport\('([^'\n]+)'\)/g),
  ]
  return quoted.map(([, name = '']) =>
    name.startsWith('.') ? normalize(join(dirname(path), name)) : name,
  )
}
const imports = source.flatMap(file =>
  importsOf(file).map(name => ({ file: file.path, imported: name })),
)

/** Each layer may import from the layers below it, and from its own folder. */
const LAYERS = [
  ['main.ts', 'cli.ts'],
  ['server.ts'],
  ['reload.ts'],
  ['commands'],
  ['app.ts'],
  ['features'],
  ['routes.ts'],
  ['account'],
  ['sign-in'],
  ['pages'],
  ['operation'],
  ['config'],
  ['oidc'],
  ['store'],
]
const partOf = (path: string) => path.split('/')[1] ?? ''
const layerOf = (part: string) => LAYERS.findIndex(layer => layer.includes(part))

/** Packages that only one place imports, so that a replacement changes only that place. */
const HOMES: Record<string, RegExp> = {
  'oidc-provider': /^src\/(oidc|features|operation)\//,
  yaml: /^src\/config\//,
  zod: /^src\/(config\/|sign-in\/account\.ts$|features\/accounts-module\.ts$)/,
  'node:sqlite': /^src\/store\/sqlite\.ts$/,
  '@node-rs/bcrypt': /^src\/sign-in\/foreign-hash\.ts$/,
  ioredis: /^src\/store\/redis\//,
  nodemailer: /^src\/features\/mail\/smtp\.ts$/,
  'openid-client': /^src\/features\/upstream\//,
  '@simplewebauthn/server': /^src\/features\/factors\/passkeys\.ts$/,
  '@simplewebauthn/server/helpers': /^src\/features\/factors\/passkeys\.ts$/,
  otpauth: /^src\/features\/factors\//,
  uqr: /^src\/features\/factors\//,
  eta: /^src\/pages\//,
  '@node-rs/argon2': /^src\/sign-in\/(password|foreign-hash)\.ts$/,
  '@koa/router': /^src\/(app|routes|account\/page-feature)\.ts$/,
  'koa-compose': /^src\/app\.ts$/,
  'koa-mount': /^src\/app\.ts$/,
  'ipaddr.js': /^src\/operation\//,
}

/**
 * The size of the source. If your change exceeds a limit for a good reason, raise it in the same commit and
 * give the reason. The field writes 7 to 9 tokens on a line; limits of lines and of files packed the code and
 * cut each flow across many files: there are none. Data counts, so that code does not hide in it.
 * test/documents/map.test.ts limits the functions that a request runs.
 */
const LIMITS = {
  tokens: 277_500, // 275,041 in November 2026; fewer ideas, not denser lines, lower it
  tokensOfWrapper: 56_200, // oidc/ and store/
  tokensOnLine: 9.2,
  wordsOfData: 11_500, // descriptions of keys count
  commonNames: 4, // names of functions in more than three files
}

/** Lines without comments and empty lines. */
function codeLines({ path, text }: { path: string; text: string }): string[] {
  const withoutBlocks = text.replaceAll(/^[ \t]*\/\*[\s\S]*?\*\/.*$/gm, '')
  const comment = path.endsWith('.lua') ? '--' : '//'
  const lines = withoutBlocks.split('\n').map(line => line.trim())
  return lines.filter(line => line && !line.startsWith(comment))
}

/** A token is a word or a single sign. */
function tokensIn(files: typeof code): number {
  const lines = files.flatMap(codeLines)
  return lines.reduce((sum, line) => sum + (line.match(/\w+|[^\w\s]/g) ?? []).length, 0)
}

test('src has files', () => {
  expect(source.length).toBeGreaterThan(30)
  expect(imports.length).toBeGreaterThan(100)
})

test('every folder of src is in a layer', () => {
  const parts = new Set(source.map(({ path }) => partOf(path)))
  expect([...parts].filter(part => layerOf(part) === -1)).toEqual([])
})

test('imports point from upper to lower layers only', () => {
  const upward = imports.filter(({ file, imported }) => {
    if (!imported.startsWith('src/')) return false
    const [from, to] = [partOf(file), partOf(imported)]
    return from !== to && layerOf(to) <= layerOf(from)
  })
  expect(upward.map(({ file, imported }) => `${file} → ${imported}`)).toEqual([])
})

test('no two files import each other, directly or in a circle', () => {
  const next = Map.groupBy(imports, ({ file }) => file)
  const finished = new Set<string>()
  const circles: string[] = []
  const walk = (file: string, way: string[]) => {
    if (way.includes(file)) circles.push([...way.slice(way.indexOf(file)), file].join(' → '))
    if (finished.has(file) || way.includes(file)) return
    for (const { imported } of next.get(file) ?? []) walk(imported, [...way, file])
    finished.add(file)
  }
  for (const { path } of source) walk(path, [])
  expect(circles).toEqual([])
})

test('every import leads to an existing file', () => {
  const paths = new Set(everything.map(({ path }) => path))
  const lost = imports.filter(({ imported }) => imported.startsWith('src/') && !paths.has(imported))
  expect(lost).toEqual([])
})

test.each(Object.entries(HOMES))('%s is imported in one place only', (name, home) => {
  const strays = imports.filter(({ file, imported }) => imported === name && !home.test(file))
  expect(strays).toEqual([])
})

test('every package that is imported is a dependency, and every dependency is imported', () => {
  const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const named = imports
    .map(({ imported }) => imported)
    .filter(name => !name.startsWith('src/') && !name.startsWith('node:'))
    .map(name => name.split('/', name.startsWith('@') ? 2 : 1).join('/'))
  expect([...new Set(named)].toSorted()).toEqual(Object.keys(dependencies).toSorted())
})

/** The files and packages that a file loads at its start, directly or through others. */
function loadedBy(start: string): Set<string> {
  const atStart = /^(?:import|export|\})(?!\stype)(?:[^'\n]*\bfrom)? '([^'\n]+)'$/gm
  const next = new Map(
    source.map(({ path, text }) => [
      path,
      [...text.matchAll(atStart)].map(([, name = '']) =>
        name.startsWith('.') ? normalize(join(dirname(path), name)) : name,
      ),
    ]),
  )
  const loaded = new Set<string>()
  const load = (file: string) => {
    if (loaded.has(file)) return
    loaded.add(file)
    for (const name of next.get(file) ?? []) load(name)
  }
  load(start)
  return loaded
}

test('libraries of optional features are loaded only where they are configured', () => {
  const loaded = loadedBy('src/server.ts')
  expect(loaded).toContain('oidc-provider')
  const optional = [
    'otpauth',
    'uqr',
    'openid-client',
    '@simplewebauthn/server',
    '@node-rs/bcrypt',
    'prom-client',
    'undici',
  ]
  expect(optional.filter(name => loaded.has(name))).toEqual([])
})

test('the primary process of several workers loads nothing of the service', () => {
  const loaded = [...loadedBy('src/main.ts')]
  const packages = loaded.filter(name => !/^(src\/|node:)/.test(name))
  expect(packages.toSorted()).toEqual(['fastest-levenshtein', 'pino', 'yaml'])
})

test('the Koa application is made in one file; elsewhere koa gives types alone', () => {
  const makers = source.filter(({ text }) => /^import (?!type).*from 'koa'$/m.test(text))
  expect(makers.map(({ path }) => path)).toEqual(['src/app.ts'])
})

test('only app.ts imports features, except commands', () => {
  const found = imports
    .filter(({ imported }) => imported.startsWith('src/features/'))
    .map(({ file }) => file)
    .filter(file => !/^src\/(app\.ts|commands\/|features\/)/.test(file))
  expect(found).toEqual([])
})

/** Factories that several files call. Each call makes an object of its own. */
const FACTORIES_OF_MANY: Record<string, string> = {
  createQuota: 'each limits something else',
  createQuotas: 'each limits something else',
  createDeliveryQueue: 'each is another queue',
  createSignatures: 'each signs for another purpose',
  createLog: 'main.ts logs in the primary process, server.ts in each worker',
  createSeal: 'restore reads a backup before there is an installation',
}

test('each object is built in one file, and handed on; commands have one file of their own', () => {
  const made = /^export (?:(?:async )?(?:function|const) (create[A-Z]\w*)|class (\w+) \{)/gm
  const factories = source.flatMap(({ path, text }) =>
    [...text.matchAll(made)].map(([, name = '', className = name]) => ({ name: className, path })),
  )
  expect(factories.length).toBeGreaterThan(30)
  expect(factories.map(({ name }) => name)).toContain('Consents')
  const builders = factories.flatMap(({ name, path }) => {
    const call = new RegExp(`^(?!\\s*(//|\\*)).*\\b${name}(<.*>)?\\(`, 'm')
    const callers = source.filter(file => file.path !== path && call.test(file.text))
    const isOfCommands = (file: { path: string }) => file.path.startsWith('src/commands/')
    const groups = [callers.filter(isOfCommands), callers.filter(file => !isOfCommands(file))]
    return groups.map(files => ({ name, files: files.map(file => file.path) }))
  })
  const repeated = builders.filter(({ files }) => files.length > 1)
  expect(repeated.filter(({ name }) => !(name in FACTORIES_OF_MANY))).toEqual([])
  const named = repeated.map(({ name }) => name)
  expect(Object.keys(FACTORIES_OF_MANY).filter(name => !named.includes(name))).toEqual([])
})

/** The functions of the library for grant types that it does not have; the exact version is pinned. */
const GRANT_HELPERS = 'oidc-provider/lib/helpers/grants.js'

test('no file imports internals of the library', () => {
  const files = readTree('{src,docs}/**/*.ts')
  const deep = files.filter(file =>
    importsOf(file).some(
      name =>
        (name.startsWith('oidc-provider/') && name !== GRANT_HELPERS) ||
        name.includes('node_modules'),
    ),
  )
  expect(deep.map(({ path }) => path)).toEqual([])
})

/** Assignments to a class or a prototype of the library, and to objects that it keeps. */
const OVERRIDES = [
  /\bprototype\b[^\n]*[^=!<>]=[^=>]/,
  /\bObject\.assign\((\w+\.)*([Pp]rototype|session|client|grant)\b/,
  /\b(Session|Client|Grant|IdToken|AccessToken|RefreshToken|ReplayDetection)\.\w+ =[^=>]/,
  /\bdefineProperty\b|\bsetPrototypeOf\b/,
  /\bextends (Provider|provider\.\w+)\b/,
]
const overrides = (text: string) => OVERRIDES.some(pattern => pattern.test(text))

test('one file overrides the library', () => {
  const found = source.filter(({ text }) => overrides(text))
  expect(found.map(({ path }) => path)).toEqual(['src/oidc/library-overrides.ts'])
})

test.each([
  'Object.assign(session, { touched: true })',
  'Object.assign(Client.prototype, {})',
  'Session.find = async () => {}',
  'ReplayDetection.unique = async () => true',
  'const { prototype } = Client; prototype.compareClientSecret = compare',
  'provider.Client.prototype.compareClientSecret = compare',
  "Object.defineProperty(AccessToken.prototype, 'jti', {})",
  'class Overridden extends Provider {}',
  'class Own extends provider.Session {}',
])('an override of the library is found: %s', code => {
  expect(overrides(code)).toBe(true)
})

test('the environment is read in one file', () => {
  const readers = source.filter(({ text }) => /process\.env|['"]node:process['"]/.test(text))
  expect(readers.map(({ path }) => path)).toEqual(['src/config/environment.ts'])
})

test('no file has a name without a meaning', () => {
  const names = everything.flatMap(({ path }) => path.split('/').map(part => part.split('.')[0]))
  const empty = 'util utils helper helpers common type types service services core lib misc shared'
  expect(names.filter(name => empty.split(' ').includes(name ?? ''))).toEqual([])
})

test('there are no default exports and no barrels', () => {
  const found = source.filter(
    ({ path, text }) =>
      /^export default|^export (type )?(\*|\{[^}]*\}) from/m.test(text) ||
      /\bindex\.ts$/.test(path),
  )
  expect(found.map(({ path }) => path)).toEqual([])
})

test('no file of src, the tests or the documentation uses the function `Object` as a cast', () => {
  const files = readTree('{src,test,docs}/**/*.ts')
  const casts = files.filter(({ text }) => /\bObject\(/.test(text))
  expect(casts.map(({ path }) => path)).toEqual([])
})

test('every file starts with its purpose', () => {
  const silent = source.filter(({ text }) => !text.startsWith('// '))
  expect(silent.map(({ path }) => path)).toEqual([])
})

test('the source is small', () => {
  expect(tokensIn(code)).toBeLessThanOrEqual(LIMITS.tokens)
})

test('the wrapper is small: oidc/ and store/', () => {
  const wrapper = code.filter(({ path }) => /^src\/(oidc|store)\//.test(path))
  expect(tokensIn(wrapper)).toBeLessThanOrEqual(LIMITS.tokensOfWrapper)
})

test('the code is not packed: tokens on a line', () => {
  const onLine = tokensIn(code) / code.flatMap(codeLines).length
  expect(onLine).toBeLessThanOrEqual(LIMITS.tokensOnLine)
})

test('no code hides in data: words of JSON and YAML, without languages', () => {
  const words = data.flatMap(({ text }) => text.match(/[\p{L}\p{N}_]+/gu) ?? [])
  expect(words.length).toBeLessThanOrEqual(LIMITS.wordsOfData)
})

/** The names of the functions of a file. */
function functionsOf(text: string): string[] {
  const declared = /^\s*(?:export )?(?:async )?function\*? (\w+) ?[(<]/gm
  const arrow = /^\s*(?:export )?const (\w+)(?: ?[(<]| = (?:async )?(?:\([^)]*\)|\w+) =>)/gm
  const found = [...text.matchAll(declared), ...text.matchAll(arrow)]
  return [...new Set(found.map(([, name = '']) => name))]
}

test('few names stand for functions in more than three files', () => {
  const byName = Map.groupBy(
    source.flatMap(({ text }) => functionsOf(text)),
    name => name,
  )
  const common = [...byName].filter(([, files]) => files.length > 3)
  const list = common.map(([name, files]) => `${name} ${files.length}`).join(', ')
  expect(byName.size).toBeGreaterThan(500)
  expect(common.length, list).toBeLessThanOrEqual(LIMITS.commonNames)
})

/** The files with the types of what a feature can have. */
const SEAMS = ['src/oidc/feature.ts', 'src/account/page-feature.ts']

test('each member that features can have is that of two features or more', () => {
  const seams = source.filter(({ path }) => SEAMS.includes(path))
  const bodies = seams.map(({ text }) =>
    /interface (?:Page)?Feature .*\{\n([\s\S]*?)\n\}/.exec(text),
  )
  const members = bodies.flatMap(body => [...(body?.[1] ?? '').matchAll(/^ {2}(\w+)\?[:(]/gm)])
  const above = source.filter(({ path }) => /^src\/(features|account|sign-in)\//.test(path))
  const owners = members.map(([, name]) => {
    const own = new RegExp(`^ {4,6}(?:async )?${name}(?:: (?![A-Z])|\\(|,$)`, 'm')
    return { name, files: above.filter(({ text }) => own.test(text)).map(({ path }) => path) }
  })
  expect(owners.length).toBeGreaterThan(10)
  expect(owners.filter(({ files }) => files.length < 2)).toEqual([])
})

/** The rows of the table of folders in docs/architecture.md: folder, and its entry below src. */
const rows = page.split('\n').flatMap((text, index) => {
  const [, folder, entry] = /^\| `(?:src\/)?([\w/-]*)` \| \[([\w./-]+)\]/.exec(text) ?? []
  return entry ? [{ folder, entry, place: `docs/architecture.md:${index + 1}` }] : []
})

test('docs/architecture.md has each folder of src, with the file to open first', () => {
  const folders = new Set(
    source.map(({ path }) => path.replace(/^src\//, '').replace(/[^/]*$/, '')),
  )
  expect(rows.map(({ folder }) => folder).toSorted()).toEqual([...folders].toSorted())
})

test('the first comment of an entry says what lives in the folder, and what does not', () => {
  const silent = rows.filter(({ folder, entry }) => {
    const { text = '' } = source.find(({ path }) => path === `src/${entry}`) ?? {}
    const [head = ''] = /^(\/\/.*\n)*/.exec(text) ?? []
    return !head.includes(`The folder ${folder || 'src/'}:`) || !/Not\s+(\/\/ )?here:/.test(head)
  })
  expect(silent).toEqual([])
})

/** A folder of src, or a file that is in none: `oidc/`, `app.ts`. */
const partName = (path: string) => path.replace(/^src\//, '').replace(/\/.*$/, '/')

/** The arrows from one part to another that no way over other parts replaces. */
function shortArrows(): string[] {
  const own = imports.filter(({ imported }) => imported.startsWith('src/'))
  const next = new Map<string, Set<string>>()
  for (const { file, imported } of own) {
    const from = partName(file)
    const to = partName(imported)
    if (from !== to) next.set(from, (next.get(from) ?? new Set()).add(to))
  }
  const below = (part: string): Set<string> =>
    [...(next.get(part) ?? [])].reduce(
      (all, one) => all.add(one).union(below(one)),
      new Set<string>(),
    )
  return [...next].flatMap(([from, parts]) => {
    const others = (to: string) => [...parts].filter(one => one !== to)
    const direct = [...parts].filter(to => !others(to).some(one => below(one).has(to)))
    return direct.map(to => `${from} --> ${to}`)
  })
}

test('the picture of the folders has their imports', () => {
  const [, picture = ''] = /```mermaid\nflowchart TD\n([\s\S]*?)```/.exec(page) ?? []
  const labels = new Map(
    [...picture.matchAll(/(\w+)\[([^\]]+)\]/g)].map(([, id, label]) => [id, label]),
  )
  const drawn = picture.split('\n').flatMap(line => {
    const names = line.split('-->').map(node => labels.get(/\w+/.exec(node)?.[0]))
    return names.slice(1).map((to, index) => `${names[index]} --> ${to}`)
  })
  const first = page.slice(0, page.indexOf('flowchart TD')).split('\n').length
  const message = `draw these arrows from docs/architecture.md:${first}`
  expect(drawn.toSorted(), message).toEqual(shortArrows().toSorted())
})
