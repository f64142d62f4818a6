// The nginx configurations of docs/deploy with a real nginx, and a rolling restart of two nodes behind it.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { makeCertificate } from '../support/certificates.ts'
import { refresh, userinfo } from '../support/journey.ts'
import { findProgram } from '../support/programs.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { freePorts } from '../support/redis-together.ts'
import { type Service, startService } from '../support/service.ts'
import { signIn } from '../support/sign-ins.ts'
import { startUsher, writeConfig } from '../support/usher.ts'

const FAMILIES = 6
const ROUNDS = 3
const USHER_SECRET = Buffer.alloc(32, 'nginx').toString('base64url')
const folder = mkdtempSync(join(tmpdir(), 'usher-nginx-'))

let redis: RedisServer
let issuer: string
let front: number
let ports: number[]
let nodes: Service[]

beforeAll(async () => {
  // nginx has a self-signed certificate.
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
  const [port = 0, redisPort, ...others] = await freePorts(4)
  front = port
  ports = others
  issuer = `https://localhost:${front}`
  redis = await startRedis({ port: redisPort })
  const accounts = await startUsher({ store: redis.url, env: { USHER_SECRET } })
  await accounts.addAccount({ username: 'ada' })
  await accounts.close()
  mkdirSync(join(folder, 'config'))
  writeConfig(join(folder, 'config'), { usher: { issuer, proxy: ['127.0.0.1'] } })
  nodes = await Promise.all(ports.map(startNode))
})
afterAll(async () => {
  delete process.env.NODE_TLS_REJECT_UNAUTHORIZED
  await Promise.all(nodes.map(node => node.stop()))
  await redis.stop()
  rmSync(folder, { recursive: true })
})

const startNode = (port: number) =>
  startService({
    USHER_CONFIG: join(folder, 'config'),
    USHER_STORE: redis.url,
    USHER_SECRET,
    PORT: String(port),
    HOST: '127.0.0.1',
  })

/** Starts nginx. Only the addresses and certificates of the configuration are replaced. */
async function startNginx(name: string, change = (text: string) => text) {
  const { cert, key } = makeCertificate(folder, 'localhost')
  const addresses = ports.map(port => `127.0.0.1:${port}`)
  const shipped = readFileSync(join(import.meta.dirname, '../../docs/deploy', name), 'utf8')
  const text = shipped
    .replaceAll(/(?<=server )[\d.]+:3000/g, () => addresses.shift() ?? '')
    .replace('listen 443', `listen 127.0.0.1:${front}`)
    .replace('listen [::]:443', `listen [::1]:${front}`)
    .replace('/etc/ssl/id.example.org.pem', cert)
    .replace('/etc/ssl/id.example.org.key', key)
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  const paths = temporary.map(kind => `${kind}_temp_path ${folder}/${kind};`)
  writeFileSync(join(folder, 'usher.conf'), change(text))
  writeFileSync(
    join(folder, 'nginx.conf'),
    `daemon off; pid ${folder}/pid; error_log ${folder}/error.log;
     events {} http { access_log off; ${paths.join(' ')} include ${folder}/usher.conf; }`,
  )
  const nginx = spawn(
    findProgram('nginx', 'nginx'),
    ['-p', folder, '-c', join(folder, 'nginx.conf')],
    {
      stdio: ['ignore', 'ignore', 'inherit'],
    },
  )
  await vi.waitFor(
    async () => {
      const socket = connect(front, '127.0.0.1')
      await once(socket, 'connect')
      socket.destroy()
    },
    { timeout: 10_000 },
  )
  return nginx
}

async function stop(nginx: ChildProcess) {
  const exited = once(nginx, 'exit')
  nginx.kill('SIGTERM')
  await exited
}

/** Starts clients that refresh and use their tokens. The returned function stops them. */
function startLoad(families: string[]) {
  let answered = 0
  let isOver = false
  const failed: string[] = []
  const check = ({ status }: { status: number }, name: string) => {
    if (status === 200) answered++
    else failed.push(`${name}: ${status}`)
  }
  const clients = families.map(async refresh_token => {
    let token = refresh_token
    while (!isOver && !failed.length) {
      const tokens = await refresh({ issuer }, token)
      check(tokens, 'refresh')
      token = tokens.body.refresh_token
      check(await userinfo({ issuer }, tokens.body.access_token), 'userinfo')
      check(await fetch(`${issuer}/.well-known/openid-configuration`), 'discovery')
    }
  })
  return async () => {
    isOver = true
    await Promise.all(clients.map(client => client.catch(error => failed.push(String(error)))))
    return { answered, failed }
  }
}

async function tokensOf(count: number): Promise<string[]> {
  return (await signIn(issuer, count)).map(({ refresh_token }) => refresh_token)
}

async function replaceNodes() {
  for (const [i, port] of ports.entries()) {
    expect(await nodes[i]?.stop()).toBe(0)
    nodes[i] = await startNode(port)
    await setTimeout(200)
  }
}

test('one node behind nginx: users sign in at an issuer with a port', async () => {
  const nginx = await startNginx('nginx-one-node.conf')
  const [token = ''] = await tokensOf(1)
  expect((await refresh({ issuer }, token)).status).toBe(200)
  await stop(nginx)
})

test('two nodes behind nginx are restarted one after another under load, and no request fails', {
  timeout: 120_000,
}, async () => {
  const nginx = await startNginx('nginx-several-nodes.conf')
  const stopLoad = startLoad(await tokensOf(FAMILIES))
  await setTimeout(1000)
  for (let round = 0; round < ROUNDS; round++) await replaceNodes()
  const { answered, failed } = await stopLoad()
  await stop(nginx)
  expect(failed).toEqual([])
  expect(answered).toBeGreaterThan(500)
})

test('with $host instead of $http_host, the port is lost and every request is refused', async () => {
  const nginx = await startNginx('nginx-one-node.conf', text => text.replace('$http_host', '$host'))
  expect((await fetch(`${issuer}/.well-known/openid-configuration`)).status).toBe(421)
  await stop(nginx)
})
