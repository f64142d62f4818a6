// Requests that run at the same time as an operation that ends their access. The test interrupts the
// request before each of its store operations and runs the ending, and the other way round.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type Act,
  type Interleave,
  interleaving,
  type Outcome,
  REQUESTS,
  resuming,
  type Scene,
  scene,
  signIn,
  signingOut,
  visiting,
} from '../support/interleave.ts'
import { authorizationRequest, redeem, refresh, userinfo } from '../support/journey.ts'
import { copyOf, credentials, isSignedIn, open, silently, submitOnly } from '../support/people.ts'
import { STORES, startOn } from '../support/redis-together.ts'
import { oneOf, placesOn } from '../support/some-of.ts'
import type { Usher } from '../support/usher.ts'

let usher: Usher
let interleave: Interleave
let places: ReturnType<typeof placesOn>

const ONLINE = 'openid profile'
const OFFLINE = `${ONLINE} offline_access`

interface Ending {
  sentence: (request: string) => string
  /** The requested scope. Offline access outlives a sign-out. */
  scope: string
  /** Requests that cannot leave access behind. */
  not?: string[]
  /** The error of `prompt=none` afterwards. */
  silently: string
  /** Prepares the ending. The returned function performs it, and returns whether it succeeded. */
  prepare: (scene: Scene) => Promise<Act<boolean>>
}

const ENDINGS: Ending[] = [
  {
    sentence: request => `${request} during the end of all access leaves no access behind`,
    scope: OFFLINE,
    silently: 'login_required',
    prepare:
      async ({ id }) =>
      () =>
        usher.directory.endAccess(id).then(() => true),
  },
  {
    sentence: request =>
      `${request} while the account is disabled leaves no access after it is enabled`,
    scope: OFFLINE,
    silently: 'login_required',
    prepare:
      async ({ id }) =>
      async () => {
        await usher.directory.change(id, account => ({ ...account, enabled: false }))
        await usher.directory.endAccess(id)
        await usher.directory.change(id, account => ({ ...account, enabled: true }))
        return true
      },
  },
  {
    sentence: request => `${request} during a removal of the application leaves it no access`,
    scope: OFFLINE,
    silently: 'consent_required',
    prepare:
      async ({ id }) =>
      () =>
        usher.consents.withdraw(id, 'web').then(() => true),
  },
  {
    sentence: request => `${request} during a sign-out leaves no access behind`,
    scope: ONLINE,
    // The first has no session yet. The second may continue after a sign-out.
    not: ['the return from signing in', 'refresh'],
    silently: 'login_required',
    prepare: signingOut,
  },
]

/** Lists everything that still works although it should not. */
async function leftovers(
  outcome: Outcome,
  ending: Pick<Ending, 'scope' | 'silently'>,
): Promise<string[]> {
  const { browsers, code, request, answer, tokens } = outcome
  const left: string[] = []
  const note = (isLeft: boolean, what: string) => isLeft && left.push(what)
  note(outcome.status >= 500, `the request was answered ${outcome.status}`)

  const given = [...tokens]
  if (answer?.status === 200) given.push(answer.body)
  if (code && request) {
    const redeemed = await redeem(usher, code, request)
    note(redeemed.body.error !== 'invalid_grant', `the code was answered ${redeemed.status}`)
    if (redeemed.status === 200) given.push(redeemed.body)
  }
  for (const { access_token, refresh_token } of given) {
    const { status } = await userinfo(usher, access_token ?? '')
    note(status !== 401, `UserInfo ${status}`)
    if (!refresh_token) continue
    const { body } = await refresh(usher, refresh_token)
    note(body.error !== 'invalid_grant', `refresh ${body.error ?? 200}`)
  }
  for (const browser of browsers) {
    const isSession = ending.silently === 'login_required'
    note(isSession && (await isSignedIn(browser)), 'signed in')
    const error = await silently(usher, browser, { scope: ending.scope })
    const isOver = error === ending.silently || error === 'login_required'
    note(!isOver, `prompt=none ${error ?? 'gives a code'}`)
  }
  return left
}

/** Runs every order of the two operations. `round` prepares them, and returns the faults afterwards. */
async function everywhere(
  round: () => Promise<{ held: Act; meanwhile: Act; faults: () => Promise<string[]> }>,
) {
  const found: string[] = []
  let met = true
  for (let k = places.first; met; k += places.step) {
    const { held, meanwhile, faults } = await round()
    met = (await interleave(k, held, meanwhile)).met
    found.push(...(await faults()).map(fault => `${k}: ${fault}`))
  }
  expect(found).toEqual([])
}

describe.each(oneOf(STORES))('on %s', (store, startStore) => {
  beforeAll(async () => {
    places = placesOn(store, 4)
    usher = await startOn(startStore)
    interleave = interleaving(usher)
  })
  afterAll(() => usher.close())

  for (const { sentence, not, ...ending } of ENDINGS) {
    for (const [name, prepare] of Object.entries(REQUESTS).filter(
      ([name]) => !not?.includes(name),
    )) {
      for (const [held, who] of [
        ['ask', ''] as const,
        ['end', ', when the request is the faster one'] as const,
      ]) {
        test(sentence(name) + who, () =>
          everywhere(async () => {
            const person = await scene(usher, ending.scope)
            const request = await prepare(person)
            const finish = await ending.prepare(person)
            let outcome: Outcome | undefined
            let isDone = false
            const ask = async () => {
              outcome = await request()
            }
            const end = async () => {
              isDone = await finish()
            }
            const faults = async () => (outcome && isDone ? leftovers(outcome, ending) : [])
            return held === 'ask'
              ? { held: ask, meanwhile: end, faults }
              : { held: end, meanwhile: ask, faults }
          }),
        )
      }
    }
  }

  test('an authorization during a narrower consent returns no declined scope', () =>
    everywhere(async () => {
      const person = await scene(usher, 'openid profile email')
      await signIn(person)
      const tab = copyOf(person.browser)
      const scope = person.scope
      const asked = await open(usher, { scope, prompt: 'consent' }, tab)
      const next = await submitOnly(tab, { decision: 'allow', scope: 'profile' })
      const request = authorizationRequest(usher, { scope })
      const ask = visiting(person.browser, request.url.href, request)
      let code: string | undefined
      return {
        held: async () => {
          code = (await ask()).code
        },
        meanwhile: resuming(tab, next, asked.request),
        faults: async () => {
          const { body } = await redeem(usher, code ?? '', request)
          return /email/.test(String(body.scope)) ? ['email was declined, and is given'] : []
        },
      }
    }))

  test('an anonymous request during a sign-in in the same browser does not end the new session', () =>
    everywhere(async () => {
      const { browser, username, scope } = await scene(usher, ONLINE)
      const silent = authorizationRequest(usher, { scope, prompt: 'none' })
      const nobody = visiting(copyOf(browser), silent.url.href, silent)
      const { request } = await open(usher, { scope }, browser)
      const returning = resuming(browser, await submitOnly(browser, credentials(username)), request)
      let token = ''
      return {
        held: nobody,
        meanwhile: async () => {
          const { code = '' } = await returning()
          token = (await redeem(usher, code, request)).body.access_token
        },
        faults: async () => {
          const { status } = await userinfo(usher, token)
          return status === 200 ? [] : [`UserInfo ${status}`]
        },
      }
    }))
})
