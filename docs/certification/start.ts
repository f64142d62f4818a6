// Starts an Usher that is ready for a plan of the OpenID Foundation's conformance suite: an empty store,
// the configuration of the plan, the account of accounts.jsonl, a certificate of its own. README.md beside it.
//
//   ISSUER  https://localhost:3443, by which the suite reaches it
//   SUITE   https://localhost.emobix.co.uk:8443/test/a/usher/, where the suite waits for what comes back

import { execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  appendFileSync,
  cpSync,
  existsSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PLANS } from './plans.ts'
import { startResource } from './resource.ts'

const THEIRS = 'https://localhost.emobix.co.uk:8443/test/a/usher/'
const { ISSUER = 'https://localhost:3443', SUITE = THEIRS } = process.env
const { dirname: HERE } = import.meta
const ROOT = join(HERE, '../..')

const [name = ''] = process.argv.slice(2)
if (name === 'run') {
  await import('./run.ts')
  process.exit()
}
const plan = PLANS[name]
if (!plan) {
  const names = Object.keys(PLANS).join(', ')
  console.error(`npm run certification -- PLAN | run --suite URL, PLAN is one of: ${names}`)
  process.exit(1)
}

const place = mkdtempSync(join(tmpdir(), `usher-${name}-`))
const config = join(place, 'config')
cpSync(join(HERE, plan.folder ?? name), config, { recursive: true })
for (const file of globSync('clients/*.yaml', { cwd: config })) {
  const path = join(config, file)
  const text = readFileSync(path, 'utf8').replaceAll(THEIRS, SUITE)
  // Some are links, also in the copy: cpSync dereferences the folder only.
  rmSync(path)
  writeFileSync(path, text)
}

const { protocol, hostname, port } = new URL(ISSUER)
if (protocol === 'https:') {
  const [cert, key] = [join(place, 'cert.pem'), join(place, 'key.pem')]
  const words = `req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=${hostname} -keyout ${key} -out ${cert}`
  execFileSync('openssl', [...words.split(' '), '-addext', `subjectAltName=DNS:${hostname}`], {
    stdio: 'ignore',
  })
  appendFileSync(join(config, 'usher.yaml'), `\nlisten: { tls: { cert: ${cert}, key: ${key} } }\n`)
  if (existsSync(join(config, 'resources'))) {
    startResource(ISSUER, { cert: readFileSync(cert), key: readFileSync(key) })
  }
}

const env = {
  USHER_SECRET: randomBytes(32).toString('base64url'),
  ...process.env,
  USHER_CONFIG: config,
  USHER_ISSUER: ISSUER,
  USHER_STORE: `sqlite:${join(place, 'usher.db')}`,
  PORT: process.env.PORT ?? (port || '443'),
}
const options = { cwd: ROOT, env, stdio: 'inherit' } as const
const names = ['USHER_CONFIG', 'USHER_ISSUER', 'USHER_STORE', 'USHER_SECRET'] as const
console.log('To rotate keys while the plan runs, in another terminal:')
console.log(`${names.map(name => `${name}=${env[name]}`).join(' ')} npm run usher -- keys rotate`)
const accounts = join(HERE, 'accounts.jsonl')
execFileSync(process.execPath, ['src/cli.ts', 'accounts', 'import', accounts], options)
// Each module registers a client or two; the plan has some twenty, and is run more than once.
const INVITE = 'clients invite --most 1000 --policy without-pkce'
if (/^ *dynamic_registration: true$/m.test(readFileSync(join(config, 'usher.yaml'), 'utf8'))) {
  execFileSync(process.execPath, ['src/cli.ts', ...INVITE.split(' ')], options)
}
const usher = spawn(process.execPath, ['src/main.ts'], options)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => usher.kill(signal))
usher.on('exit', code => {
  rmSync(place, { recursive: true })
  process.exit(code ?? 1)
})
