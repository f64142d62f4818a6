// `npm run release` writes the files of a release into `release/`, or into the folder of its argument:
//
//   usher-VERSION.tar.gz   the source of this commit
//   sbom.cdx.json          the packages of production, on every platform (CycloneDX)
//   licenses.txt           the licences of these packages
//   notes.md               the changes of this version
//   SHA256SUMS             checksums of the files above
//
// The same commit and the same npm give the same bytes.

import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

const ROOT = join(import.meta.dirname, '..')
const MAX_OUTPUT_BYTES = 256 * 2 ** 20

interface Component {
  name: string
  version: string
  licenses: { license: { id: string } }[]
}

const { version } = JSON.parse(read('package.json'))
const name = `usher-${version}`
const folder = resolve(process.argv[2] ?? join(ROOT, 'release'))

if (run('git', 'status', '--porcelain').length) fail('git status shows changes. Commit them first')
if (!existsSync(join(ROOT, 'node_modules'))) fail('run npm ci first: licences are read from it')
const notes = notesOf(read('docs/CHANGELOG.md'))
if (!notes) fail(`docs/CHANGELOG.md has no section ${version}`)

rmSync(folder, { recursive: true, force: true })
mkdirSync(folder, { recursive: true })
const sbom = createSbom()
const files: Record<string, string | Buffer> = {
  [`${name}.tar.gz`]: createArchive(),
  'sbom.cdx.json': `${JSON.stringify(sbom, null, 2)}\n`,
  'licenses.txt': sbom.components.map(licenceOf).join('\n'),
  'notes.md': notes,
}
const sums = Object.entries(files).map(([file, content]) => `${sha256(content)}  ${file}\n`)
for (const [file, content] of Object.entries(files)) writeFileSync(join(folder, file), content)
writeFileSync(join(folder, 'SHA256SUMS'), sums.join(''))
console.log(`${folder}: ${name}, ${sbom.components.length} packages on all platforms`)

function fail(reason: string): never {
  console.error(`npm run release: ${reason}`)
  process.exit(1)
}

function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8')
}

function run(program: string, ...words: string[]): Buffer {
  return execFileSync(program, words, { cwd: ROOT, maxBuffer: MAX_OUTPUT_BYTES })
}

/** Files have the time of the commit and fixed modes. `gzip -n` writes no time. */
function createArchive(): Buffer {
  const format = ['--format', 'tar', '--prefix', `${name}/`]
  const input = run('git', '-c', 'tar.umask=0022', 'archive', ...format, 'HEAD')
  return execFileSync('gzip', ['-9', '-n'], { input, maxBuffer: MAX_OUTPUT_BYTES })
}

/** Without the random serial number, and with the time of the commit. */
function createSbom() {
  const place = withoutDevelopment()
  const words = ['sbom', '--package-lock-only', '--sbom-format', 'cyclonedx', '--prefix', place]
  const { serialNumber, metadata, ...rest } = JSON.parse(String(run('npm', ...words)))
  rmSync(place, { recursive: true })
  const timestamp = String(run('git', 'show', '--no-patch', '--format=%cI')).trim()
  const component = { ...metadata.component, name: 'usher' }
  const components: Component[] = rest.components
  return { ...rest, metadata: { ...metadata, timestamp, component }, components }
}

/**
 * Returns a folder with package.json and the lock file without the packages of the tests: `npm sbom --omit dev`
 * would also omit packages that both need, such as yaml.
 */
function withoutDevelopment(): string {
  const place = mkdtempSync(join(tmpdir(), 'usher-sbom-'))
  const { devDependencies, ...manifest } = JSON.parse(read('package.json'))
  const lock = JSON.parse(read('package-lock.json'))
  for (const [path, { dev }] of Object.entries<{ dev?: boolean }>(lock.packages)) {
    if (dev) delete lock.packages[path]
  }
  delete lock.packages[''].devDependencies
  writeFileSync(join(place, 'package.json'), JSON.stringify(manifest))
  writeFileSync(join(place, 'package-lock.json'), JSON.stringify(lock))
  return place
}

/** A binary for another platform is not installed here: only the name of its licence is known. */
function licenceOf({ name, version, licenses }: Component): string {
  const names = licenses.map(({ license }) => license.id)
  const path = join(ROOT, 'node_modules', name)
  const texts = existsSync(path)
    ? readdirSync(path).filter(file => /^(licen[cs]e|notice|copying)/i.test(file))
    : []
  const written = texts.toSorted().map(file => readFileSync(join(path, file), 'utf8'))
  return [`${'─'.repeat(80)}\n${name} ${version}: ${names.join(', ')}\n`, ...written].join('\n')
}

/** The section of this version, without its heading. */
function notesOf(changelog: string): string {
  const section = changelog.split(/^## /m).find(text => text.startsWith(`${version}\n`))
  return section?.slice(version.length).trimStart() ?? ''
}

function sha256(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex')
}
