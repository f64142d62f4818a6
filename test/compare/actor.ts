// Plays the requests of requests.yaml on one side. Both sides play the same ones, with the same random numbers; each
// sends the codes and tokens that it got itself.

import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { Browser } from '../support/browser.ts'
import { CLIENTS, PASSWORD, SECRET } from '../support/usher.ts'
import { basic, type WireOptions } from '../support/wire.ts'
import { sortedLines } from './placeholders.ts'
import type { Side } from './side.ts'

type Random = ReturnType<typeof createRandom>

/** Returns functions that draw from one sequence of random numbers, which the seed repeats. */
export function createRandom(seed: string) {
  let drawn = 0
  const draw = () => hash('sha256', `${seed} ${drawn++}`)
  const share = () => Number.parseInt(draw().slice(0, 8), 16) / 2 ** 32
  return {
    pick: <T>(all: T[]) => all[Math.floor(share() * all.length)] as T,
    chance: (of: number) => share() < of,
    text: (length: number) => draw().slice(0, length),
  }
}

type Text = string | string[]
type Fields = Record<string, Text>

/** A row of requests.yaml. */
export interface Row {
  name: string
  share: number
  path: Text
  page?: boolean
  as?: Text
  method?: Text
  headers?: Fields
  query?: Fields
  form?: Fields
  body?: Text
}

const read = (): { values: Fields; odd: Fields; requests: Row[] } =>
  parse(readFileSync(join(import.meta.dirname, 'requests.yaml'), 'utf8'))
const { values, odd, requests } = read()
/** Each request as often as its share says. */
export const REQUESTS = requests.flatMap(row => Array<Row>(row.share).fill(row))

/** Values that a request has by itself. */
const OWN = ['owner', 'random', 'username', 'redirect_uri']
const UNKNOWN = { value: 'x', client: 'web' }
const WITHOUT_SECRET = ['spa', 'native', 'app']
const redirectUriOf = (client: string) =>
  CLIENTS[client]?.redirect_uris[0] ?? 'https://new.example.org/callback'

/** Two browsers, and the clients, of some users. */
export function createActor(side: Side, usernames: string[]) {
  const browsers = [browserOf(side), browserOf(side)]
  /** Passwords that were changed, by username. */
  const passwords = new Map<string, string>()
  /** Values of responses by name, with the client that got them. */
  const found: Record<string, { value: string; client: string }[]> = {}

  function keep(client: string, received: Iterable<[string, unknown]>) {
    for (const [name, value] of received) {
      found[name] ??= []
      if (typeof value === 'string') found[name].push({ value, client })
    }
  }

  /** Whether a request has a value that no response had yet. */
  function isTooEarly(row: Row): boolean {
    const names = [...JSON.stringify(row).matchAll(/\$(\w+)/g)].map(([, name = '']) => name)
    return names.some(name => !OWN.includes(name) && !(name in values) && !found[name])
  }

  /** Plays a request, or most often an authorization request if it is too early for that. */
  function play(row: Row, random: Random): Promise<void> {
    const isOther = isTooEarly(row) && random.chance(0.8)
    return send((isOther && requests[0]) || row, random)
  }

  /** Sends a request, and keeps the values of its response. */
  async function send(row: Row, random: Random): Promise<void> {
    /** The client of the values that the request has. */
    let owner = UNKNOWN.client

    const ownValues: Record<string, () => string> = {
      owner: () => owner,
      random: () => random.text(8),
      username: () => random.pick(usernames),
      redirect_uri: () => redirectUriOf(owner),
    }

    function valueFor(name: string): string {
      const own = ownValues[name]
      if (own) return own()
      return values[name] === undefined ? foundValue(name) : fill(values[name])
    }

    /** A value that a response had, most often the latest. */
    function foundValue(name: string): string {
      if (!found[name]?.length) return 'x'
      const { value, client } = random.pick([...found[name], ...Array(3).fill(found[name].at(-1))])
      owner = client || owner
      return value
    }

    function fill(text: Text): string {
      const one = Array.isArray(text) ? random.pick(text) : text
      return one.replaceAll(/\$(\w+)/g, (_, name) => valueFor(name))
    }

    function fillAll(fields: Fields): Record<string, string> {
      const filled: Record<string, string> = {}
      for (const [name, text] of Object.entries(fields)) {
        filled[name] = fill(text)
        if (name === 'client_id') owner = filled[name]
      }
      return filled
    }

    /** Fields of a form or a query: some are odd, or left out. */
    function fillOddly(fields: Fields): Record<string, string> {
      const filled = fillAll(fields)
      const isAuthorization = 'response_type' in fields
      const names = Object.keys(isAuthorization ? odd : fields)
      const isOdd = random.chance(isAuthorization ? 0.35 : 0.12)
      const changes = isOdd ? random.pick([1, 1, 2]) : 0
      for (let i = 0; i < changes; i++) makeOdd(filled, random.pick(names))
      return filled
    }

    function makeOdd(filled: Record<string, string>, name: string) {
      filled[name] = fill(odd[name] ?? 'x')
      if (random.chance(0.3)) delete filled[name]
    }

    const path = fill(row.path)
    const query = row.query && new URLSearchParams(fillOddly(row.query))
    const target = query ? `${path}?${query}` : path
    if (row.page) return visit(target, owner, random)
    const options: WireOptions = {
      headers: row.headers && oneOf(fillAll(row.headers), row, random),
    }
    if (row.method) options.method = fill(row.method)
    if (row.body) options.body = fill(row.body)
    const form = row.form && fillOddly(row.form)
    const client = row.as ? fill(row.as) : owner
    if (form) Object.assign(options, authenticated(form, client, random))
    const { json } = await side.ask(target, options)
    keep(client, Object.entries(json))
  }

  /** Opens a page, answers those that follow, and keeps what the client gets. */
  async function visit(target: string, client: string, random: Random): Promise<void> {
    const browser = random.pick(browsers)
    const before = browser.pages.findLast(({ ours, html }) => ours && html.querySelector('form'))
    if (target !== 'back') await browser.open(target)
    else if (before) browser.pages.push(before)
    for (let pages = 0; pages < 4 && browser.pages.length && browser.page.ours; pages++) {
      if (!(await goOn(browser, random))) return
    }
    const { url, ours } = browser.page
    const received = [...url.searchParams, ...new URLSearchParams(url.hash.slice(1))]
    if (!ours) keep(client, received)
  }

  /** Answers a page, or opens a link of it. Returns false if it does neither. */
  async function goOn(browser: Browser, random: Random): Promise<boolean> {
    const { html } = browser.page
    const forms = html.querySelectorAll('form')
    const links = html.querySelectorAll('main a').map(link => String(link.getAttribute('href')))
    const own = sortedLines(links.filter(link => /^.account./.test(link)).join('\n')).split('\n')
    const isAnswered = forms.length > 0 && random.chance(0.9)
    if (isAnswered) await answer(browser, random)
    if (isAnswered) return true
    const isOpened = Boolean(own[0]) && random.chance(0.6)
    if (isOpened) await browser.open(random.pick(own))
    return isOpened
  }

  /** Submits a form of a page, with answers for the fields that it has. */
  async function answer(browser: Browser, random: Random): Promise<void> {
    const forms = browser.page.html.querySelectorAll('form')
    const index = random.pick([...forms.keys()])
    const inputs = forms[index]?.querySelectorAll('input, button') ?? []
    const names = inputs.map(input => input.getAttribute('name'))
    const shown = forms[index]?.querySelector('#username[readonly]')?.getAttribute('value')
    const username = shown ?? random.pick(usernames)
    const right = passwords.get(username) ?? PASSWORD
    const isChange = names.includes('repeat')
    const next = random.pick([PASSWORD, 'another good long password', 'short'])
    const answers: Record<string, string> = {
      username,
      current: right,
      password: isChange ? next : random.pick([right, right, right, right, right, right, 'wrong']),
      repeat: next,
      decision: names.includes('username')
        ? 'continue'
        : random.pick(['allow', 'allow', 'allow', 'deny']),
      user_code: random.pick(found.user_code ?? [UNKNOWN]).value,
      logout: 'yes',
    }
    const fields = Object.entries(answers).filter(([name]) => names.includes(name))
    const { status } = await browser.submit(Object.fromEntries(fields), index)
    if (isChange && status === 200) passwords.set(username, next)
  }

  return { side, play }
}

/** One of the headers. An odd request has one of several. */
function oneOf(headers: Record<string, string>, { name }: Row, random: Random) {
  return name === 'odd' ? Object.fromEntries([random.pick(Object.entries(headers))]) : headers
}

/** A form with the credentials of a client; sometimes those of another one, or wrong ones. */
function authenticated(form: Record<string, string>, owner: string, random: Random): WireOptions {
  const client = random.chance(0.04) ? random.pick(['web', 'files-api', 'nobody']) : owner
  const secret = random.chance(0.04) ? 'wrong' : SECRET
  const withId = { ...form, client_id: client }
  if (WITHOUT_SECRET.includes(client.split('_')[0] ?? '')) return { body: withId }
  const isInBody = client === 'post' || random.chance(0.1)
  if (isInBody) return { body: { ...withId, client_secret: secret } }
  return { body: form, headers: basic(client, secret) }
}

/** A browser whose requests go to the address of its side. */
function browserOf(side: Side): Browser {
  const fetchFromSide: typeof fetch = async (input, { method, headers, body } = {}) => {
    const { pathname, search } = new URL(String(input))
    const options: WireOptions = { method, headers: Object.fromEntries(new Headers(headers)) }
    if (body) options.body = [...new URLSearchParams(String(body))]
    const reply = await side.ask(pathname + search, options)
    const isEmpty = reply.status === 204 || reply.status === 304
    return new Response(isEmpty ? null : reply.text, reply)
  }
  return new Browser(side.issuer, fetchFromSide)
}
