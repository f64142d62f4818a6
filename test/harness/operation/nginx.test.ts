// The nginx configurations of docs/deploy with a real nginx, and a rolling restart of two nodes behind it.

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { refresh, userinfo } from '../../support/journey.ts'
import { startProxy, stopProxy } from '../../support/proxies.ts'
import { type RedisServer, startRedis } from '../../support/redis.ts'
import { freePorts } from '../../support/redis-together.ts'
import { type Service, startService } from '../../support/service.ts'
import { signIn } from '../../support/sign-ins.ts'
import { startUsher, writeConfig } from '../../support/usher.ts'

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

const startNginx = (name: string, change?: (text: string) => string) =>
  startProxy(name, { folder, front, ports, change })

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
  await stopProxy(nginx)
})

test('two nodes behind nginx are restarted one after another under load, and no request fails', {
  timeout: 120_000,
}, async () => {
  const nginx = await startNginx('nginx-several-nodes.conf')
  const stopLoad = startLoad(await tokensOf(FAMILIES))
  await setTimeout(1000)
  for (let round = 0; round < ROUNDS; round++) await replaceNodes()
  const { answered, failed } = await stopLoad()
  await stopProxy(nginx)
  expect(failed).toEqual([])
  expect(answered).toBeGreaterThan(500)
})

test('with $host instead of $http_host, the port is lost and every request is refused', async () => {
  const nginx = await startNginx('nginx-one-node.conf', text => text.replace('$http_host', '$host'))
  expect((await fetch(`${issuer}/.well-known/openid-configuration`)).status).toBe(421)
  await stopProxy(nginx)
})
