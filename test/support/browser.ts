// A browser emulator: cookies, redirects, forms, `<meta refresh>`. Each redirect after a form POST must
// comply with the `form-action` of the form's page, as in Chromium and Safari.

import { type HTMLElement, parse } from 'node-html-parser'
import { CookieJar } from 'tough-cookie'

export interface Page {
  url: URL
  /** False for a URL of another origin. The browser does not fetch it. */
  ours: boolean
  status: number
  headers: Headers
  text: string
  /** Parsed when it is read for the first time: many pages are not. */
  readonly html: HTMLElement
  /** The query parameters of `url`: the authorization response, at a redirect URI. */
  params: URLSearchParams
}

const MAX_REDIRECTS = 12

export class Browser {
  jar = new CookieJar()
  issuer: string
  /** The pages shown so far, the current page last. */
  pages: Page[] = []
  /** Other origins that the browser fetches: upstream issuers. */
  others: string[]
  #fetch: typeof fetch

  /** `send` replaces `fetch`. */
  constructor(issuer: string, send: typeof fetch = fetch, others: string[] = []) {
    this.others = others
    this.issuer = issuer
    this.#fetch = send
  }

  get page(): Page {
    const page = this.pages.at(-1)
    if (!page) throw new Error('no page was opened yet')
    return page
  }

  get heading(): string {
    return this.page.html.querySelector('h1')?.text.trim() ?? ''
  }

  open(url: string | URL, headers: Record<string, string> = {}): Promise<Page> {
    return this.#go(new URL(url, this.issuer), { headers })
  }

  /** Submits a form of the page, by default the first. `fields` replace its fields of these names. */
  submit(fields: Record<string, string | string[]> = {}, form = 0): Promise<Page> {
    const element = this.page.html.querySelectorAll('form')[form]
    if (!element) throw new Error(`no form on the page "${this.heading}"`)
    const body = new URLSearchParams()
    for (const input of element.querySelectorAll('input')) {
      const { name, type, value = '' } = input.attributes
      const isOff =
        type === 'checkbox' && (!('checked' in input.attributes) || 'disabled' in input.attributes)
      if (name && !isOff && !(name in fields)) body.append(name, value)
    }
    for (const [name, value] of Object.entries(fields)) {
      for (const single of [value].flat()) body.append(name, single)
    }
    const action = new URL(element.getAttribute('action') ?? '', this.page.url)
    return this.#go(action, {
      method: 'POST',
      body,
      headers: { Origin: this.page.url.origin, 'Sec-Fetch-Site': 'same-origin' },
      formAction: formActionOf(this.page),
      from: this.page.url.origin,
    })
  }

  cookies(): Promise<string> {
    return this.jar.getCookieString(this.issuer)
  }

  async #go(
    target: URL,
    init: RequestInit & {
      formAction?: string
      from?: string
      headers?: Record<string, string>
    },
  ): Promise<Page> {
    const { formAction, from = this.issuer, ...request } = init
    let url = target
    let { method = 'GET', body, headers } = request
    for (let hop = 0; hop < MAX_REDIRECTS; hop++) {
      if (formAction) checkFormAction(formAction, url, from)
      if (!this.#isOurs(url)) return this.#show(url, new Response(null, { status: 204 }), '')
      const response = await this.#fetch.call(undefined, url, {
        method,
        body,
        redirect: 'manual',
        headers: {
          accept: 'text/html,application/xhtml+xml,*/*;q=0.8',
          cookie: await this.jar.getCookieString(url.href),
          ...headers,
        },
      })
      for (const cookie of response.headers.getSetCookie()) {
        await this.jar.setCookie(cookie, url.href, { ignoreError: false })
      }
      const text = await response.text()
      const location = response.headers.get('location')
      if (response.status >= 300 && response.status < 400 && location) {
        url = new URL(location, url)
        method = 'GET'
        body = undefined
        headers = {}
        continue
      }
      const page = this.#show(url, response, text)
      const [, next] = /<meta http-equiv="refresh" content="0;url=([^"]*)"/.exec(text) ?? []
      return next === undefined ? page : this.#go(new URL(decode(next), url), {})
    }
    throw new Error(`more than ${MAX_REDIRECTS} redirects`)
  }

  #isOurs = ({ origin }: URL) => origin === this.issuer || this.others.includes(origin)

  #show(url: URL, { status, headers }: Response, text: string): Page {
    const ours = this.#isOurs(url)
    let html: HTMLElement | undefined
    const page: Page = {
      url,
      ours,
      status,
      headers,
      text,
      params: url.searchParams,
      get html() {
        html ??= parse(text)
        return html
      },
    }
    this.pages.push(page)
    return page
  }
}

function decode(html: string): string {
  return html.replaceAll('&amp;', '&').replaceAll('&#39;', "'").replaceAll('&quot;', '"')
}

function formActionOf({ headers }: Page): string | undefined {
  const policy = headers.get('content-security-policy') ?? ''
  return /form-action ([^;]*)/.exec(policy)?.[1]
}

function checkFormAction(formAction: string, url: URL, self: string) {
  const allowed = formAction.split(' ').map(source => (source === "'self'" ? self : source))
  if (!allowed.includes(url.origin)) {
    throw new Error(`form-action ${formAction} blocks ${url.origin}`)
  }
}
