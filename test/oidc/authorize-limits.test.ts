import { describe, expect } from 'vitest'
import { browser, test, usher } from '../support/fixtures.ts'
import { authorizationRequest, authorize } from '../support/journey.ts'
import { SECRET, WEB } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const PATH = '/api/oauth/authorize'

test.beforeAll(async () => {
  await authorize(usher, { browser })
})

const LIMITS = { state: 4096, nonce: 4096, scope: 4096, claims: 4096 }

/** A value of this length that is otherwise valid for the parameter. */
const valueFor = (name: string, length: number) => {
  if (name === 'scope') return 'openid '.padEnd(length, 'x')
  return name === 'claims' ? '{"userinfo":{}}'.padEnd(length) : 'x'.repeat(length)
}

describe.each(Object.entries(LIMITS))('%s', (name, limit) => {
  const request = (length: number) =>
    authorizationRequest(usher, { prompt: 'none', [name]: valueFor(name, length) }).url

  test('is accepted at its length limit', async () => {
    const page = await browser.open(request(limit))
    expect(page.ours).toBe(false)
    expect(page.params.get('error')).toBeNull()
    expect(page.params.get('code')).toBeTruthy()
    if (name === 'state') expect(page.params.get('state')).toHaveLength(limit)
  })

  test('is refused one character above its limit, and the client gets the error', async () => {
    const { location } = await send(usher, request(limit + 1))
    expect(location?.origin).toBe(new URL(WEB).origin)
    expect(Object.fromEntries(location?.searchParams ?? [])).toMatchObject({
      error: 'invalid_request',
      error_description: `${name} is longer than ${limit} characters`,
    })
  })

  test('is refused above its limit in a pushed request, too', async () => {
    const push = (length: number) => {
      const body = [...request(length).searchParams]
      return send(usher, '/api/oauth/par', { body, headers: basic('web', SECRET) })
    }
    expect((await push(limit)).status).toBe(201)
    const answer = await push(limit + 1)
    expect(answer.status).toBe(400)
    expect(answer.json.error).toBe('invalid_request')
  })
})

test('a request may be 8 KiB long, and not a byte longer', async () => {
  const { url } = authorizationRequest(usher, { prompt: 'none', login_hint: '' })
  const path = `${url.pathname}${url.search}`
  const fits = path.replace('login_hint=', `login_hint=${'x'.repeat(8192 - path.length)}`)
  expect((await send(usher, fits)).location?.href.startsWith(WEB)).toBe(true)
  const answer = await send(usher, fits.replace('login_hint=', 'login_hint=x'))
  expect(answer.status).toBe(414)
  expect(answer.json).toMatchObject({ error: expect.any(String), request_id: expect.any(String) })
})

describe('an authorization request by POST', () => {
  test('is redirected to the same request by GET, with the same response', async () => {
    const { url, state } = authorizationRequest(usher, { prompt: 'none' })
    const moved = await send(usher, PATH, { body: [...url.searchParams] })
    expect(moved.status).toBe(303)
    expect(moved.location?.origin).toBe(usher.issuer)
    expect(moved.location?.pathname).toBe(PATH)
    expect([...(moved.location?.searchParams ?? [])]).toEqual([...url.searchParams])
    const page = await browser.open(moved.location ?? '')
    expect(page.params.get('code')).toBeTruthy()
    expect(page.params.get('state')).toBe(state)
  })

  test('keeps every character of its parameters', async () => {
    const state = 'a b+c&d=e%20é\u{1f600}"<>#\r\n'
    const { url } = authorizationRequest(usher, { state, prompt: 'none' })
    const moved = await send(usher, PATH, { body: [...url.searchParams] })
    const answer = await send(usher, moved.location ?? '')
    expect(answer.location?.searchParams.get('state')).toBe(state)
  })

  test('is never repeated as a POST to another address', async () => {
    const { url } = authorizationRequest(usher, { prompt: 'none' })
    const moved = await send(usher, PATH, { body: [...url.searchParams] })
    expect(moved.status).toBe(303)
    const answer = await send(usher, moved.location ?? '')
    expect([302, 303]).toContain(answer.status)
  })

  test.each([
    ['a JSON body', { body: '{}', headers: { 'content-type': 'application/json' } }, 415],
    ['a body without type', { body: 'client_id=web' }, 415],
    ['no body', { method: 'POST' }, 415],
    ['a large body', { body: { state: 'x'.repeat(8192) } }, 413],
    ['a huge body', { body: { state: 'x'.repeat(1_000_000) } }, 413],
  ])('is refused with %s', async (_, options, status) => {
    const answer = await send(usher, PATH, options)
    expect(answer.status).toBe(status)
    expect(answer.location).toBeUndefined()
    expect(answer.json).toMatchObject({ error: expect.any(String), request_id: expect.any(String) })
  })

  test('is not redirected when its URL would be too long', async () => {
    const { url } = authorizationRequest(usher, { prompt: 'none', login_hint: '' })
    const body = `${url.searchParams}${'é'.repeat(3500)}`
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    const answer = await send(usher, PATH, { body, headers, method: 'POST' })
    expect(answer.location?.href.length ?? 0).toBeLessThanOrEqual(8192 + usher.issuer.length)
    expect([400, 413, 414]).toContain(answer.status)
  })
})

test('a long state is returned to the client', async () => {
  const state = '\u{1f600}'.repeat(512)
  const page = await browser.open(authorizationRequest(usher, { state }).url)
  expect(page.params.get('state')).toBe(state)
  expect(page.params.get('code')).toBeTruthy()
})
