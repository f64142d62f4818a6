import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type Stage, stagePage, Visitor } from '../support/client-page.ts'

let stage: Stage
beforeAll(async () => {
  stage = await stagePage('express-openid-connect.md')
})
afterAll(() => stage.close())

test('express-openid-connect: Ada signs in, the application refreshes her tokens, she signs out', async () => {
  const ada = new Visitor(stage.usher)
  const me = await ada.open(`${stage.origin}/me`)
  expect(me.json()).toMatchObject({ sub: expect.stringMatching(/^usr_/), name: 'Ada Lovelace' })
  const renewed = (await ada.open(`${stage.origin}/renew`)).json()
  expect(renewed.expires_in).toBeGreaterThan(500)

  const page = await ada.open(`${stage.origin}/logout`)
  expect(page.url.origin).toBe(stage.usher.issuer)
  const { url } = await ada.provider.submit({ logout: 'yes' })
  const home = await ada.open(url.href)
  expect(home.url.href).toBe(`${stage.origin}/`)
  expect(home.json()).toEqual({ signedIn: false })
})

test('the application of the README signs Ada in', async () => {
  const readme = await stagePage('../../README.md')
  onTestFinished(() => readme.close())
  const home = await new Visitor(readme.usher).open(`${readme.origin}/`)
  expect(home.text).toBe('Hello Ada Lovelace')
})
