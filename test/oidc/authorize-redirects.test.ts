import { parse } from 'node-html-parser'
import { describe, expect } from 'vitest'
import { usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest } from '../support/journey.ts'
import { signedIn } from '../support/people.ts'
import { mutantsOf } from '../support/redirect-uris.ts'
import { someOf } from '../support/some-of.ts'
import { CLIENTS, WEB } from '../support/usher.ts'
import { type Reply, send } from '../support/wire.ts'

const QUERY = 'https://app.example.org/callback?tenant=1&step=2'
const LOOPBACK = 'http://127.0.0.1/callback'
const LOOPBACK_6 = 'http://[::1]:4711/callback'
const CUSTOM = 'com.example.app:/callback'

/** Redirect URIs that a URL parser would write in another way, and the characters between them and a response. */
const ODD: [uri: string, separator: string][] = [
  ['https://app.example.org/index.php?/oauth/callback', '&'],
  ['https://app.example.org/callback?', ''],
  ['https://app.example.org/callback?tenant=1&', ''],
  ["https://app.example.org/callback?name='a'&path=%2fx+~()", '&'],
  ['https://app.example.org/callback?a=b=c&&d', '&'],
  ['https://app.example.org:443/callback', '?'],
  ["https://app.example.org/it's/{a}|`b^", '?'],
  ['com.example.app:/callback?/oauth', '&'],
  ['com.example.app://Callback', '?'],
]

const test = usherTest({
  usher: {
    features: { jwt_response_modes: true },
    compatibility: { implicit: true, hybrid: true },
  },
  clients: {
    ...CLIENTS,
    odd: {
      ...CLIENTS.first,
      client_id: 'odd',
      application_type: 'native',
      redirect_uris: ODD.map(([uri]) => uri),
      response_modes: ['query', 'form_post', 'jwt', 'fragment'],
      response_types: ['code', 'code id_token'],
    },
    query: { ...CLIENTS.web, client_id: 'query', redirect_uris: [QUERY] },
    native: { ...CLIENTS.native, redirect_uris: [LOOPBACK, LOOPBACK_6, CUSTOM] },
    local: { ...CLIENTS.web, client_id: 'local', redirect_uris: [LOOPBACK] },
  },
})

function authorize(params: Record<string, string | undefined>): Promise<Reply> {
  return send(usher, authorizationRequest(usher, params).url)
}

/** All URLs of a page that a browser could navigate to or fetch. */
function linksOf({ text, headers }: Reply): string[] {
  const found = text.matchAll(
    /\s(?:href|src|action|data|formaction|content="\d+;\s*url)="?([^"]*)"/gi,
  )
  return [...[...found].map(([, url = '']) => url), headers.get('refresh') ?? ''].filter(Boolean)
}

/** Returns what is wrong with the response, or undefined if it is the expected error page. */
function problemOf(reply: Reply): string | undefined {
  if (reply.location) return `redirects to ${reply.location}`
  if (reply.status !== 400) return `answers ${reply.status}`
  if (!reply.headers.get('content-type')?.startsWith('text/html')) return 'is no page'
  // The last two: the start pages of the clients that the request names.
  const own = [
    usher.issuer,
    '/assets/',
    '#',
    'https://app.example.org/',
    'https://post.example.org/',
  ]
  const strange = linksOf(reply).filter(url => !own.some(start => url.startsWith(start)))
  const reflected = linksOf(reply).filter(url => /evil|callback/.test(url))
  return [...strange, ...reflected].length ? `links to ${[...strange, ...reflected]}` : undefined
}

/** RFC 8252 §7.3: only the port of these URIs may differ. It may be empty. */
const isAllowed = (uri: string) =>
  /^http:\/\/(127\.0\.0\.1|\[::1\])(:([1-9]\d{0,4})?)?\/callback$/.test(uri)

/** Sends all requests, a few at a time, and returns all problems. */
async function problemsOf(client_id: string, uris: string[], more: Record<string, string> = {}) {
  const problems: string[] = []
  const waiting = [...uris]
  const work = async () => {
    for (let uri = waiting.pop(); uri !== undefined; uri = waiting.pop()) {
      const problem = problemOf(await authorize({ client_id, redirect_uri: uri, ...more }))
      if (problem) problems.push(`${JSON.stringify(uri)} ${problem}`)
    }
  }
  await Promise.all(Array.from({ length: 8 }, work))
  return problems
}

describe.each([
  ['web', WEB],
  ['query', QUERY],
  ['native', LOOPBACK],
  ['native', LOOPBACK_6],
  ['native', CUSTOM],
])('the client "%s" that registered %s', (client_id, uri) => {
  const mutants = mutantsOf(uri).filter(mutant => client_id !== 'native' || !isAllowed(mutant))

  test('no other spelling of the URI is ever a redirect or a link', async () => {
    expect(mutants.length).toBeGreaterThan(400)
    expect(await problemsOf(client_id, someOf(mutants))).toEqual([])
  })

  test('no error is ever sent to another spelling of the URI', async () => {
    const some = someOf(mutants.filter((_, i) => i % 4 === 0))
    expect(await problemsOf(client_id, some, { response_type: 'token' })).toEqual([])
    expect(await problemsOf(client_id, some, { prompt: 'none' })).toEqual([])
  })

  test('the user is redirected to the URI exactly as registered', async () => {
    const answer = await authorize({ client_id, redirect_uri: uri, prompt: 'none' })
    expect(answer.location?.href.startsWith(uri)).toBe(true)
    expect(answer.location?.searchParams.get('error')).toMatch(/^(login|interaction)_required$/)
  })
})

test.each([
  'http://127.0.0.1:51004/callback',
  'http://127.0.0.1:1/callback',
  'http://[::1]:51004/callback',
])('a native application can listen on any loopback port (%s)', async redirect_uri => {
  const answer = await authorize({ client_id: 'native', redirect_uri, prompt: 'none' })
  expect(answer.location?.href.startsWith(redirect_uri)).toBe(true)
})

test('the port of a web application may not differ, not even on loopback', async () => {
  const redirect_uri = 'http://127.0.0.1:4711/callback'
  expect(problemOf(await authorize({ client_id: 'local', redirect_uri }))).toBeUndefined()
})

test.each([
  ['an unknown client_id', { client_id: 'nobody', redirect_uri: WEB }],
  ['an empty client_id', { client_id: '', redirect_uri: WEB }],
  ['no client_id', { client_id: undefined, redirect_uri: WEB }],
  ['a client_id in other case', { client_id: 'WEB', redirect_uri: WEB }],
  ['the redirect URI of another client', { client_id: 'post', redirect_uri: WEB }],
  ['an empty redirect_uri', { redirect_uri: '' }],
  ['no redirect_uri', { redirect_uri: undefined }],
  ['a client_id of JavaScript', { client_id: '__proto__', redirect_uri: WEB }],
])('%s is answered with an error page', async (_, params) => {
  const { url } = authorizationRequest(usher)
  for (const [name, value] of Object.entries(params)) {
    if (value === undefined) url.searchParams.delete(name)
    else url.searchParams.set(name, value)
  }
  expect(problemOf(await send(usher, url))).toBeUndefined()
  url.searchParams.set('prompt', 'none')
  expect(problemOf(await send(usher, url))).toBeUndefined()
})

// RFC 6749 §3.1.2: the query of the endpoint is retained.
test.each(ODD)(
  'the bytes of the redirect URI %s stay, in each response',
  async (uri, separator) => {
    const params = { client_id: 'odd', redirect_uri: uri, prompt: 'none' }
    const locationOf = async (more: Record<string, string>) => {
      const reply = await authorize({ ...params, ...more })
      return reply.headers.get('location') ?? reply.text
    }
    expect(await locationOf({})).toMatch(startingWith(`${uri}${separator}error=login_required&`))
    const jwt = await locationOf({ response_mode: 'jwt' })
    expect(jwt).toMatch(startingWith(`${uri}${separator}response=`))
    const fragment = await locationOf({ response_type: 'code id_token' })
    // Only for tokens (`compatibility`); the library writes this address.
    expect(fragment).toMatch(startingWith(`${new URL(uri).href}#error=login_required&`))
    const form = parse(await locationOf({ response_mode: 'form_post' })).querySelector('form')
    expect(form?.getAttribute('action')).toBe(uri)
    const headers = { cookie: await (await signedIn(usher)).cookies() }
    const { headers: answer } = await send(usher, authorizationRequest(usher, params).url, {
      headers,
    })
    expect(answer.get('location')).toMatch(startingWith(`${uri}${separator}code=`))
  },
)

const startingWith = (text: string) => new RegExp(`^${RegExp.escape(text)}`)
