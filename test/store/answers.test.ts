// Requests that a user answers on another device, on every kind of store: device codes and CIBA requests. The first
// session that enters a user code holds it, and the first answer stays.

import { expect, test } from 'vitest'
import { usherSchema } from '../../src/config/schema/usher.ts'
import { createAccessRequests } from '../../src/features/ciba/requests.ts'
import { deviceCodeAdapter } from '../../src/features/device.ts'
import { alreadyUsed } from '../../src/oidc/adapter/request.ts'
import { now } from '../../src/store/store.ts'
import { onEveryStore } from './every-store.ts'
import { asRequest } from './protocol.ts'
import { fresh } from './store-suite.ts'

const TTL = 60

const TAKEN = alreadyUsed('DeviceCode')

const { lifetimes, security } = usherSchema.parse({ security: { ciba_requests: 3 } })
const SETTINGS = { lifetimes, security }

onEveryStore(records => {
  /** A node. `as` selects the session of the request. */
  function node() {
    const find = async (id: string) =>
      (await records().of<Record<string, unknown>>('DeviceCode').read(id)).value
    const codes = deviceCodeAdapter(records())({ find })
    return {
      find,
      save: codes.upsert,
      as(uid: string) {
        const oidc = { session: { uid } }
        return {
          save: (id: string, payload: object) =>
            asRequest(oidc, () => codes.upsert(id, { ...payload }, TTL)),
          enter: (userCode: string) => asRequest(oidc, () => codes.findByUserCode(userCode)),
        }
      },
    }
  }

  async function begin() {
    const [one, other] = [node(), node()]
    const code = { jti: fresh(), userCode: fresh() }
    await one.save(code.jti, code, TTL)
    return { one, other, code, claimed: { ...code, inFlight: true } }
  }

  test('only one of fifty sessions that enter a code at the same time on two nodes holds it', async () => {
    const { one, other, code, claimed } = await begin()
    const sessions = Array.from({ length: 50 }, (_, i) => [one, other][i % 2]?.as(`session-${i}`))
    const answers = await Promise.allSettled(
      sessions.map(session => session?.save(code.jti, claimed)),
    )
    expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    const holder = `session-${answers.findIndex(({ status }) => status === 'fulfilled')}`
    expect(await one.find(code.jti)).toMatchObject({ sessionUid: holder })
    expect(await other.as(holder).enter(code.userCode)).toMatchObject({ inFlight: false })
    expect(await other.as('somebody').enter(code.userCode)).toMatchObject({ inFlight: true })
    const denied = { ...code, error: 'access_denied' }
    await expect(other.as('somebody').save(code.jti, denied)).rejects.toEqual(TAKEN)
  })

  test('the first decision is final, in every tab and on every node', async () => {
    const { one, other, code, claimed } = await begin()
    await one.as('ada').save(code.jti, claimed)
    const decisions = [{ accountId: 'usr_ada' }, { error: 'access_denied' }]
    const answers = await Promise.allSettled(
      decisions.map((decision, i) =>
        [one, other][i]?.as('ada').save(code.jti, { ...claimed, ...decision }),
      ),
    )
    expect(answers.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
    const decided = await one.find(code.jti)
    await expect(one.as('ada').save(code.jti, claimed)).rejects.toEqual(TAKEN)
    expect(await one.find(code.jti)).toEqual(decided)
  })

  test('an error is no decision, and an expired code is not restored', async () => {
    const { one, code, claimed } = await begin()
    await one.as('ada').save(code.jti, { ...claimed, error: 'temporarily_unavailable' })
    expect(await one.find(code.jti)).toEqual(code)
    await records().of('DeviceCode').remove(code.jti)
    const allowed = { ...claimed, accountId: 'usr_ada' }
    await expect(one.as('ada').save(code.jti, allowed)).rejects.toEqual(TAKEN)
    expect(await one.find(code.jti)).toBeUndefined()
  })

  const request = (client_id = 'till') => {
    const [id, since] = [fresh(), now()]
    return { id, handle: id, client_id, scopes: ['openid'], since, until: since + TTL, version: 0 }
  }

  test('three requests of each client are accepted when two clients send thirty concurrently on two nodes', async () => {
    const nodes = [
      createAccessRequests(records(), SETTINGS),
      createAccessRequests(records(), SETTINGS),
    ]
    const userId = fresh()
    const asked = Array.from({ length: 30 }, (_, i) => {
      const made = request(['till', 'desk'][i % 2])
      return nodes[i % 3 ? 1 : 0]?.ask(userId, made)
    })
    const taken = (await Promise.all(asked)).filter(Boolean)
    expect(taken).toHaveLength(6)
    expect(await nodes[0]?.list(userId)).toHaveLength(6)
    expect(await nodes[0]?.list(userId, now())).toEqual([])
  })
})
