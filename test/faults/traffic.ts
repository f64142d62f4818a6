// Requests as clients and browsers send them, each of them measured, and asked again as long as there
// is no answer: neither a 503 nor a cut connection says anything about what was asked.

import { setTimeout } from 'node:timers/promises'
import { Browser, type Page } from '../support/browser.ts'

export interface Sample {
  /** When it was sent, and how long the answer took; milliseconds. */
  at: number
  ms: number
  /** 0: there was none. */
  status: number
  path: string
}

/** Milliseconds: for one answer, for asking again, and between two times of it. */
const PATIENCE = 8_000
const PERSISTENCE = 30_000
const PAUSE = { first: 100, longest: 500 }

export class GaveUp extends Error {
  override name = 'GaveUp'
}

export class NoAnswer extends Error {
  override name = 'NoAnswer'
}

/** For requests that are not measured. */
export function answerOf<T extends { status: number }>(reply: T): T {
  if (reply.status >= 500) throw new NoAnswer(`${reply.status}`)
  return reply
}

export interface Reply {
  status: number
  json: Record<string, unknown>
  /** It was asked more than once. */
  again: boolean
}

/** Until there is an answer, or no time. `attempt` gives undefined where there was none. */
export async function insist<T>(
  attempt: () => Promise<T | undefined>,
  persistence = PERSISTENCE,
  isOver = () => false,
): Promise<{ answer: T; again: boolean }> {
  const started = performance.now()
  for (let pause = PAUSE.first, again = false; ; again = true) {
    const answer = await attempt().catch((error: unknown) => {
      if (!isCut(error)) throw error
    })
    if (answer !== undefined) return { answer, again }
    const waited = performance.now() - started
    if (waited > persistence || isOver()) throw new GaveUp(`no answer in ${Math.round(waited)} ms`)
    await setTimeout(pause * (0.75 + Math.random() / 2))
    pause = Math.min(2 * pause, PAUSE.longest)
  }
}

/** `fetch`, and sockets, say it in many ways. */
function isCut(error: unknown): boolean {
  const { name, code, message } = Object(error)
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

  /** What has no answer yet is asked for this much longer, in milliseconds, and no more. */
  endIn(time: number) {
    this.#end = performance.now() + time
  }

  readonly isOver = () => performance.now() > this.#end

  readonly fetch: typeof fetch = async (target, init) => {
    const at = performance.now()
    const path = new URL(String(target)).pathname.replace(/[\w-]{43}$/, 'ID')
    let status = 0
    try {
      const answer = await fetch(target, { ...init, signal: AbortSignal.timeout(PATIENCE) })
      status = answer.status
      return answer
    } finally {
      this.samples.push({ at, ms: performance.now() - at, status, path })
    }
  }

  /** `init` is made for each time it is sent. */
  async ask(
    path: string,
    init: () => Promise<RequestInit> | RequestInit,
    persistence?: number,
  ): Promise<Reply> {
    const { answer, again } = await insist(
      async () => {
        const response = await this.fetch(new URL(path, this.issuer), await init())
        const text = await response.text()
        if (response.status >= 500) return undefined
        const isJson = /json/.test(response.headers.get('content-type') ?? '') && text
        return { status: response.status, json: isJson ? JSON.parse(text) : {} }
      },
      persistence,
      this.isOver,
    )
    return { ...answer, again }
  }

  visitor(): Visitor {
    return new Visitor(this)
  }
}

/** A person at a browser who, given no answer, loads the page again or sends the form again. */
export class Visitor {
  readonly browser: Browser
  /** Something was asked more than once. */
  again = false
  #last = { url: '', method: 'GET' }
  #isOver: () => boolean

  constructor(traffic: Traffic) {
    this.#isOver = traffic.isOver
    this.browser = new Browser(traffic.issuer, (target, init) => {
      this.#last = { url: String(target), method: init?.method ?? 'GET' }
      return traffic.fetch(target, init)
    })
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
        const page = await (reload ? browser.open(this.#last.url) : act(browser))
        return page.status < 500 ? page : undefined
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
