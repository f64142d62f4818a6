// People who are kept in a directory of the operator's: the one of docs/examples, and ones that misbehave.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createAsk } from '../../src/accounts/directory-call.ts'
import { Browser } from '../support/browser.ts'
import { run } from '../support/command.ts'
import { refresh, tokens, userinfo } from '../support/journey.ts'
import { credentials, isSignedIn, signedIn } from '../support/people.ts'
import {
  type PeopleDirectory,
  startAnswering,
  startPeopleDirectory,
} from '../support/people-directory.ts'
import { ADA, GRACE, startUsher, type Usher } from '../support/usher.ts'

const folder = mkdtempSync(join(tmpdir(), 'usher-http-directory-'))
const store = `sqlite:${join(folder, 'usher.db')}`
let people: PeopleDirectory
let usher: Usher
const ada = { id: '17', ...ADA }
const grace = { id: '18', ...GRACE }

beforeAll(async () => {
  people = await startPeopleDirectory()
  people.write([ada, grace])
  usher = await startUsher({ store, usher: { accounts: { http: people.settings } } })
})
afterAll(async () => {
  await usher.close()
  await people.close()
  rmSync(folder, { recursive: true })
})

/** Each command is a process. */
const SLOW = { timeout: 60_000 }
/** Answers about an account count for a second. */
const forgotten = () => new Promise(resolve => setTimeout(resolve, 1100))

test('who is in it signs in, under a subject of ours that stays when everything else changes', async () => {
  const first = await tokens(usher)
  const { body } = await userinfo(usher, first.access_token)
  expect(body).toMatchObject({ preferred_username: 'ada', name: ADA.name, email: ADA.email })
  expect(body.sub).toMatch(/^usr_[0-9a-z]{26}$/)
  people.write([{ ...ada, username: 'countess', name: null, email: null }, grace])
  await forgotten()
  const second = await tokens(usher, { username: 'countess' })
  const renamed = (await userinfo(usher, second.access_token)).body
  expect(renamed).toMatchObject({ sub: body.sub, preferred_username: 'countess' })
  expect(renamed).not.toHaveProperty('name')
  const other = await tokens(usher, { username: 'grace' })
  expect((await userinfo(usher, other.access_token)).body.sub).not.toBe(body.sub)
  people.write([ada, grace])
})

test('a wrong password and an unknown name get the same page', async () => {
  const pages: string[] = []
  for (const [name, password] of [
    ['ada', 'not the password'],
    ['nobody', 'not the password'],
    ['ada', 'x'.repeat(1025)],
  ]) {
    const browser = new Browser(usher.issuer)
    await browser.open('/account')
    await browser.submit(credentials(name, password))
    expect(browser.page.status).toBe(400)
    pages.push(browser.page.html.querySelector('main')?.text.replaceAll(/\s+/g, ' ') ?? '')
  }
  expect(new Set(pages).size).toBe(1)
})

test('SE6: who is disabled there, or gone, has lost every token and session a second later, for good', async () => {
  for (const after of [[ada, { ...grace, enabled: false }], [ada]]) {
    people.write([ada, grace])
    const { access_token, refresh_token, browser } = await tokens(usher, { username: 'grace' })
    people.write(after)
    await forgotten()
    expect((await userinfo(usher, access_token)).status).toBe(401)
    expect((await refresh(usher, refresh_token)).body.error).toBe('invalid_grant')
    expect(await isSignedIn(browser)).toBe(false)
    people.write([ada, grace])
    await forgotten()
    expect((await refresh(usher, refresh_token)).body.error).toBe('invalid_grant')
    expect(await isSignedIn(browser)).toBe(false)
    expect(await isSignedIn(await signedIn(usher, 'grace'))).toBe(true)
  }
})

test('while it is away everything is 503, nobody loses a token, and it goes on when it is back', async () => {
  const { access_token, refresh_token } = await tokens(usher)
  await people.stop()
  await forgotten()
  for (const answer of [await refresh(usher, refresh_token), await userinfo(usher, access_token)]) {
    expect(answer).toMatchObject({ status: 503, body: { error: 'temporarily_unavailable' } })
    expect(answer.headers.get('retry-after')).toBe('1')
  }
  const browser = new Browser(usher.issuer)
  await browser.open('/account')
  await browser.submit(credentials())
  expect(browser.page.status).toBe(503)
  await people.start()
  await expect
    .poll(async () => (await refresh(usher, refresh_token)).status, { timeout: 10_000 })
    .toBe(200)
  expect(usher.output.join('')).not.toMatch(/correct horse|"level":60/)
})

test(
  'the commands that still make sense work; the others say where people are kept',
  SLOW,
  async () => {
    const command = (words: string) =>
      run(['src/cli.ts', ...words.split(' ')], {
        USHER_CONFIG: usher.settings.folder,
        USHER_STORE: store,
      })
    const refused = await command('accounts disable ada')
    expect(refused).toMatchObject({ code: 1 })
    expect(refused.stderr).toContain('accounts.http in usher.yaml): do it there')
    const { stdout } = await command('accounts show ada --json')
    expect(JSON.parse(stdout)).toMatchObject({ username: 'ada', enabled: true })
    await command('sessions end ada')
    expect((await command('sessions list ada')).stdout).toBe('ada is not signed in.\n')
    expect((await command('grants withdraw ada web')).stderr).toContain('every token of it is dead')
  },
)

test('the directory of docs/examples answers nobody who cannot sign, or signs for another', async () => {
  const { url, secret_file } = people.settings
  const unsigned = await fetch(url, { method: 'POST', body: '{"find":{"username":"ada"}}' })
  expect(unsigned.status).toBe(401)
  const other = join(folder, 'other')
  writeFileSync(other, 'another secret, which is as long as it has to be')
  const question = { find: { username: 'ada' } }
  await expect(createAsk({ url, secret_file: other })(question)).rejects.toThrow()
  const elsewhere = createAsk({ url: `${url}elsewhere`, secret_file })
  await expect(elsewhere(question)).rejects.toMatchObject({
    error_detail: 'the directory (accounts.http): it answered 401',
  })
  expect(await createAsk({ url, secret_file })(question)).toMatchObject({ id: '17' })
})

const ACCOUNT = { id: '1', username: 'ada' }
const MISBEHAVING: [string, number, string, RegExp][] = [
  ['404', 404, '{"account":null}', /: it answered 404$/],
  ['a page', 200, '<html>', /is not JSON/],
  ['no account', 200, '{}', /wrong: account$/],
  ['an account without id', 200, '{"account":{"username":"secret-name"}}', /wrong: account\.id$/],
  [
    'a word for a number',
    200,
    JSON.stringify({ account: { ...ACCOUNT, enabled: 'yes' } }),
    /enabled/,
  ],
  [
    'too much',
    200,
    JSON.stringify({ account: { ...ACCOUNT, name: 'A'.repeat(70_000) } }),
    /too long/,
  ],
]

test.each(MISBEHAVING)('an answer that is %s is none', async (_, status, body, detail) => {
  const server = await startAnswering((_req, res) => res.writeHead(status).end(body))
  const ask = createAsk({ ...people.settings, url: server.url })
  const failed = ask({ find: { id: '1' } })
  await expect(failed).rejects.toMatchObject({
    status: 503,
    error_detail: expect.stringMatching(detail),
  })
  await server.close()
})

test('one that redirects, or never ends, is away within little more than a second', async () => {
  const elsewhere = await startAnswering((_req, res) => res.end('{"account":null}'))
  const redirecting = await startAnswering((_req, res) =>
    res.writeHead(307, { location: elsewhere.url }).end(),
  )
  const endless = await startAnswering((_req, res) => res.writeHead(200).write('{"account":'))
  for (const { url } of [redirecting, endless]) {
    const started = performance.now()
    const ask = createAsk({ ...people.settings, url })
    await expect(ask({ find: { id: '1' } })).rejects.toMatchObject({ status: 503 })
    expect(performance.now() - started).toBeLessThan(3000)
  }
  expect(elsewhere.asked()).toBe(0)
  for (const server of [elsewhere, redirecting, endless]) await server.close()
})

test('one that has failed five times is left alone for a while', async () => {
  const server = await startAnswering((_req, res) => res.writeHead(500).end())
  const ask = createAsk({ ...people.settings, url: server.url })
  for (let i = 0; i < 20; i++) await ask({ find: { id: '1' } }).catch(() => {})
  expect(server.asked()).toBe(5)
  await server.close()
})
