// The faults: of a single Redis, of its network, of the processes, and of a group of Redis servers.

import { deepEqual } from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { Redis } from 'ioredis'
import type { Mode } from '../../support/link.ts'
import { freePort } from '../../support/ports.ts'
import { untilInfo } from '../../support/redis-together.ts'
import { send } from '../../support/wire.ts'
import type { Deployment } from '../deployment.ts'
import { first, portOf, resume, type StoreKind, suspend } from '../stores.ts'
import { requestFor } from '../users.ts'

export interface Fault {
  id: string
  name: string
  store: StoreKind
  /** The content of usher.yaml. */
  usher?: object
  /** A harmless fault may not cause a 503. */
  isHarmless?: boolean
  /** Losses are documented for this fault: they are counted, and do not fail. */
  isLossy?: boolean
  /** Operations that must be acknowledged during the fault. */
  goesOn?: string[]
  /** The duration of the fault; 5 seconds by default. Some faults end by themselves. */
  seconds?: number
  /**
   * Causes the fault and ends it. Resolves when the recovery can begin. `proof` resolves when each operation of
   * `goesOn` was acknowledged during the fault, or after ten seconds.
   */
  inject(deployment: Deployment, seconds: number, proof: () => Promise<void>): Promise<void>
}

const wait = (seconds: number) => setTimeout(seconds * 1000)

/** Repeats `act` for `seconds`, with a pause between two calls. */
async function often(seconds: number, pauseMs: number, act: () => unknown) {
  const until = performance.now() + seconds * 1000
  while (performance.now() < until) {
    await act()
    await setTimeout(pauseMs)
  }
}

/** Sets a setting of Redis during `during`, and then restores it. */
async function withSetting(operator: Redis, name: string, value: string, during: () => unknown) {
  const [, before = ''] = (await operator.config('GET', name)) as string[]
  await operator.config('SET', name, value)
  try {
    await during()
  } finally {
    await operator.config('SET', name, before)
  }
}

/** Closes every connection except the operator's. */
const disconnectAll = (operator: Redis) =>
  operator.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')

/** Kills the first server. In a group, it returns as the replica of its former replica. */
async function kill({ stores }: Deployment, seconds: number) {
  const server = first(stores.servers)
  await server.kill('SIGKILL')
  await wait(seconds)
  await server.start()
}

async function hang({ stores }: Deployment, seconds: number) {
  suspend(first(stores.servers))
  await wait(seconds)
  resume(first(stores.servers))
}

async function killWithManyKeys(deployment: Deployment) {
  const operator = deployment.stores.operator()
  const fill = `for i = 1, 10000 do
    redis.call('SET', 'filler:' .. ARGV[1] .. ':' .. i, string.rep('x', 64), 'EX', 3600)
  end`
  for (let i = 0; i < 100; i++) await operator.eval(fill, 0, i)
  await kill(deployment, 0)
}

const turnLink = (mode: Mode) => async (deployment: Deployment, seconds: number) => {
  const link = first(deployment.stores.links)
  link.turn(mode)
  await wait(seconds)
  link.turn('pass')
}

function resetLink({ stores }: Deployment, seconds: number) {
  return often(seconds, 500, () => first(stores.links).reset())
}

function dropReplies({ stores }: Deployment, seconds: number) {
  return often(seconds, 200, () => first(stores.links).loseNextReply())
}

const outOfMemory: Fault['inject'] = ({ stores }, seconds, proof) =>
  withSetting(stores.operator(), 'maxmemory', '1mb', () => wait(seconds).then(proof))

/** Redis cannot write its file, because its folder was removed. */
async function fillDisk({ stores }: Deployment, seconds: number) {
  const operator = stores.operator()
  const folder = mkdtempSync(join(tmpdir(), 'usher-gone-'))
  await withSetting(operator, 'dir', folder, async () => {
    rmdirSync(folder)
    await operator.bgsave()
    await wait(seconds)
  })
  await operator.bgsave()
}

async function becomeReplica({ stores }: Deployment, seconds: number) {
  const operator = stores.operator()
  const closedPort = await freePort()
  await operator.replicaof('127.0.0.1', closedPort)
  await wait(seconds)
  await operator.replicaof('NO', 'ONE')
}

function flushScripts({ stores }: Deployment, seconds: number) {
  const operator = stores.operator()
  return often(seconds, 50, () => operator.script('FLUSH'))
}

/** Disconnects every client, which cannot connect again while the setting has the value. */
const lockOut =
  (name: string, value: string) => async (deployment: Deployment, seconds: number) => {
    const operator = deployment.stores.operator()
    await withSetting(operator, name, value, async () => {
      await disconnectAll(operator)
      await wait(seconds)
    })
  }

async function runSlowScript({ stores }: Deployment, seconds: number) {
  const operator = stores.operator()
  await withSetting(operator, 'busy-reply-threshold', '200', async () => {
    const script = stores.operator().eval('while true do end', 0).catch(String)
    await wait(seconds)
    await operator.script('KILL')
    await script
  })
}

async function killProcess({ signal, start }: Deployment, seconds: number) {
  signal(0, 'SIGKILL')
  await wait(seconds)
  await start(0)
}

async function restartInTurn({ end, start }: Deployment) {
  for (let i = 0; i < 10; i++) {
    const code = await end(i)
    if (code !== 0) throw new Error(`a process exited with ${code}`)
    await start(i)
  }
}

/** Sends anonymous requests from one network until it is refused, then from it and four others. */
const strangers: Fault['inject'] = async ({ issuer }, seconds, proof) => {
  const statuses = { most: new Set<number>(), others: new Set<number>() }
  const ask = async (sender: keyof typeof statuses, network: string) => {
    const { url } = requestFor({ issuer }, { client_id: 'web', login_hint: 'x'.repeat(7000) })
    const headers = { 'x-forwarded-for': `${network}.7` }
    statuses[sender].add((await send({ issuer, address: issuer }, url, { headers })).status)
  }
  const askMost = () => Promise.all([1, 2, 3, 4].map(() => ask('most', '203.0.113')))
  for (let i = 0; i < 500 && !statuses.most.has(429); i++) await askMost()
  let turn = 0
  await often(seconds, 100, () => Promise.all([askMost(), ask('others', `198.51.${turn++ % 4}`)]))
  await proof()
  deepEqual(statuses, { most: new Set([303, 429]), others: new Set([303]) })
}

/** Sentinels promote a replica. */
function killPrimary({ stores }: Deployment) {
  return first(stores.servers).kill('SIGKILL')
}

/** Kills the primary after its replication stalled: the replicas do not have its latest writes. */
async function losePrimary({ stores }: Deployment, seconds: number) {
  const { servers, links, operator } = stores
  const [primary, successor, other] = servers
  const [link, ...replication] = links
  if (!primary || !successor || !other || !link) throw new Error('this fault needs three servers')
  for (const one of replication) one.turn('stall')
  await wait(seconds)
  await primary.kill('SIGKILL')
  await operator(successor).replicaof('NO', 'ONE')
  await operator(other).replicaof('127.0.0.1', portOf(successor))
  await untilInfo(successor.url, 'replication', /state=online/)
  link.leadTo(portOf(successor))
  link.reset()
}

async function loseSentinels({ stores: { servers, sentinels } }: Deployment) {
  await Promise.all(sentinels.map(sentinel => sentinel.kill('SIGKILL')))
  await wait(2)
  await first(servers).kill('SIGKILL')
  await first(servers).start()
  await wait(3)
  await Promise.all(sentinels.map(sentinel => sentinel.start()))
}

async function reshard({ stores }: Deployment) {
  const { servers, operator } = stores
  const [from, to] = servers
  if (!from || !to) throw new Error('this fault needs two masters')
  const source = String(await operator(from).cluster('MYID'))
  const target = String(await operator(to).cluster('MYID'))
  const slots = ['--cluster-from', source, '--cluster-to', target, '--cluster-slots', '1000']
  const address = `127.0.0.1:${portOf(from)}`
  const command = ['--cluster', 'reshard', address, ...slots, '--cluster-yes']
  await promisify(execFile)('redis-cli', command, { maxBuffer: 16 * 1024 * 1024 })
}

const PRIMARY = { redis: { durability: 'primary' } }
const REPLICATED = { redis: { durability: 'replicated' } }
const FEW_ANONYMOUS = {
  proxy: ['127.0.0.1'],
  limits: { anonymous: 600, anonymous_megabytes: 4 },
}

// biome-ignore format: a table
export const FAULTS: Fault[] = [
  { id: 'F1', name: 'kill -9', store: 'synced', inject: kill },
  { id: 'F2', name: 'SIGSTOP 3 s', store: 'synced', seconds: 3, inject: hang },
  { id: 'F2', name: 'SIGSTOP 10 s', store: 'synced', seconds: 10, inject: hang },
  { id: 'F3', name: 'restart with 1 M keys', store: 'synced', inject: killWithManyKeys },
  { id: 'F4', name: 'Sentinel, kill -9 primary', store: 'sentinels', inject: killPrimary },
  { id: 'F5', name: 'Sentinel, SIGSTOP primary', store: 'sentinels', seconds: 6, inject: hang },
  { id: 'F6', name: 'stalled replication, failover', store: 'replicas',
    usher: PRIMARY, isLossy: true, seconds: 2, inject: losePrimary },
  { id: 'F6', name: 'stalled, durability replicated', store: 'replicas',
    usher: REPLICATED, seconds: 2, inject: losePrimary },
  { id: 'F7', name: 'Sentinels down, restart', store: 'sentinels', inject: loseSentinels },
  { id: 'F8', name: 'Cluster, kill -9 master', store: 'cluster', seconds: 6, inject: kill },
  { id: 'F9', name: 'Cluster, reshard 1000', store: 'cluster', inject: reshard },
  { id: 'F10', name: 'blackhole', store: 'one link', inject: turnLink('stall') },
  { id: 'F10', name: 'RST every 500 ms', store: 'one link', inject: resetLink },
  { id: 'F10', name: '300 ms delay', store: 'one link', inject: turnLink('delay') },
  { id: 'F10', name: '1 kB/s', store: 'one link', inject: turnLink('trickle') },
  { id: 'F10', name: 'dropped replies', store: 'one link', inject: dropReplies },
  { id: 'F11', name: 'out of memory', store: 'synced', goesOn: ['revoked'], inject: outOfMemory },
  { id: 'F12', name: 'MISCONF, disk full', store: 'without file', inject: fillDisk },
  { id: 'F13', name: 'READONLY flip', store: 'synced', inject: becomeReplica },
  { id: 'F14', name: 'SCRIPT FLUSH loop', store: 'synced', inject: flushScripts },
  { id: 'F15', name: 'maxclients reached', store: 'synced', inject: lockOut('maxclients', '1') },
  { id: 'F16', name: 'foreign slow Lua', store: 'synced', inject: runSlowScript },
  { id: 'F17', name: 'password changed', store: 'synced',
    inject: lockOut('requirepass', 'another') },
  { id: 'F18', name: 'kill -9 one process of three', store: 'synced', inject: killProcess },
  { id: 'F19', name: 'rolling restart x10', store: 'synced', inject: restartInTurn },
  { id: 'F24', name: 'strangers fill the store', store: 'synced',
    usher: FEW_ANONYMOUS, isHarmless: true,
    goesOn: ['signed in and allowed', 'redeemed', 'refreshed'], inject: strangers },
]

/** The fault with this id whose name begins so. */
export function named(id: string, name: string): Fault {
  const fault = FAULTS.find(one => one.id === id && one.name.startsWith(name))
  if (!fault) throw new Error(`fault not found: ${id} ${name}`)
  return fault
}
