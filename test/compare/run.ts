// `npm run compare -- OTHER_CHECKOUT` plays random walks of users, clients and strangers on this checkout of Usher and
// on another one, in lockstep, and compares every response. Exits with 1 at the first difference.

import { resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { hash } from '@node-rs/argon2'
import { freePort } from '../support/ports.ts'
import { exitOnSignals } from '../support/program.ts'
import { PASSWORD } from '../support/usher.ts'
import { createActor, createRandom, REQUESTS } from './actor.ts'
import { createPlaceholders, sortedLines } from './placeholders.ts'
import { type Exchange, type Side, startSide } from './side.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    store: { type: 'string', default: 'sqlite' },
    seed: { type: 'string', default: String(Date.now()) },
    walks: { type: 'string', default: '200' },
    steps: { type: 'string', default: '40' },
    /** The number of the only walk. */
    only: { type: 'string' },
  },
})
const [other = ''] = positionals
if (!other) throw new Error('usage: npm run compare -- OTHER_CHECKOUT [--store redis] [--seed S]')
const ROOTS = [resolve(import.meta.dirname, '../..'), resolve(other)]
const walks = [...Array(Number(values.walks)).keys()]
const FAILURES = 0.03
/** A difference counts if every try of the walk has it: a lifetime may have ended, or a busy machine was too slow. */
const TRIES = 3
const COMMANDS = ['help', 'config check', 'clients list --json', 'keys list', 'accounts show x']
const LOG_TIMEOUT_MS = 3_000
const LOG_POLL_MS = 50

interface Difference {
  place: string
  story: string[]
  texts: string[]
}

/** The number of responses by request and status: a walk that is refused everywhere compares little. */
const counts = new Map<string, number>()

function count(request: string, exchanges: Exchange[]) {
  for (const { reply } of exchanges) {
    const name = `${request}: ${reply.status}`
    counts.set(name, (counts.get(name) ?? 0) + 1)
  }
}

const usernames = (walk: number, tried: number) =>
  ['ada', 'grace'].map(name => `${name}-${walk}-${tried}`)
const log = (text: string) => process.stderr.write(`${text}\n`)

/** Plays a walk on both sides, up to the first difference. */
async function play(sides: Side[], walk: number, tried: number): Promise<Difference | undefined> {
  const placeholders = sides.map(createPlaceholders)
  const logged = sides.map(side => side.log().length)
  const actors = sides.map(side => createActor(side, usernames(walk, tried)))
  const story: string[] = []
  let hasFailed = false
  for (let step = 0; step < Number(values.steps); step++) {
    const seed = `${values.seed} ${walk} ${step}`
    const choice = createRandom(`${seed} choice`)
    const row = choice.pick(REQUESTS)
    const failure = choice.chance(FAILURES) && choice.pick(['hung' as const, 'stopped' as const])
    hasFailed ||= failure !== false
    if (failure) await Promise.all(sides.map(side => side.fail(failure)))
    const played = actors.map(actor => actor.play(row, createRandom(seed)))
    const ends = await Promise.allSettled(played)
    if (failure) await Promise.all(sides.map(side => side.recover()))
    count(row.name, sides[0]?.exchanges ?? [])
    const texts = sides.map((side, i) => {
      const replies = side.exchanges.splice(0).map(one => placeholders[i]?.exchange(one))
      const end = ends[i]?.status === 'rejected' ? `the browser: ${ends[i].reason}` : ''
      return [...replies, end].join('\n')
    })
    const requests = texts[0]?.split('\n').filter(line => /^([A-Z]+ \/|→ )/.test(line)) ?? []
    const during = failure ? `, while the store is ${failure}` : ''
    story.push(`${step}: ${row.name}${during}`, ...requests)
    if (texts[0] !== texts[1]) return { place: `walk ${walk}, step ${step}`, story, texts }
  }
  const texts = await logsOf(sides, logged)
  // A failure of the store is logged at any time.
  if (hasFailed || texts[0] === texts[1]) return undefined
  return { place: `log of walk ${walk}`, story, texts }
}

/** The logs from these places on. They are written a moment after the responses. */
async function logsOf(sides: Side[], from: number[]): Promise<string[]> {
  for (const until = Date.now() + LOG_TIMEOUT_MS; ; await setTimeout(LOG_POLL_MS)) {
    const texts = sides.map((side, i) => eventsIn(side.log().slice(from[i])))
    if (texts[0] === texts[1] || Date.now() > until) return texts
  }
}

/** The log lines of requests that succeeded, without their order: lines of failed ones are limited by time. */
function eventsIn(lines: string): string {
  // The last line may not be whole.
  const whole = lines.split('\n').slice(0, -1)
  const events = whole.flatMap(line => {
    if (!line.startsWith('{"')) return []
    const { id, time, ms, status = 0, error, ...event } = JSON.parse(line)
    return id && status < 400 && !error
      ? createPlaceholders().plain(JSON.stringify({ ...event, status }))
      : []
  })
  return events.toSorted().join('\n')
}

async function compareCommands(sides: Side[]): Promise<Difference | undefined> {
  for (const words of [...COMMANDS, 'accounts show ada-0-0 --json', 'grants list ada-0-0']) {
    const outputs = sides.map(async side => {
      const { code, stdout, stderr } = await side.command(words)
      // Some lists have no order.
      return createPlaceholders().plain(sortedLines(`${code}\n${stdout}\n${stderr}`))
    })
    const texts = await Promise.all(outputs)
    if (texts[0] !== texts[1]) return { place: `usher ${words}`, story: [], texts }
  }
}

/** Returns the difference that every try of a walk has at the same place. */
async function differenceIn(sides: Side[], walk: number): Promise<Difference | undefined> {
  let difference: Difference | undefined
  for (let tried = 0; tried < TRIES; tried++) {
    const found = await play(sides, walk, tried)
    if (!found || (difference && found.place !== difference.place)) return undefined
    log(`try ${tried + 1}, ${found.place}: ${firstIn(found).lines.join(' | ')}`)
    difference = found
  }
  return difference
}

async function compare(sides: Side[]): Promise<Difference | undefined> {
  for (const walk of walks) {
    if (values.only !== undefined && Number(values.only) !== walk) continue
    const difference = await differenceIn(sides, walk)
    if (difference) return difference
    if (walk % 10 === 9) log(`${walk + 1} walks`)
  }
  return compareCommands(sides)
}

/** The first line that differs: its index, and the line of each side. */
function firstIn({ texts }: Difference) {
  const sides = texts.map(text => text.split('\n'))
  const at = sides[0]?.findIndex((line, i) => line !== sides[1]?.[i]) ?? 0
  return { at, lines: sides.map(lines => String(lines[at])) }
}

/** Prints the walk, and both responses from the request that differs. */
function show(difference: Difference) {
  const { place, story, texts } = difference
  const [, walk] = /walk (\d+)/.exec(place) ?? []
  const only = walk === undefined ? '' : ` --walks ${Number(walk) + 1} --only ${walk}`
  console.log(`${story.join('\n')}\n\nThe sides differ: ${place}. To repeat it:`)
  console.log(`  npm run compare -- ${other} --store ${values.store} --seed ${values.seed}${only}`)
  const { at, lines } = firstIn(difference)
  for (const [i, text] of texts.entries()) {
    const all = text.split('\n')
    const request = all.slice(0, at).findLastIndex(line => /^[A-Z]+ \//.test(line))
    const around = all.slice(Math.max(0, request), at + 15)
    console.log(`\n── ${ROOTS[i]}: ${lines[i]}\n${around.join('\n')}`)
  }
}

exitOnSignals()

const password_hash = await hash(PASSWORD)
const names = walks.flatMap(walk =>
  [...Array(TRIES).keys()].flatMap(tried => usernames(walk, tried)),
)
const accounts = names.map((username, i) => {
  const id = `usr_${String(i).padStart(26, '0')}`
  const email = `${username}@example.org`
  const profile = { id, username, name: username, email, email_verified: true }
  return JSON.stringify({ ...profile, password_hash })
})
const issuer = `http://localhost:${await freePort()}`
log(`seed ${values.seed}, ${values.store}: ${ROOTS.join(' and ')}`)
const sides = await Promise.all(
  ROOTS.map(root => startSide(root, issuer, values.store, accounts.join('\n'))),
)
try {
  const difference = await compare(sides)
  for (const [name, number] of [...counts].toSorted()) log(`${number} × ${name}`)
  if (difference) show(difference)
  else console.log('No difference.')
  process.exitCode = difference ? 1 : 0
} finally {
  await Promise.all(sides.map(side => side.stop()))
}
