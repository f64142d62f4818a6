// Client libraries for Node, each in a small application like that of its documentation (applications/).

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { stageClient, Visitor } from '../support/client-page.ts'

const FOLDER = join(import.meta.dirname, 'applications')
const CLIENT = {
  client_id: 'application',
  client_name: 'Application',
  client_secret: 'a-secret-for-development',
}

const WITHOUT_PKCE = { require_pkce: false, token_endpoint_auth_method: 'client_secret_post' }

/** The library, its redirect URI, further keys of its client file, and further facts that it shows. */
const LIBRARIES: [name: string, callback: string, more: object, shows: object][] = [
  // This library has no PKCE, and sends its secret in the body.
  ['passport-openidconnect', '/callback', WITHOUT_PKCE, {}],
  ['simple-oauth2', '/callback', {}, { afterwards: 401 }],
  ['grant', '/connect/usher/callback', {}, { preferred_username: 'ada' }],
  ['arctic', '/callback', {}, { afterwards: 401 }],
  ['hapi-bell', '/sign-in', {}, { preferred_username: 'ada' }],
]

test.each(LIBRARIES)('%s signs Ada in', async (name, callback, more, shows) => {
  const client = { ...CLIENT, redirect_uris: [`http://localhost:4000${callback}`], ...more }
  const stage = await stageClient(JSON.stringify(client))
  onTestFinished(() => stage.close())
  const program = readFileSync(join(FOLDER, `${name}.js`), 'utf8')
  await stage.run(process.execPath, stage.write('application.mjs', program))
  const page = await new Visitor(stage.usher).open(`${stage.origin}/sign-in`)
  expect(page.text).toContain('Ada')
  expect(page.json()).toMatchObject({
    sub: expect.stringMatching(/^usr_/),
    name: 'Ada Lovelace',
    ...shows,
  })
})
