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
const code = everything.filter(({ path }) => /\.(ts|lua)$/.test(path))

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
 * Tokens on a line of code, on average, where a token is a word or a single sign. The field writes 7 to 9.
 * Limits of lines and of files packed the code and cut each flow across many files: there are none.
 */
const TOKENS_A_LINE = 9.2
const isCode = (line: string) => !/^\s*(\/\/|--|\/?\*|$)/.test(line)
const tokensOf = (line: string) => line.match(/\w+|[^\w\s]/g)?.length ?? 0

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

test('libraries of optional features are loaded only where they are configured', () => {
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
  load('src/main.ts')
  expect(loaded).toContain('oidc-provider')
  const optional = ['otpauth', 'uqr', 'openid-client', '@simplewebauthn/server']
  expect(optional.filter(name => loaded.has(name))).toEqual([])
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
  const factories = source.flatMap(({ path, text }) =>
    [...text.matchAll(/^export (?:async )?(?:function|const) (create[A-Z]\w*)/gm)].map(
      ([, name = '']) => ({ name, path }),
    ),
  )
  expect(factories.length).toBeGreaterThan(50)
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
  expect(readers.map(({ path }) => path)).toEqual(['src/config/load.ts'])
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

test('the code is not packed: tokens a line', () => {
  const lines = code.flatMap(({ text }) => text.split('\n')).filter(isCode)
  const tokens = lines.map(tokensOf).reduce((sum, each) => sum + each, 0)
  expect(tokens / lines.length).toBeLessThanOrEqual(TOKENS_A_LINE)
})
