// The faults of the requirements, one by one: what is done to a Redis that is alone, to the way to it,
// and to the nodes.

import { mkdtempSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { freePorts } from '../support/redis-together.ts'
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

async function turn({ links }: Stage, mode: Mode, pause: number) {
  first(links).turn(mode)
  await seconds(pause)
  first(links).turn('pass')
}

/** Again and again for so many seconds. */
async function often(total: number, pause: number, act: () => unknown) {
  const until = performance.now() + total * 1000
  while (performance.now() < until) {
    await act()
    await setTimeout(pause)
  }
}

/** For so many seconds this setting, and then the one before. */
async function setting(operator: Redis, [name, value]: [string, string], during: () => unknown) {
  const [, before = ''] = (await operator.config('GET', name)) as string[]
  await operator.config('SET', name, value)
  try {
    await during()
  } finally {
    await operator.config('SET', name, before)
  }
}

/** The connections of everybody but the operator. */
const disconnectAll = (operator: Redis) =>
  operator.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')

/** Redis cannot write its file, since its folder is gone. */
async function diskFull(stage: Stage) {
  const operator = stage.operator()
  const folder = mkdtempSync(join(tmpdir(), 'usher-gone-'))
  await setting(operator, ['dir', folder], async () => {
    rmdirSync(folder)
    await operator.bgsave()
    await seconds(5)
  })
  await operator.bgsave()
}

async function becomeReplica(stage: Stage) {
  const operator = stage.operator()
  const [nowhere = 0] = await freePorts(1)
  await operator.replicaof('127.0.0.1', nowhere)
  await seconds(4)
  await operator.replicaof('NO', 'ONE')
}

async function slowScript(stage: Stage) {
  const operator = stage.operator()
  await setting(operator, ['busy-reply-threshold', '200'], async () => {
    const script = stage.operator().eval('while true do end', 0).catch(String)
    await seconds(4)
    await operator.script('KILL')
    await script
  })
}

async function newPassword(stage: Stage) {
  const operator = stage.operator()
  await setting(operator, ['requirepass', 'another'], async () => {
    await disconnectAll(operator)
    await seconds(4)
  })
}

async function full(stage: Stage) {
  const operator = stage.operator()
  await setting(operator, ['maxclients', '1'], async () => {
    await disconnectAll(operator)
    await seconds(4)
  })
}

async function killNode({ nodes }: Parameters<Fault['inject']>[0]) {
  nodes.kill(0)
  await seconds(3)
  await nodes.start(0)
}

async function rollingRestart({ nodes }: Parameters<Fault['inject']>[0]) {
  for (let i = 0; i < 10; i++) {
    const code = await nodes.stop(i)
    if (code !== 0) throw new Error(`a node ended with ${code}`)
    await nodes.start(i)
  }
}

const ALONE: Fault[] = [
  { id: 'F1', name: 'kill -9 for 5 s', stage: 'alone', inject: stage => kill(stage, 5) },
  { id: 'F2', name: 'SIGSTOP for 3 s', stage: 'alone', inject: stage => hang(stage, 3) },
  { id: 'F2', name: 'SIGSTOP for 10 s', stage: 'alone', inject: stage => hang(stage, 10) },
  { id: 'F3', name: 'restart with 1 M keys', stage: 'alone', inject: manyKeys },
  {
    id: 'F10',
    name: 'blackhole for 5 s',
    stage: 'linked',
    inject: stage => turn(stage, 'stall', 5),
  },
  {
    id: 'F10',
    name: 'RST every 500 ms',
    stage: 'linked',
    inject: ({ links }) => often(5, 500, () => first(links).reset()),
  },
  { id: 'F10', name: '300 ms delay', stage: 'linked', inject: stage => turn(stage, 'delay', 5) },
  { id: 'F10', name: '1 kB/s', stage: 'linked', inject: stage => turn(stage, 'trickle', 5) },
  {
    id: 'F10',
    name: 'dropped replies',
    stage: 'linked',
    inject: ({ links }) => often(5, 200, () => first(links).loseNextReply()),
  },
  {
    id: 'F11',
    name: 'out of memory',
    stage: 'alone',
    goesOn: ['revoked'],
    inject: stage => setting(stage.operator(), ['maxmemory', '1mb'], () => seconds(5)),
  },
  { id: 'F12', name: 'MISCONF, disk full', stage: 'without file', inject: diskFull },
  { id: 'F13', name: 'READONLY flip', stage: 'alone', inject: becomeReplica },
  {
    id: 'F14',
    name: 'SCRIPT FLUSH loop',
    stage: 'alone',
    inject: stage => {
      const operator = stage.operator()
      return often(5, 50, () => operator.script('FLUSH'))
    },
  },
  { id: 'F15', name: 'maxclients reached', stage: 'alone', inject: full },
  { id: 'F16', name: 'foreign slow Lua', stage: 'alone', inject: slowScript },
  { id: 'F17', name: 'password changed', stage: 'alone', inject: newPassword },
  { id: 'F18', name: 'kill -9 one node of three', stage: 'alone', inject: killNode },
  { id: 'F19', name: 'rolling restart x10', stage: 'alone', inject: rollingRestart },
]

export const FAULTS: Fault[] = [...ALONE, ...TOGETHER].sort(
  ({ id: a }, { id: b }) => Number(a.slice(1)) - Number(b.slice(1)),
)
