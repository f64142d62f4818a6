// A store that stops at each write of a token request. The client then gets tokens that work, or repeats its
// request and gets them.

import { describe, expect, test } from 'vitest'
import { StoreUnavailable } from '../../src/store/store.ts'
import { answer, CIBA_GRANT, cibaClient, forgetRequests, startRequest } from '../support/ciba.ts'
import { authorize, tokens, userinfo } from '../support/journey.ts'
import { signedIn } from '../support/people.ts'
import { startRedis } from '../support/redis.ts'
import { freePorts } from '../support/redis-together.ts'
import { oneOf } from '../support/some-of.ts'
import { stopping } from '../support/stopping.ts'
import { ADA, CLIENTS, SECRET, startUsher, type Usher } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'
const SCOPE = 'openid profile offline_access'

interface Answer {
  access_token?: string
  refresh_token?: string
  error?: string
}
type Send = () => Promise<{ status: number; json: Answer }>

const tokenRequest = (usher: Usher, client: string, body: Record<string, string>): Send => {
  const headers = basic(client, SECRET)
  return () => send<Answer>(usher, '/api/oauth/token', { headers, body })
}

/** Each prepares a token request, which the test sends. */
const REQUESTS: Record<string, (usher: Usher, ada: string) => Promise<Send>> = {
  async 'an authorization code'(usher) {
    const { code, request } = await authorize(usher, { scope: SCOPE })
    const { redirect_uri, code_verifier } = request
    const body = { grant_type: 'authorization_code', code, redirect_uri, code_verifier }
    return tokenRequest(usher, 'web', body)
  },
  async 'a refresh token'(usher) {
    const { refresh_token } = await tokens(usher, { scope: SCOPE })
    return tokenRequest(usher, 'web', { grant_type: 'refresh_token', refresh_token })
  },
  async 'a device code'(usher) {
    const headers = basic('tv', SECRET)
    const { json } = await send<{ device_code: string; user_code: string }>(
      usher,
      '/api/oauth/device_authorization',
      { headers, body: { scope: SCOPE } },
    )
    const browser = await signedIn(usher)
    await browser.open('/device')
    await browser.submit({ user_code: json.user_code })
    await browser.submit({ decision: 'allow' })
    const { device_code } = json
    return tokenRequest(usher, 'tv', { grant_type: DEVICE_GRANT, device_code })
  },
  async 'a backchannel authentication request'(usher, ada) {
    await forgetRequests(usher, ada)
    const auth_req_id = await startRequest(usher, { scope: SCOPE })
    await answer(await signedIn(usher), 'allow')
    const poll = tokenRequest(usher, 'till', { grant_type: CIBA_GRANT, auth_req_id })
    return async () => {
      await usher.records.of('Attempts').remove(`polls of ${auth_req_id}`, 1)
      return poll()
    }
  },
}

const STORES: [string, (grace: string) => Promise<{ usher: Usher; stop(): Promise<unknown> }>][] = [
  ['SQLite', async grace => ({ usher: await start(grace), stop: async () => {} })],
  [
    'Redis',
    async grace => {
      const [port] = await freePorts(1)
      const server = await startRedis({ port })
      const USHER_SECRET = Buffer.alloc(32, 'crash').toString('base64url')
      const usher = await start(grace, { store: server.url, env: { USHER_SECRET } })
      return { usher, stop: () => server.stop() }
    },
  ],
]

const start = (refresh_token_grace: string, store: object = {}) => {
  const tv = { ...CLIENTS.post, client_id: 'tv', grant_types: [DEVICE_GRANT, 'refresh_token'] }
  const { token_endpoint_auth_method, ...television } = tv
  return startUsher({
    ...store,
    clients: {
      ...CLIENTS,
      till: cibaClient('till'),
      tv: { ...television, redirect_uris: undefined },
    },
    usher: {
      features: { ciba: true, device_flow: true },
      lifetimes: { refresh_token_grace },
      security: { ciba_requests: 100 },
    },
  })
}

/** The tokens of an answer are valid: they are used. */
async function expectValid(usher: Usher, client: string, { json }: Awaited<ReturnType<Send>>) {
  expect((await userinfo(usher, json.access_token ?? '')).status).toBe(200)
  const { refresh_token = '' } = json
  const next = await tokenRequest(usher, client, { grant_type: 'refresh_token', refresh_token })()
  expect(next.status).toBe(200)
}

const CLIENT_OF: Record<string, string> = {
  'a device code': 'tv',
  'a backchannel authentication request': 'till',
}

/**
 * Sends a token request, whose store stops after some writes, and repeats it if it was stopped. Returns
 * whether it was.
 */
async function stoppedAndRepeated(
  usher: Usher,
  crash: ReturnType<typeof stopping>,
  name: string,
  request: Send,
  writes: number,
): Promise<boolean> {
  const first = await crash(writes, request).catch(error => {
    // The preparation of a poll writes, too.
    expect(error, name).toBeInstanceOf(StoreUnavailable)
  })
  const isStopped = first?.status !== 200
  if (first && isStopped) expect(first).toMatchObject({ status: 503 })
  const answer = isStopped ? await request() : first
  expect(answer, `${name}, stopped after ${writes} writes`).toMatchObject({ status: 200 })
  await expectValid(usher, CLIENT_OF[name] ?? 'web', answer)
  return isStopped
}

describe.each(oneOf(STORES))('on %s', (_, open) => {
  describe.each(['30 s', '0 s'])('with a grace period of %s', grace => {
    test('a token request whose store stops at any write can be repeated', async () => {
      const { usher, stop } = await open(grace)
      try {
        const { id } = await usher.addAccount(ADA)
        const crash = stopping(usher.store)
        for (const [name, prepare] of Object.entries(REQUESTS)) {
          const tryWith = async (writes: number) => {
            const request = await prepare(usher, id)
            return stoppedAndRepeated(usher, crash, name, request, writes)
          }
          let stops = 0
          while (await tryWith(stops)) stops++
          // Tokens are saved before the commit: at least two writes were stopped.
          expect(stops, name).toBeGreaterThanOrEqual(2)
        }
      } finally {
        await usher.close()
        await stop()
      }
    })
  })
})
