// Faults of a group of Redis servers: Sentinel failover, Cluster, replication.

import { execFile } from 'node:child_process'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import { untilInfo } from '../../support/redis-together.ts'
import type { Fault } from './experiment.ts'
import { first, portOf, resume, type Stage, suspend } from './stage.ts'

const seconds = (count: number) => setTimeout(count * 1000)

async function killPrimary({ servers }: Stage) {
  await first(servers).kill('SIGKILL')
}

/** Suspends the primary. Another server is primary when it resumes. */
async function suspendPrimary({ servers }: Stage, pause: number) {
  suspend(first(servers))
  await seconds(pause)
  resume(first(servers))
}

/** Kills the primary after its replication stalled: the replicas do not have its latest writes. */
async function losePrimary(stage: Stage, pause: number) {
  const { servers, links } = stage
  const [primary, successor, other] = servers
  const [link, ...replication] = links
  if (!primary || !successor || !other || !link) throw new Error('this fault needs three servers')
  for (const one of replication) one.turn('stall')
  await seconds(pause)
  await primary.kill('SIGKILL')
  await stage.operator(successor).replicaof('NO', 'ONE')
  await stage.operator(other).replicaof('127.0.0.1', portOf(successor))
  await untilInfo(successor.url, 'replication', /state=online/)
  link.leadTo(portOf(successor))
  link.reset()
}

async function loseSentinels({ servers, sentinels }: Stage) {
  await Promise.all(sentinels.map(sentinel => sentinel.kill('SIGKILL')))
  await seconds(2)
  await first(servers).kill('SIGKILL')
  await first(servers).start()
  await seconds(3)
  await Promise.all(sentinels.map(sentinel => sentinel.start()))
}

/** Kills a master. It returns as the replica of its former replica. */
async function killMaster({ servers }: Stage, pause: number) {
  await first(servers).kill('SIGKILL')
  await seconds(pause)
  await first(servers).start()
}

async function reshard(stage: Stage) {
  const [from, to] = stage.servers
  if (!from || !to) throw new Error('this fault needs two masters')
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
    inject: losePrimary,
  },
  {
    id: 'F6',
    name: 'stalled, durability replicated',
    stage: 'replicas',
    usher: { redis: { durability: 'replicated' } },
    seconds: 2,
    inject: losePrimary,
  },
  { id: 'F7', name: 'Sentinels down, restart', stage: 'sentinels', inject: loseSentinels },
  { id: 'F8', name: 'Cluster, kill -9 master', stage: 'cluster', seconds: 6, inject: killMaster },
  { id: 'F9', name: 'Cluster, reshard 1000', stage: 'cluster', inject: reshard },
]
