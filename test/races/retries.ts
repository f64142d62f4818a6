// A refresh whose answer the client does not get, and what the client does then: it asks again. It
// must be given the same successor, which works, and nobody is taken for a thief.

import { request } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import { SECRET } from '../support/usher.ts'
import { basic, type Reply, send } from '../support/wire.ts'
import { refresh, refreshForm, tokenOf, word } from './clients.ts'
import type { Node } from './deployment.ts'
import { family } from './person.ts'
import { atOnce, isOk, type Race, type Round, until } from './race.ts'

/** Times that a client is ready to hear 503. */
const PATIENCE = 50

/** Replies of Redis in one refresh, each of which is lost in turn: at most, until it is known; and at least. */
let replies = 12
const FEWEST = 2

/** Asks until it is told something else than to ask again. */
async function persist(node: Node, token: string): Promise<Reply> {
  for (let i = 0; i < PATIENCE; i++) {
    const reply = await refresh(node, token)
    if (reply.status !== 503) return reply
    await setTimeout(100)
  }
  throw new Error('unavailable for good')
}

/** The client asks again, and goes on with what it is given; `seen` came of what it sent before. */
async function recover(round: Round, nodes: Node[], token: string, seen: Reply[]) {
  const [here, there] = nodes as [Node, Node]
  const replies = [await persist(here, token), await persist(there, token)]
  const wrong = replies.find(reply => !isOk(reply))
  round.must(!wrong, `asked again, it is answered ${wrong && word(wrong)}`)
  const successors = new Set(
    [...seen.filter(isOk), ...replies].map(reply => tokenOf(reply, 'refresh_token')),
  )
  round.must(successors.size === 1, `${successors.size} successors`)
  const next = await persist(here, tokenOf(replies[0] as Reply, 'refresh_token'))
  round.must(isOk(next), `the successor is answered ${word(next)}`)
  if (!wrong && successors.size === 1 && isOk(next)) round.winners++
}

const lostAnswer: Race = {
  artefact: 'refresh, HTTP answer lost',
  proves: 'a refresh can be retried',
  grace: '30 s',
  winners: 'one',
  losers: /^(gave up|200)$/,
  weight: 1,
  async play({ deployment: { node }, ada, turn }, _n, round) {
    const { refresh: token } = await family(node(turn), ada)
    // From before anything was done up to where half of the answer was read.
    const steps = turn % 2 ? undefined : () => eventLoop((turn / 2) % 60)
    round.losers.push(await giveUp(node(turn), token, steps))
    await recover(round, [node(turn + 1), node(turn)], token, [])
  },
}

async function eventLoop(turns: number) {
  for (let i = 0; i < turns; i++) await new Promise(setImmediate)
}

/** Sends a refresh, and cuts the connection after `wait`, or with the head of the answer. */
async function giveUp(
  { issuer, address }: Node,
  token: string,
  wait?: () => Promise<unknown>,
): Promise<string> {
  const body = new URLSearchParams(refreshForm(token)).toString()
  const { hostname, port } = new URL(address)
  const outgoing = request({
    hostname,
    port,
    path: '/api/oauth/token',
    method: 'POST',
    agent: false,
    headers: {
      ...basic('web', SECRET),
      host: new URL(issuer).host,
      'content-type': 'application/x-www-form-urlencoded',
      'content-length': body.length,
    },
  })
  const { promise, resolve } = Promise.withResolvers<string>()
  outgoing.on('error', () => resolve('gave up'))
  outgoing.on('close', () => resolve('gave up'))
  outgoing.on('response', answer => {
    resolve(String(answer.statusCode))
    outgoing.destroy()
  })
  outgoing.end(body, () => wait?.().then(() => outgoing.destroy()))
  return promise
}

const lostReply: Race = {
  artefact: 'refresh, Redis reply lost',
  proves: 'a refresh can be retried',
  grace: '30 s',
  winners: 'one',
  losers: /^(200|503 temporarily_unavailable)$/,
  weight: 1,
  isFault: true,
  async play({ deployment: { node, links }, ada, turn }, _n, round) {
    const [link] = links
    if (!link) throw new Error('there is nothing between the process and Redis')
    await untilReady(node(0))
    const { refresh: token } = await family(node(1), ada)
    const before = link.lost()
    const later = turn % replies
    link.loseNextReply(later)
    const first = await refresh(node(0), token)
    link.relent()
    if (link.lost() === before) replies = later
    round.must(replies >= FEWEST, 'no reply was lost')
    round.losers.push(word(first))
    await recover(round, turn % 2 ? [node(0), node(1)] : [node(1), node(0)], token, [first])
  },
}

/** Milliseconds: longer than anybody waits for Redis. */
const HUNG = 1_200

/** Of many clients at once, so that Redis stops at every point of a refresh. */
const hungRedis: Race = {
  artefact: 'refresh, Redis hung',
  proves: 'a refresh can be retried',
  grace: '30 s',
  winners: 'all',
  losers: /^(200|503 temporarily_unavailable)$/,
  weight: 1,
  isFault: true,
  async play({ deployment: { node, redis }, ada, turn }, n, round) {
    if (!redis) throw new Error('there is no Redis')
    await Promise.all([untilReady(node(0)), untilReady(node(1))])
    const tokens: string[] = []
    for (let i = 0; i < n; i++) tokens.push((await family(node(i), ada)).refresh)
    const asking = Promise.all(tokens.map((token, i) => refresh(node(i), token)))
    await setTimeout(turn % 25)
    process.kill(redis.pid, 'SIGSTOP')
    try {
      await setTimeout(HUNG)
    } finally {
      process.kill(redis.pid, 'SIGCONT')
    }
    const first = await asking
    round.losers = first.map(word)
    await atOnce(n, i =>
      recover(round, [node(i), node(i + 1)], tokens[i] ?? '', first.slice(i, i + 1)),
    )
  },
}

/** Nobody waits any more for what a process does when it goes on. */
const hungProcess: Race = {
  artefact: 'refresh, process hung',
  proves: 'a refresh can be retried',
  grace: '30 s',
  winners: 'one',
  losers: /^gave up$/,
  weight: 1,
  async play({ deployment, ada }, _n, round) {
    const { node } = deployment
    const { refresh: token } = await family(node(1), ada)
    const before = deployment.lines(0)
    deployment.signal(0, 'SIGSTOP')
    try {
      round.losers.push(await giveUp(node(0), token, () => setTimeout(20)))
      const given = await refresh(node(1), token)
      const latest = await refresh(node(1), tokenOf(given, 'refresh_token'))
      round.must(isOk(latest), `the successor is answered ${word(latest)}`)
      deployment.signal(0, 'SIGCONT')
      await until(() => deployment.lines(0) > before)
      const next = await refresh(node(0), tokenOf(latest, 'refresh_token'))
      round.must(isOk(next), `the one after that is answered ${word(next)}`)
      if (isOk(next)) round.winners++
    } finally {
      deployment.signal(0, 'SIGCONT')
    }
  },
}

const doubleSubmit: Race = {
  artefact: 'refresh, sent twice',
  proves: 'a refresh can be retried',
  grace: '30 s',
  winners: 'one',
  losers: /^200$/,
  weight: 1,
  async play({ deployment: { node }, ada, turn }, _n, round) {
    const { refresh: token } = await family(node(turn), ada)
    const replies = await atOnce(2, i => refresh(node(i), token))
    round.losers = replies.map(word)
    await recover(round, [node(turn), node(turn + 1)], token, replies)
  },
}

async function untilReady(node: Node) {
  for (let i = 0; i < PATIENCE; i++) {
    if ((await send(node, '/readyz')).status === 200) return
    await setTimeout(100)
  }
  throw new Error('not ready any more')
}

export const RETRIES = [lostAnswer, lostReply, hungRedis, hungProcess, doubleSubmit]

/** Clients at once, where Redis is stopped for all of them. */
export const CLIENTS_AT_ONCE = new Map([[hungRedis, 20]])
