// CIBA requests on every kind of store: the limit of open requests for a user, and that the first answer
// of the user stays.

import { expect, test } from 'vitest'
import { usherSchema } from '../../src/config/schema/usher.ts'
import { createAccessRequests } from '../../src/features/ciba/requests.ts'
import { answerOnce } from '../../src/oidc/adapter/adapter.ts'
import type { Payload } from '../../src/oidc/adapter/models.ts'
import { alreadyUsed } from '../../src/oidc/adapter/request.ts'
import { now } from '../../src/store/store.ts'
import { onEveryStore } from './every-store.ts'
import { fresh } from './store-suite.ts'

const { lifetimes, security } = usherSchema.parse({ security: { ciba_requests: 3 } })
const TTL = lifetimes.interaction
const SETTINGS = { lifetimes, security }

onEveryStore(records => {
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

  test('a denied request counts towards the limit, an allowed one does not', async () => {
    const { ask, list, close } = createAccessRequests(records(), SETTINGS)
    const userId = fresh()
    const made = [request(), request(), request()]
    for (const each of made) expect(await ask(userId, each)).toBe(true)
    await close(userId, made[0]?.id ?? '', 'denied')
    expect((await list(userId)).map(({ id }) => id)).toEqual(made.slice(1).map(({ id }) => id))
    expect(await ask(userId, request())).toBe(false)
    await close(userId, made[1]?.id ?? '', 'allowed')
    expect(await ask(userId, request())).toBe(true)
  })

  test('only one of two concurrent answers is saved', async () => {
    const model = 'BackchannelAuthenticationRequest'
    const isAnswered = ({ grantId, error }: Payload) => grantId || error
    const save = answerOnce(records(), model, isAnswered)
    const id = fresh()
    await save(id, { accountId: 'usr_ada' }, TTL)
    const answers = [{ grantId: 'a' }, { error: 'access_denied' }, { grantId: 'b' }]
    const outcomes = await Promise.allSettled(answers.map(answer => save(id, answer, TTL)))
    const winner = outcomes.findIndex(({ status }) => status === 'fulfilled')
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    const { value } = await records().of(model).read(id)
    expect(value).toEqual(answers[winner])
    await records().of(model).remove(id)
    await expect(save(id, { grantId: 'c' }, TTL)).rejects.toEqual(alreadyUsed(model))
  })
})
