import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Stage, stagePage, Visitor } from '../support/client-page.ts'

let stage: Stage
beforeAll(async () => {
  stage = await stagePage('authjs.md')
})
afterAll(() => stage.close())

test('Auth.js: with its defaults, session.user is Ada', async () => {
  const ada = new Visitor(stage.usher)
  const { csrfToken } = (await ada.open(`${stage.origin}/auth/csrf`)).json()
  const form = { csrfToken: String(csrfToken), callbackUrl: stage.origin }
  await ada.open(`${stage.origin}/auth/signin/usher`, form)
  const session = await ada.open(`${stage.origin}/auth/session`)
  expect(session.json().user).toEqual({ name: 'Ada Lovelace', email: 'ada@example.org' })
})
