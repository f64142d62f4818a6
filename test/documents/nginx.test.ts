// The nginx configurations of docs/deploy with a real nginx, and a rolling restart of two nodes behind it.

import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Deployment, deploy, TWO_ON_REDIS } from '../harness/deployment.ts'
import { temporaryFolder } from '../support/folder.ts'
import { refresh, userinfo } from '../support/journey.ts'
import { freePort } from '../support/ports.ts'
import { startProxy, stopProxy } from '../support/proxies.ts'
import { signIn } from '../support/sign-ins.ts'

const FAMILIES = 6
const ROUNDS = 3
/** Of each client, which so finds connections that were idle for a moment. */
const PAUSE_MS = 60
const folder = temporaryFolder()

let issuer: string
let front: number
let nodes: Deployment

beforeAll(async () => {
  // nginx has a self-signed certificate.
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
  front = await freePort()
  issuer = `https://localhost:${front}`
  nodes = await deploy({ ...TWO_ON_REDIS, issuer }, { proxy: ['127.0.0.1'] })
})
afterAll(async () => {
  delete process.env.NODE_TLS_REJECT_UNAUTHORIZED
  await nodes.stop()
})

const startNginx = (name: string, change?: (text: string) => string) =>
  startProxy(name, { folder, front, ports: nodes.ports, change })

/** Starts clients that refresh and use their tokens. The returned function stops them. */
function startLoad(tokens: string[]) {
  let answered = 0
  let isOver = false
  const failed: string[] = []
  const check = ({ status }: { status: number }, name: string) => {
    if (status === 200) answered++
    else failed.push(`${name}: ${status}`)
  }
  const clients = tokens.map(async first => {
    let token = first
    while (!isOver && !failed.length) {
      const refreshed = await refresh({ issuer }, token)
      check(refreshed, 'refresh')
      token = refreshed.body.refresh_token
      check(await userinfo({ issuer }, refreshed.body.access_token), 'userinfo')
      check(await fetch(`${issuer}/.well-known/openid-configuration`), 'discovery')
      await setTimeout(PAUSE_MS)
    }
  })
  return async () => {
    isOver = true
    await Promise.all(clients.map(client => client.catch(error => failed.push(String(error)))))
    return { answered, failed }
  }
}

// The timeout ends a run that hangs: processes start slowly on a busy machine.
test('two nodes behind nginx are restarted one after another under load, and no request fails', {
  timeout: 600_000,
}, async () => {
  const nginx = await startNginx('nginx-several-nodes.conf')
  const families = await signIn(issuer, FAMILIES)
  const stopLoad = startLoad(families.map(({ refresh_token }) => refresh_token))
  await setTimeout(1000)
  for (let node = 0; node < ROUNDS * nodes.ports.length; node++) {
    expect(await nodes.end(node)).toBe(0)
    await nodes.start(node)
    await setTimeout(200)
  }
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
