// The faults of several Redis together: Sentinels that fail over, Clusters, replicas left behind.

import { execFile } from 'node:child_process'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import { untilInfo } from '../support/redis-together.ts'
import type { Fault } from './experiment.ts'
import { first, portOf, resume, type Stage, suspend } from './stage.ts'

const seconds = (count: number) => setTimeout(count * 1000)

async function killPrimary({ servers }: Stage) {
  await first(servers).kill('SIGKILL')
}

/** Another is primary when it wakes up. */
async function suspendPrimary({ servers }: Stage, pause: number) {
  suspend(first(servers))
  await seconds(pause)
  resume(first(servers))
}

/** What the primary took meanwhile, no replica has heard of. */
async function loseThePrimary(stage: Stage, pause: number) {
  const { servers, links } = stage
  const [primary, heir, other] = servers
  const [way, ...replication] = links
  if (!primary || !heir || !other || !way) throw new Error('three servers, please')
  for (const link of replication) link.turn('stall')
  await seconds(pause)
  await primary.kill('SIGKILL')
  await stage.operator(heir).replicaof('NO', 'ONE')
  await stage.operator(other).replicaof('127.0.0.1', portOf(heir))
  await untilInfo(heir.url, 'replication', /state=online/)
  way.leadTo(portOf(heir))
  way.reset()
}

async function loseSentinels({ servers, sentinels }: Stage) {
  await Promise.all(sentinels.map(sentinel => sentinel.kill('SIGKILL')))
  await seconds(2)
  await first(servers).kill('SIGKILL')
  await first(servers).start()
  await seconds(3)
  await Promise.all(sentinels.map(sentinel => sentinel.start()))
}

/** It comes back as the replica of what was its own. */
async function killMaster({ servers }: Stage, pause: number) {
  await first(servers).kill('SIGKILL')
  await seconds(pause)
  await first(servers).start()
}

async function reshard(stage: Stage) {
  const [from, to] = stage.servers
  if (!from || !to) throw new Error('two masters, please')
  const idOf = async (server: typeof from) => String(await stage.operator(server).cluster('MYID'))
  const [source, target] = await Promise.all([idOf(from), idOf(to)])
  const slots = ['--cluster-from', source, '--cluster-to', target, '--cluster-slots', '1000']
  const address = `127.0.0.1:${portOf(from)}`
  const command = ['--cluster', 'reshard', address, ...slots, '--cluster-yes']
  await promisify(execFile)('redis-cli', command, { maxBuffer: 16 * 1024 * 1024 })
}

export const TOGETHER: Fault[] = [
  { id: 'F4', name: 'Sentinel, kill -9 primary', stage: 'sentinels', inject: killPrimary },
  {
    id: 'F5',
    name: 'Sentinel, SIGSTOP primary',
    stage: 'sentinels',
    seconds: 6,
    inject: suspendPrimary,
  },
  {
    id: 'F6',
    name: 'stalled replication, failover',
    stage: 'replicas',
    usher: { redis: { durability: 'primary' } },
    isLossy: true,
    seconds: 2,
    inject: loseThePrimary,
  },
  {
    id: 'F6',
    name: 'the same, replicated',
    stage: 'replicas',
    usher: { redis: { durability: 'replicated' } },
    seconds: 2,
    inject: loseThePrimary,
  },
  { id: 'F7', name: 'Sentinels down, restart', stage: 'sentinels', inject: loseSentinels },
  { id: 'F8', name: 'Cluster, kill -9 master', stage: 'cluster', seconds: 6, inject: killMaster },
  { id: 'F9', name: 'Cluster, reshard 1000', stage: 'cluster', inject: reshard },
]
