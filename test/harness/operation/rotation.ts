// Key rotation of three nodes on a short schedule, by the real clock: a key is announced, signs, retires and is
// removed. In each phase a node is killed. Clients cache the JWKS for exactly its max-age.

import { setTimeout } from 'node:timers/promises'
import { decodeProtectedHeader } from 'jose'
import { run } from '../../support/command.ts'
import { JwksKeeper } from '../../support/jwks-keeper.ts'
import { send } from '../../support/wire.ts'
import { refresh } from '../clients.ts'
import { type Deployment, THREE_ON_REDIS, withDeployment } from '../deployment.ts'
import type { Row } from '../experiment.ts'
import { answerOf, insist } from '../faults/traffic.ts'
import { families } from '../users.ts'

// Seconds:   0             60              120               180            720
//            first signs   second made     second signs      third made     first removed
const USHER = {
  keys: { rotate_every: '2 min', announce: '1 min' },
  // Together shorter than the longest lifetime of a JWT for an API, which decides how long a key is kept.
  lifetimes: { session: '30 s', id_token: '30 s' },
}
const KILL_SECONDS = [30, 90, 150, 190]
const MIN_TOKENS = 10_000
const FAMILIES = 6
/** Clients that cache the JWKS of each node, and the time between their starts. */
const KEEPERS = 5
const KEEPER_INTERVAL_SECONDS = 6
/** A node reads the keys and builds its new provider within this time. */
const UPDATE_SECONDS = 12
/** The time after that for the last requests. */
const AFTERWARDS_SECONDS = 8
/** The schedule removes the first key within this time. */
const MAX_SECONDS = 900

export function rotateKeys(): Promise<Row> {
  return withDeployment(THREE_ON_REDIS, USHER, async deployment => {
    const rotation = new Rotation(deployment)
    const tokens = await families(deployment, FAMILIES)
    const hint = tokens[0]?.id_token ?? ''
    await Promise.all([
      ...tokens.map(({ refresh }, i) => rotation.refreshAndVerify(refresh, i)),
      rotation.join(),
      rotation.signOut(hint),
      rotation.killInEachPhase(),
    ])
    return rotation.row()
  })
}

class Rotation {
  readonly #deployment: Deployment
  readonly #began = Date.now()
  readonly #keepers: JwksKeeper[] = []
  readonly #failures: string[] = []
  readonly #kids = new Set<string>()
  /** The states of the keys when a node was killed. */
  readonly #phases: string[] = []
  /** Answers to sign-outs with an ID token of the first key; `at` in epoch seconds. */
  readonly #hints: { at: number; status: number }[] = []
  #tokens = 0
  #verifications = 0
  /** The epoch seconds at which the nodes remove the first key. */
  #until = 0

  constructor(deployment: Deployment) {
    this.#deployment = deployment
  }

  #elapsed = () => (Date.now() - this.#began) / 1000

  #isOver(): boolean {
    const end = this.#until + UPDATE_SECONDS + AFTERWARDS_SECONDS
    const isAfterwards = this.#until > 0 && Date.now() / 1000 > end
    return this.#elapsed() > MAX_SECONDS || (isAfterwards && this.#tokens >= MIN_TOKENS)
  }

  /** Refreshes at a random one of two nodes, which change with each turn. Every client verifies the ID token. */
  async refreshAndVerify(refresh_token: string, first: number) {
    const { node } = this.#deployment
    let token = refresh_token
    for (let turn = first; !this.#isOver(); turn++) {
      const attempt = () =>
        refresh(node(turn + Math.floor(Math.random() * 2)), token).then(answerOf)
      const { status, json, text } = (await insist(attempt)).answer
      if (status !== 200) throw new Error(`refresh: ${status} ${text}`)
      token = String(json.refresh_token)
      await this.#verify(String(json.id_token))
    }
  }

  async #verify(id_token: string) {
    this.#tokens++
    this.#kids.add(String(decodeProtectedHeader(id_token).kid))
    for (const [i, keeper] of this.#keepers.entries()) {
      try {
        await keeper.verify(id_token)
        this.#verifications++
      } catch (error) {
        // The node is restarting: the client fetches the JWKS when the node is back.
        const { code = '' } = error as NodeJS.ErrnoException
        if (!code.startsWith('ECONN'))
          this.#failures.push(`${this.#elapsed()} s, keeper ${i}: ${error}`)
      }
    }
  }

  async join() {
    for (let i = 0; i < KEEPERS; i++) {
      this.#keepers.push(...this.#deployment.nodes.map(node => new JwksKeeper(node)))
      await setTimeout(KEEPER_INTERVAL_SECONDS * 1000)
    }
  }

  async signOut(id_token_hint: string) {
    const path = `/api/oauth/logout?${new URLSearchParams({ id_token_hint })}`
    for (; !this.#isOver(); await setTimeout(1000)) {
      const sent = this.#deployment.nodes.map(node => send(node, path))
      for (const reply of await Promise.allSettled(sent)) {
        if (reply.status === 'fulfilled')
          this.#hints.push({ at: Date.now() / 1000, status: reply.value.status })
      }
    }
  }

  async killInEachPhase() {
    const { services, signal, start } = this.#deployment
    for (const [i, time] of KILL_SECONDS.entries()) {
      await setTimeout(Math.max(0, time - this.#elapsed()) * 1000)
      const { stdout } = await run(['src/cli.ts', 'keys', 'list', '--json'], services[0]?.env)
      const { keys } = JSON.parse(stdout) as { keys: { state: string; until?: number }[] }
      this.#phases.push([...new Set(keys.map(({ state }) => state))].join('+'))
      this.#until ||= keys.find(key => key.until)?.until ?? 0
      signal(i, 'SIGKILL')
      await start(i)
    }
  }

  row(): Row {
    const early = statusesOf(this.#hints.filter(({ at }) => at < this.#until))
    const late = statusesOf(this.#hints.filter(({ at }) => at > this.#until + UPDATE_SECONDS))
    const clients = `${this.#verifications} verifications by ${this.#keepers.length} clients in ${Math.round(this.#elapsed())} s, ${this.#failures.length} failed`
    const phases = `a node killed while the keys were ${this.#phases.join(', ')}`
    const hints = `an old ID token as id_token_hint: ${early} until its key was removed, ${late} afterwards`
    return {
      cells: [
        `${this.#tokens} ID tokens of ${this.#kids.size} keys, ${clients}; ${phases}; ${hints}`,
      ],
      isFine: this.#kids.size >= 2 && early === '200' && late === '400' && !this.#failures.length,
      notes: this.#failures.slice(0, 20),
    }
  }
}

const statusesOf = (list: { status: number }[]) =>
  [...new Set(list.map(({ status }) => status))].join()
