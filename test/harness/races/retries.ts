// Retries of a refresh whose response is lost. The retry must return the same successor, the successor must
// be valid, and the provider must not report a theft.

import { request } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import { SECRET } from '../../support/usher.ts'
import { basic, type Reply } from '../../support/wire.ts'
import { isOk, refresh, refreshForm, TOKEN, tokenOf, word } from '../clients.ts'
import type { Deployment, Node } from '../deployment.ts'
import { first, resume, suspend } from '../stores.ts'
import { family } from '../users.ts'
import { atOnce, type Race, type Round, until } from './race.ts'

const MAX_RETRIES = 50
const READY_TIMEOUT_MS = 10_000

/** Redis replies in one refresh: an upper bound, until a round finds the number. Each one is lost in turn. */
let replies = 12
const MIN_REPLIES = 2

/** Refreshes until the response is not 503. */
async function persist(node: Node, token: string): Promise<Reply> {
  for (let i = 0; i < MAX_RETRIES; i++) {
    const reply = await refresh(node, token)
    if (reply.status !== 503) return reply
    await setTimeout(100)
  }
  throw new Error('the refresh stays unavailable')
}

/** Retries at both processes, then uses the successor. `seen` are the replies that the client received before. */
async function recover(round: Round, nodes: Node[], token: string, seen: Reply[]) {
  const [here, there] = nodes as [Node, Node]
  const replies = [await persist(here, token), await persist(there, token)]
  const wrong = replies.find(reply => !isOk(reply))
  round.must(!wrong, `the retry returned ${wrong && word(wrong)}`)
  const successors = new Set(
    [...seen.filter(isOk), ...replies].map(reply => tokenOf(reply, 'refresh_token')),
  )
  round.must(successors.size === 1, `${successors.size} successors`)
  const next = await persist(here, tokenOf(replies[0] as Reply, 'refresh_token'))
  round.must(isOk(next), `the successor returned ${word(next)}`)
  if (!wrong && successors.size === 1 && isOk(next)) round.winners++
}

const lostAnswer: Race = {
  artefact: 'refresh, HTTP response lost',
  proves: 'a refresh can be retried',
  winners: 'one',
  losers: /^(gave up|200)$/,
  async play({ node, ada, turn }, _n, round) {
    const { refresh: token } = await family(node(turn), ada)
    // The connection is cut at a point between the arrival of the request and the head of the response.
    const steps = turn % 2 ? undefined : () => eventLoop((turn / 2) % 60)
    round.losers.push(await giveUp(node(turn), token, steps))
    await recover(round, [node(turn + 1), node(turn)], token, [])
  },
}

async function eventLoop(turns: number) {
  for (let i = 0; i < turns; i++) await new Promise(setImmediate)
}

/** Sends a refresh, and cuts the connection after `wait`, or after the head of the response. */
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
    path: TOKEN,
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
  winners: 'one',
  losers: /^(200|503 temporarily_unavailable)$/,
  isFault: true,
  async play({ deployment, node, ada, turn }, _n, round) {
    const link = first(deployment.stores.links)
    await untilReady(deployment)
    const { refresh: token } = await family(node(1), ada)
    const before = link.lost()
    const later = turn % replies
    link.loseNextReply(later)
    const answered = await refresh(node(0), token)
    link.relent()
    if (link.lost() === before) replies = later
    round.must(replies >= MIN_REPLIES, 'no reply was lost')
    round.losers.push(word(answered))
    await recover(round, turn % 2 ? [node(0), node(1)] : [node(1), node(0)], token, [answered])
  },
}

/** Longer than the timeout of a Redis command. */
const HANG_MS = 1_200

/** Many clients refresh concurrently, so that Redis stops at every point of a refresh. */
export const hungRedis: Race = {
  artefact: 'refresh, Redis hung',
  proves: 'a refresh can be retried',
  winners: 'all',
  losers: /^(200|503 temporarily_unavailable)$/,
  isFault: true,
  async play({ deployment, node, ada, turn }, n, round) {
    const redis = first(deployment.stores.servers)
    await untilReady(deployment)
    const tokens: string[] = []
    for (let i = 0; i < n; i++) tokens.push((await family(node(i), ada)).refresh)
    const pending = Promise.all(tokens.map((token, i) => refresh(node(i), token)))
    await setTimeout(turn % 25)
    suspend(redis)
    try {
      await setTimeout(HANG_MS)
    } finally {
      resume(redis)
    }
    const answered = await pending
    round.losers = answered.map(word)
    await atOnce(n, i =>
      recover(round, [node(i), node(i + 1)], tokens[i] ?? '', answered.slice(i, i + 1)),
    )
  },
}

/** A paused process continues a refresh whose client has already retried at another process. */
const hungProcess: Race = {
  artefact: 'refresh, process hung',
  proves: 'a refresh can be retried',
  winners: 'one',
  losers: /^gave up$/,
  async play({ deployment, node, ada }, _n, round) {
    const linesOfFirst = () => deployment.counts().lines[0] ?? 0
    const { refresh: token } = await family(node(1), ada)
    const before = linesOfFirst()
    deployment.signal(0, 'SIGSTOP')
    try {
      round.losers.push(await giveUp(node(0), token, () => setTimeout(20)))
      const issued = await refresh(node(1), token)
      const latest = await refresh(node(1), tokenOf(issued, 'refresh_token'))
      round.must(isOk(latest), `the successor returned ${word(latest)}`)
      deployment.signal(0, 'SIGCONT')
      await until(() => linesOfFirst() > before)
      const next = await refresh(node(0), tokenOf(latest, 'refresh_token'))
      round.must(isOk(next), `the second successor returned ${word(next)}`)
      if (isOk(next)) round.winners++
    } finally {
      deployment.signal(0, 'SIGCONT')
    }
  },
}

async function untilReady({ isReadyWithin }: Deployment) {
  if (!(await isReadyWithin(READY_TIMEOUT_MS))) throw new Error('a process is not ready')
}

export const RETRIES = [lostAnswer, lostReply, hungRedis, hungProcess]
