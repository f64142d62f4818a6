// Faults of a single Redis, of its network, and of the nodes.

import { deepEqual } from 'node:assert/strict'
import { mkdtempSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { authorizationRequest } from '../../support/journey.ts'
import { freePorts } from '../../support/redis-together.ts'
import { send } from '../../support/wire.ts'
import type { Fault } from './experiment.ts'
import { TOGETHER } from './faults-together.ts'
import type { Mode } from './proxy.ts'
import { first, resume, type Stage, suspend } from './stage.ts'

const seconds = (count: number) => setTimeout(count * 1000)

async function kill({ servers }: Stage, pause: number) {
  await first(servers).kill('SIGKILL')
  await seconds(pause)
  await first(servers).start()
}

async function hang({ servers }: Stage, pause: number) {
  suspend(first(servers))
  await seconds(pause)
  resume(first(servers))
}

async function manyKeys(stage: Stage) {
  const operator = stage.operator()
  const fill = `for i = 1, 10000 do
    redis.call('SET', 'filler:' .. ARGV[1] .. ':' .. i, string.rep('x', 64), 'EX', 3600)
  end`
  for (let i = 0; i < 100; i++) await operator.eval(fill, 0, i)
  await kill(stage, 0)
}

function turnTo(mode: Mode): Fault['inject'] {
  return async ({ links }, pause) => {
    first(links).turn(mode)
    await seconds(pause)
    first(links).turn('pass')
  }
}

/** Repeats `act` for `total` seconds, with `pause` milliseconds between two calls. */
async function often(total: number, pause: number, act: () => unknown) {
  const until = performance.now() + total * 1000
  while (performance.now() < until) {
    await act()
    await setTimeout(pause)
  }
}

/** Sets a setting of Redis during `during`, and then restores it. */
async function setting(operator: Redis, [name, value]: [string, string], during: () => unknown) {
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

/** Redis cannot write its file, because its folder was removed. */
async function diskFull(stage: Stage, pause: number) {
  const operator = stage.operator()
  const folder = mkdtempSync(join(tmpdir(), 'usher-gone-'))
  await setting(operator, ['dir', folder], async () => {
    rmdirSync(folder)
    await operator.bgsave()
    await seconds(pause)
  })
  await operator.bgsave()
}

async function becomeReplica(stage: Stage, pause: number) {
  const operator = stage.operator()
  const [closedPort = 0] = await freePorts(1)
  await operator.replicaof('127.0.0.1', closedPort)
  await seconds(pause)
  await operator.replicaof('NO', 'ONE')
}

async function slowScript(stage: Stage, pause: number) {
  const operator = stage.operator()
  await setting(operator, ['busy-reply-threshold', '200'], async () => {
    const script = stage.operator().eval('while true do end', 0).catch(String)
    await seconds(pause)
    await operator.script('KILL')
    await script
  })
}

async function newPassword(stage: Stage, pause: number) {
  const operator = stage.operator()
  await setting(operator, ['requirepass', 'another'], async () => {
    await disconnectAll(operator)
    await seconds(pause)
  })
}

async function full(stage: Stage, pause: number) {
  const operator = stage.operator()
  await setting(operator, ['maxclients', '1'], async () => {
    await disconnectAll(operator)
    await seconds(pause)
  })
}

const killNode: Fault['inject'] = async ({ nodes }, pause) => {
  nodes.kill(0)
  await seconds(pause)
  await nodes.start(0)
}

const rollingRestart: Fault['inject'] = async ({ nodes }) => {
  for (let i = 0; i < 10; i++) {
    const code = await nodes.stop(i)
    if (code !== 0) throw new Error(`a node exited with ${code}`)
    await nodes.start(i)
  }
}

/** Sends anonymous requests from one network until it is refused, then from it and four others. */
const strangers: Fault['inject'] = async ({ nodes: { issuer }, proof }, total) => {
  const statuses = { most: new Set<number>(), others: new Set<number>() }
  const ask = async (sender: keyof typeof statuses, network: string) => {
    const { url } = authorizationRequest({ issuer }, { login_hint: 'x'.repeat(7000) })
    const headers = { 'x-forwarded-for': `${network}.7` }
    statuses[sender].add((await send({ issuer, address: issuer }, url, { headers })).status)
  }
  const askMost = () => Promise.all([1, 2, 3, 4].map(() => ask('most', '203.0.113')))
  for (let i = 0; i < 500 && !statuses.most.has(429); i++) await askMost()
  let turn = 0
  await often(total, 100, () => Promise.all([askMost(), ask('others', `198.51.${turn++ % 4}`)]))
  await proof()
  deepEqual(statuses, { most: new Set([303, 429]), others: new Set([303]) })
}

const ALONE: Fault[] = [
  { id: 'F1', name: 'kill -9', stage: 'alone', inject: kill },
  { id: 'F2', name: 'SIGSTOP 3 s', stage: 'alone', seconds: 3, inject: hang },
  { id: 'F2', name: 'SIGSTOP 10 s', stage: 'alone', seconds: 10, inject: hang },
  { id: 'F3', name: 'restart with 1 M keys', stage: 'alone', inject: manyKeys },
  {
    id: 'F10',
    name: 'blackhole',
    stage: 'linked',
    inject: turnTo('stall'),
  },
  {
    id: 'F10',
    name: 'RST every 500 ms',
    stage: 'linked',
    inject: ({ links }, total) => often(total, 500, () => first(links).reset()),
  },
  { id: 'F10', name: '300 ms delay', stage: 'linked', inject: turnTo('delay') },
  { id: 'F10', name: '1 kB/s', stage: 'linked', inject: turnTo('trickle') },
  {
    id: 'F10',
    name: 'dropped replies',
    stage: 'linked',
    inject: ({ links }, total) => often(total, 200, () => first(links).loseNextReply()),
  },
  {
    id: 'F11',
    name: 'out of memory',
    stage: 'alone',
    goesOn: ['revoked'],
    inject: (ground, pause) =>
      setting(ground.operator(), ['maxmemory', '1mb'], () => seconds(pause).then(ground.proof)),
  },
  { id: 'F12', name: 'MISCONF, disk full', stage: 'without file', inject: diskFull },
  { id: 'F13', name: 'READONLY flip', stage: 'alone', inject: becomeReplica },
  {
    id: 'F14',
    name: 'SCRIPT FLUSH loop',
    stage: 'alone',
    inject: (stage, total) => {
      const operator = stage.operator()
      return often(total, 50, () => operator.script('FLUSH'))
    },
  },
  { id: 'F15', name: 'maxclients reached', stage: 'alone', inject: full },
  { id: 'F16', name: 'foreign slow Lua', stage: 'alone', inject: slowScript },
  { id: 'F17', name: 'password changed', stage: 'alone', inject: newPassword },
  { id: 'F18', name: 'kill -9 one node of three', stage: 'alone', inject: killNode },
  { id: 'F19', name: 'rolling restart x10', stage: 'alone', inject: rollingRestart },
  {
    id: 'F24',
    name: 'strangers fill the store',
    stage: 'alone',
    usher: { proxy: ['127.0.0.1'], limits: { anonymous: 600, anonymous_megabytes: 4 } },
    isHarmless: true,
    goesOn: ['signed in and allowed', 'redeemed', 'refreshed'],
    inject: strangers,
  },
]

export const FAULTS: Fault[] = [...ALONE, ...TOGETHER].sort(
  ({ id: a }, { id: b }) => Number(a.slice(1)) - Number(b.slice(1)),
)

/** The fault with this id whose name begins so. */
export function named(id: string, name: string): Fault {
  const fault = FAULTS.find(one => one.id === id && one.name.startsWith(name))
  if (!fault) throw new Error(`fault not found: ${id} ${name}`)
  return fault
}
