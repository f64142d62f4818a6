// Commands read the config folder. While the running service uses something else, they say so, and compare a failed
// request with what the service used.

import { cpSync, rmSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { runUsher } from '../support/command.ts'
import { temporaryFolder } from '../support/folder.ts'
import { authorizationRequest } from '../support/journey.ts'
import { type Service, startService } from '../support/service.ts'

const ROOT = join(import.meta.dirname, '../..')
const folder = temporaryFolder()
const config = join(folder, 'config')
const CALLBACK = 'https://wiki.example.org/callback'
let service: Service
let env: Record<string, string>

const write = (name: string, content: object) =>
  writeFileSync(join(config, name), JSON.stringify(content, null, 2))
const client = (client_id: string, changes: object = {}) => ({
  client_id,
  client_name: `The ${client_id}`,
  redirect_uris: [CALLBACK],
  token_endpoint_auth_method: 'none',
  ...changes,
})

/** The folder with which the service starts. Each test leaves it so. */
function restore() {
  rmSync(config, { recursive: true, force: true })
  cpSync(join(ROOT, 'config'), config, { recursive: true })
  write('clients/wiki.yaml', client('wiki'))
}

beforeAll(async () => {
  restore()
  env = { USHER_CONFIG: config, USHER_STORE: `sqlite:${join(folder, 'usher.db')}` }
  service = await startService(env)
  env.PORT = new URL(service.issuer).port
})
afterAll(() => service.stop())

const usher = (...words: string[]) => runUsher([...words], env)
const readyz = async () => (await fetch(`${service.issuer}/readyz`)).json()
/** Waits until the service has refused the folder, or uses it. */
const until = (state: 'refused' | 'used') =>
  expect
    .poll(readyz)
    .toEqual(
      state === 'refused'
        ? { status: 'ready', checks: { config: 'warning' } }
        : { status: 'ready' },
    )
const NOT_USED = /^The running service does not use this folder since \d{4}-\d\d-\d\dT[\d:]+Z: /

/** Adds a file with an error. */
async function breakFolder() {
  write('clients/broken.yaml', client('broken', { scopes: 'openid' }))
  await until('refused')
}
afterEach(async () => {
  restore()
  await until('used')
})

/** Sends an authorization request that is refused. Returns what `config explain` says. */
async function explained(params: Record<string, string>) {
  return explain(await refused(params))
}

/** Sends an authorization request that is refused. Returns its id. */
async function refused(params: Record<string, string>): Promise<string> {
  const answer = await send(params)
  expect(answer.status).toBe(400)
  return answer.headers.get('x-request-id') ?? ''
}

function send(params: Record<string, string>) {
  const { url } = authorizationRequest(service, { redirect_uri: CALLBACK, ...params })
  return fetch(url, { redirect: 'manual' })
}

/** Returns what `config explain ID` prints, once the failure is stored: after the response. */
async function explain(id: string) {
  let stdout = ''
  await expect
    .poll(async () => {
      ;({ stdout } = await usher('config', 'explain', id))
      return stdout
    })
    .toContain('wrong ')
  return stdout
}

test('a client of a folder that is refused is not compared with the folder', async () => {
  write('clients/added.yaml', client('added'))
  await breakFolder()
  const text = await explained({ client_id: 'added' })
  const [first = '', wrong = ''] = text.split('\n')
  expect(first).toMatch(NOT_USED)
  expect(first).toContain(`${join(config, 'clients/broken.yaml')}:8:3 scopes: unknown key`)
  expect(wrong).toMatch(/^wrong +no client had this client_id then/)
  expect(text).toMatch(/\nregistered +demo, wiki\n/)
  expect(text).toMatch(/\nchange .*added\.yaml has it now: send the request again, once /)
})

test('status says when the folder was loaded, and which file is refused since when', async () => {
  await breakFolder()
  const { stderr } = await runUsher(['status'], env)
  const lines = stderr.split('\n')
  const at = lines.findIndex(line => line.startsWith('config '))
  expect(lines[at]).toMatch(/^config +loaded \d{4}-\d\d-\d\d \d\d:\d\d UTC$/)
  expect(lines[at + 1]).toMatch(/does not use this folder since \S+: .*broken\.yaml:8:3 /)
  expect(stderr).toMatch(/unknown key/)
})

test('a redirect URI is compared with those that the service uses', async () => {
  const other = 'https://wiki.example.org/login'
  write('clients/wiki.yaml', client('wiki', { redirect_uris: [other] }))
  await breakFolder()
  const text = await explained({ client_id: 'wiki', redirect_uri: other })
  expect(text).toMatch(/\nwrong +the redirect_uri is none of those registered for wiki/)
  expect(text).toContain(`registered                               ${CALLBACK}\n`)
  expect(text).toMatch(/\nchange +redirect_uris in \S+wiki\.yaml:4 has it now/)
})

test('a failure is compared with the values of its time, also when the folder is in use again', async () => {
  const id = await refused({ client_id: 'later' })
  expect(await explain(id)).toMatch(/^wrong +no client has this client_id\n/)
  write('clients/later.yaml', client('later'))
  const status = async () => (await send({ client_id: 'later' })).status
  await expect.poll(status).toBe(303)
  const text = await explain(id)
  expect(text).toMatch(/^wrong +no client had this client_id then/)
  expect(text).toMatch(/\nregistered +demo, wiki\n/)
})

test('an error in usher.yaml does not keep a failure from being explained', async () => {
  write('usher.yaml', { lifetimes: { code: 'soon' } })
  await until('refused')
  const text = await explained({ client_id: 'nobody' })
  expect(text).toMatch(NOT_USED)
  expect(text.split('\n')[0]).toContain(`${join(config, 'usher.yaml')}:3:5 lifetimes.code: `)
})

test('every statement about the service says that it does not use the folder', async () => {
  await usher('accounts', 'add', '--username', 'ada', '--password-stdin')
  unlinkSync(join(config, 'claims.yaml'))
  await until('refused')
  const commands = [
    ['config', 'check'],
    ['config', 'explain', 'lifetimes.code'],
    ['config', 'explain', 'wiki'],
    ['accounts', 'why', 'demo', '--client', 'wiki'],
  ]
  for (const words of commands) {
    const { stdout } = await usher(...words)
    expect(stdout, words.join(' ')).toMatch(NOT_USED)
    expect(stdout.split('\n')[0]).toContain(`${join(config, 'claims.yaml')} is missing or empty`)
  }
  const { stderr, stdout } = await usher('clients', 'list')
  expect(stderr).toMatch(NOT_USED)
  expect(stdout).toMatch(/^demo /)
  const doctor = await usher('doctor')
  expect(doctor.stdout).toMatch(
    /\n! config +The running service does not use this folder since .*claims\.yaml is missing/,
  )
  restore()
  await until('used')
  const { stdout: right } = await usher('config', 'check')
  expect(right).toMatch(/^Nothing is wrong/)
  expect((await usher('doctor')).stdout).not.toContain('! config')
})

test('a value that takes effect after a restart is named until then', async () => {
  write('usher.yaml', { listen: { keep_alive: '20 s' } })
  const note = async () => (await usher('config', 'explain', 'listen.keep_alive')).stdout
  await expect
    .poll(note)
    .toMatch(/^The running service has other values of these keys until it is restarted: listen\n/)
  restore()
  await expect.poll(note).toMatch(/^listen\.keep_alive/)
})
