import { decodeJwt } from 'jose'
import { describe, expect } from 'vitest'
import { clientSchema } from '../../src/config/schema/client.ts'
import { browser, usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest, authorize, redeem } from '../support/journey.ts'
import { CLIENTS } from '../support/usher.ts'
import { type Reply, send } from '../support/wire.ts'

const test = usherTest({
  clients: {
    ...CLIENTS,
    strict: {
      ...CLIENTS.web,
      client_id: 'strict',
      redirect_uris: ['https://strict.example.org/callback'],
      response_modes: ['form_post'],
    },
  },
})
test.beforeAll(async () => {
  await authorize(usher, { browser })
})

type Params = Record<string, string | undefined>
const ask = (params: Params = {}) => send(usher, authorizationRequest(usher, params).url)

/** The response parameters in the query of the redirect URI. */
function responseOf({ location, text }: Reply): Record<string, string> {
  if (!location) throw new Error(`no redirect: ${text.slice(0, 500)}`)
  return Object.fromEntries(location.searchParams)
}

describe('response modes', () => {
  test.each(['fragment', 'fragment.jwt', 'web_message', 'jwt', 'query.jwt', 'nonsense'])(
    '%s is refused, and no code is sent by it',
    async response_mode => {
      const cookie = await browser.cookies()
      const { url } = authorizationRequest(usher, { response_mode })
      const { location } = await send(usher, url, { headers: { cookie } })
      const params = new URLSearchParams(location?.search || location?.hash.slice(1))
      // A request for a JWT response mode gets the error in a JWT.
      const response = params.get('response')
      expect(response ? decodeJwt(response).error : params.get('error')).toMatch(
        /^(invalid_request|unsupported_response_mode)$/,
      )
      expect(location?.href).not.toContain('code=')
      expect(response && decodeJwt(response).code).toBeFalsy()
    },
  )

  test('form_post posts the code to the application', async () => {
    const { url, state, redirect_uri } = authorizationRequest(usher, { response_mode: 'form_post' })
    const page = await browser.open(url)
    const form = page.html.querySelector('form')
    expect(form?.getAttribute('action')).toBe(redirect_uri)
    const value = (name: string) =>
      form?.querySelector(`input[name=${name}]`)?.getAttribute('value') ?? ''
    expect(value('code')).toMatch(/^[\w-]{43,}$/)
    expect(value('state')).toBe(state)
    expect(value('iss')).toBe(usher.issuer)
  })

  test('an operator can restrict a client to one response mode', async () => {
    const client = { client_id: 'strict', redirect_uri: 'https://strict.example.org/callback' }
    expect(responseOf(await ask({ ...client, prompt: 'none' }))).toMatchObject({
      error: 'invalid_request',
    })
    const answer = await ask({ ...client, prompt: 'none', response_mode: 'form_post' })
    expect(answer.text).toContain('login_required')
  })
})

test('every response has the parameter iss, with a code or with an error', async () => {
  const { page, request } = await authorize(usher, { browser })
  expect(Object.fromEntries(page.params)).toEqual({
    code: expect.stringMatching(/^[\w-]{65}$/),
    state: request.state,
    iss: usher.issuer,
  })
  for (const params of [{ prompt: 'none' }, { scope: 'nonsense' }, { prompt: 'nonsense' }]) {
    const received = responseOf(await ask({ state: 'kept', ...params }))
    expect(received).toMatchObject({ iss: usher.issuer, state: 'kept', error: expect.any(String) })
  }
  await browser.open(authorizationRequest(usher, { prompt: 'consent' }).url)
  const denied = await browser.submit({ decision: 'deny' })
  expect(Object.fromEntries(denied.params)).toMatchObject({
    error: 'access_denied',
    iss: usher.issuer,
  })
})

test('a client_id cannot look like a subject', async () => {
  const { code, request } = await authorize(usher, { browser })
  const { body } = await redeem(usher, code, request)
  const { sub = '' } = decodeJwt(body.id_token)
  expect(clientSchema.safeParse(CLIENTS.web).success).toBe(true)
  for (const client_id of [sub, 'usr_', 'usr_web']) {
    expect(clientSchema.safeParse({ ...CLIENTS.web, client_id }).success).toBe(false)
  }
})
