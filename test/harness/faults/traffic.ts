// Measured requests of clients and browsers. A request is retried until there is an answer. A 503 or a cut
// connection is no answer: it does not tell whether the operation happened.

import { setTimeout } from 'node:timers/promises'
import { Browser, type Page } from '../../support/browser.ts'
import type { Authenticated } from '../clients.ts'

export interface Sample {
  /** The time of the request, in milliseconds. */
  at: number
  /** The duration until the answer. */
  ms: number
  /** 0 for a cut connection. */
  status: number
  path: string
}

const REQUEST_TIMEOUT_MS = 8_000
const RETRY_TIMEOUT_MS = 30_000
const PAUSE_MS = { first: 100, longest: 500 }

export class GaveUp extends Error {
  override name = 'GaveUp'
}

export class NoAnswer extends Error {
  override name = 'NoAnswer'
}

/** Returns a reply below 500. Throws `NoAnswer` for others. */
export function answerOf<T extends { status: number }>(reply: T): T {
  if (reply.status >= 500) throw new NoAnswer(`${reply.status}`)
  return reply
}

export interface Reply {
  status: number
  json: Record<string, unknown>
  /** The request was retried. */
  again: boolean
}

/** Retries until `attempt` returns an answer, and throws `GaveUp` after `timeout` milliseconds. */
export async function insist<T>(
  attempt: () => Promise<T>,
  timeout = RETRY_TIMEOUT_MS,
  isOver = () => false,
): Promise<{ answer: T; again: boolean }> {
  const started = performance.now()
  for (let pause = PAUSE_MS.first, again = false; ; again = true) {
    try {
      return { answer: await attempt(), again }
    } catch (error) {
      if (!isCut(error as Error)) throw error
    }
    const waited = performance.now() - started
    if (waited > timeout || isOver()) throw new GaveUp(`no answer in ${Math.round(waited)} ms`)
    await setTimeout(pause * (0.75 + Math.random() / 2))
    pause = Math.min(2 * pause, PAUSE_MS.longest)
  }
}

/** True if the error of `fetch` or of a socket means a cut connection or a timeout. */
function isCut({ name, code = '', message }: NodeJS.ErrnoException): boolean {
  return (
    ['NoAnswer', 'TimeoutError', 'AbortError'].includes(name) ||
    ['fetch failed', 'terminated'].includes(message) ||
    /^E[A-Z]+$/.test(code)
  )
}

export class Traffic {
  readonly issuer: string
  readonly samples: Sample[] = []
  #end = Number.POSITIVE_INFINITY

  constructor(issuer: string) {
    this.issuer = issuer
  }

  /** Ends all retries in `time` milliseconds. */
  endIn(time: number) {
    this.#end = performance.now() + time
  }

  readonly isOver = () => performance.now() > this.#end

  readonly fetch: typeof fetch = async (target, init) => {
    const at = performance.now()
    const path = new URL(String(target)).pathname.replace(/[\w-]{43}$/, 'ID')
    let status = 0
    try {
      const answer = await fetch(target, {
        ...init,
        signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
      })
      status = answer.status
      return answer
    } finally {
      this.samples.push({ at, ms: performance.now() - at, status, path })
    }
  }

  /** Sends a request with retries. */
  get(path: string, headers: Record<string, string>, timeout?: number): Promise<Reply> {
    return this.#ask(path, async () => ({ headers }), timeout)
  }

  /** Sends a form with retries. `make` is called for each attempt. */
  post(path: string, make: () => Promise<Authenticated>, timeout?: number): Promise<Reply> {
    const request = async () => {
      const { headers, body } = await make()
      return { method: 'POST', headers, body: new URLSearchParams(body) }
    }
    return this.#ask(path, request, timeout)
  }

  async #ask(path: string, make: () => Promise<RequestInit>, timeout?: number): Promise<Reply> {
    const attempt = async () => {
      const response = await this.fetch(new URL(path, this.issuer), await make())
      const text = await response.text()
      const isJson = /json/.test(response.headers.get('content-type') ?? '') && text
      return answerOf({ status: response.status, json: isJson ? JSON.parse(text) : {} })
    }
    const { answer, again } = await insist(attempt, timeout, this.isOver)
    return { ...answer, again }
  }
}

/** A user's browser: without an answer, it reloads the page or submits the form again. */
export class Visitor {
  readonly browser: Browser
  /** A request was retried. */
  again = false
  #last = { url: '', method: 'GET' }
  #isOver: () => boolean

  /** `jar`: the cookies of another browser, which they share. */
  constructor(traffic: Traffic, jar?: Browser['jar']) {
    this.#isOver = traffic.isOver
    this.browser = new Browser(traffic.issuer, (target, init) => {
      this.#last = { url: String(target), method: init?.method ?? 'GET' }
      return traffic.fetch(target, init)
    })
    if (jar) this.browser.jar = jar
  }

  async go(act: (browser: Browser) => Promise<Page>): Promise<Page> {
    const { browser } = this
    const shown = browser.pages.length
    let first = true
    const { answer, again } = await insist(
      async () => {
        const reload = !first && this.#last.method === 'GET'
        if (!reload) browser.pages.length = shown
        first = false
        return answerOf(await (reload ? browser.open(this.#last.url) : act(browser)))
      },
      undefined,
      this.#isOver,
    )
    this.again ||= again
    return answer
  }

  open(url: string | URL) {
    return this.go(browser => browser.open(url))
  }

  submit(fields: Record<string, string | string[]>, form = 0) {
    return this.go(browser => browser.submit(fields, form))
  }
}
