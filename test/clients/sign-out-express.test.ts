// Back-channel logout with `express-openid-connect`, which validates the logout token.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { blockOf, type Stage, stageClient, Visitor } from '../support/client-page.ts'

const PAGE = 'express-openid-connect.md'
const FILE = `${blockOf(PAGE, 'yaml client')}
backchannel_logout_uri: http://localhost:4000/backchannel-logout
backchannel_logout_session_required: true
`
const CODE = blockOf(PAGE, 'js application').replace(
  'idpLogout: true,',
  'idpLogout: true, backchannelLogout: { store: new session.MemoryStore() },',
)

let stage: Stage
beforeAll(async () => {
  stage = await stageClient(FILE, { egress: { allow: ['localhost'] } })
  const program = `import session from 'express-session'\n${CODE}`
  await stage.run(process.execPath, stage.write('application.mjs', program))
})
afterAll(() => stage.close())

test('express-openid-connect: a user whose session ends is signed out at the application', async () => {
  const { usher, origin } = stage
  const ada = new Visitor(usher)
  await ada.open(`${origin}/me`)
  expect((await ada.open(`${origin}/`)).json()).toEqual({ signedIn: true })
  const { id } = (await usher.directory.findByUsername('ada')) ?? { id: '' }
  for (const { uid } of await usher.sessions.list(id)) await usher.sessions.end(uid)
  await usher.deliver('new')
  expect((await ada.open(`${origin}/`)).json()).toEqual({ signedIn: false })
  expect(usher.output.join()).toContain('logout_delivered')

  await ada.open(`${origin}/me`)
  expect((await ada.open(`${origin}/`)).json()).toEqual({ signedIn: true })
})
