// A store that stops at each write of a token request. The client then gets tokens that work, or repeats its
// request and gets them.

import { beforeAll, describe, expect, test } from 'vitest'
import { StoreUnavailable } from '../../src/store/store.ts'
import type { Browser } from '../support/browser.ts'
import { answer, CIBA_GRANT, cibaClient, forgetRequests, startRequest } from '../support/ciba.ts'
import { beginDevice, DEVICE_GRANT, enterUserCode, TV } from '../support/device.ts'
import { authorize, codeForm, tokens, userinfo } from '../support/journey.ts'
import { signedIn } from '../support/people.ts'
import { STORES, startOn } from '../support/redis-together.ts'
import { oneOf } from '../support/some-of.ts'
import { stopping } from '../support/stopping.ts'
import { ADA, CLIENTS, SECRET, type Usher } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const SCOPE = 'openid profile offline_access'

interface Answer {
  access_token?: string
  refresh_token?: string
  error?: string
}
type Send = () => Promise<{ status: number; json: Answer }>

const tokenRequest = (usher: Usher, client: string, form: Record<string, string>): Send => {
  const isPublic = client === TV.client_id
  const headers = isPublic ? {} : basic(client, SECRET)
  const body = isPublic ? { ...form, client_id: client } : form
  return () => send<Answer>(usher, '/api/oauth/token', { headers, body })
}

/** A user who is signed in in a browser. */
interface Scene {
  usher: Usher
  ada: string
  browser: Browser
}

/** Each prepares a token request, which the test sends. */
const REQUESTS: Record<string, (scene: Scene) => Promise<Send>> = {
  async 'an authorization code'({ usher, browser }) {
    const { code, request } = await authorize(usher, { browser, scope: SCOPE })
    const body = codeForm(code, request)
    return tokenRequest(usher, 'web', body)
  },
  async 'a refresh token'({ usher, browser }) {
    const { refresh_token } = await tokens(usher, { browser, scope: SCOPE })
    return tokenRequest(usher, 'web', { grant_type: 'refresh_token', refresh_token })
  },
  async 'a device code'({ usher, browser }) {
    const { device_code, user_code } = await beginDevice(usher, SCOPE)
    await enterUserCode(browser, user_code)
    await browser.submit({ decision: 'allow' })
    return tokenRequest(usher, 'tv', { grant_type: DEVICE_GRANT, device_code })
  },
  async 'a backchannel authentication request'({ usher, ada, browser }) {
    await forgetRequests(usher, ada)
    const auth_req_id = await startRequest(usher, { scope: SCOPE })
    await answer(browser, 'allow')
    const poll = tokenRequest(usher, 'till', { grant_type: CIBA_GRANT, auth_req_id })
    return async () => {
      await usher.records.of('Attempts').remove(`polls of ${auth_req_id}`, 1)
      return poll()
    }
  },
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

describe.each(oneOf(STORES))('on %s', (_, startStore) => {
  describe.each(['30 s', '0 s'])('with a grace period of %s', grace => {
    let scene: Scene
    let crash: ReturnType<typeof stopping>
    beforeAll(async () => {
      const usher = await startOn(startStore, {
        clients: { ...CLIENTS, till: cibaClient('till'), tv: TV },
        usher: {
          features: { ciba: true, device_flow: true },
          lifetimes: { refresh_token_grace: grace },
          security: { ciba_requests: 100 },
        },
      })
      const { id } = await usher.addAccount(ADA)
      scene = { usher, ada: id, browser: await signedIn(usher) }
      crash = stopping(usher.store)
      return () => usher.close()
    })

    test.each(Object.entries(REQUESTS))(
      'a token request with %s whose store stops at any write can be repeated',
      async (name, prepare) => {
        const tryWith = async (writes: number) => {
          const request = await prepare(scene)
          return stoppedAndRepeated(scene.usher, crash, name, request, writes)
        }
        let stops = 0
        while (await tryWith(stops)) stops++
        // Tokens are saved before the commit: at least two writes were stopped.
        expect(stops).toBeGreaterThanOrEqual(2)
      },
    )
  })
})
