// Pairwise subjects: one for each sector, which never changes within an installation.

import { randomBytes } from 'node:crypto'
import { decodeJwt } from 'jose'
import { expect } from 'vitest'
import { resealAll } from '../../src/commands/store.ts'
import { createSeal } from '../../src/store/seal.ts'
import { Browser } from '../support/browser.ts'
import { ada, browser, startAnother, usher, usherTest } from '../support/fixtures.ts'
import { temporaryFolder } from '../support/folder.ts'
import { authorizationRequest, authorize, post, redeem, userinfo } from '../support/journey.ts'
import { CALLBACK, METADATA, manage, registerNew } from '../support/registration.ts'
import { ADA, CLIENTS, startUsher, type Usher } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const pairwise = (client_id: string, host: string, more: object = {}) => ({
  ...CLIENTS.web,
  client_id,
  redirect_uris: [`https://${host}/callback`],
  subject_type: 'pairwise',
  ...more,
})
const SECTOR = 'https://sector.example.org/uris.json'
const clients: Record<string, object> = {
  ...CLIENTS,
  wiki: pairwise('wiki', 'wiki.example.org'),
  wiki2: pairwise('wiki2', 'wiki.example.org'),
  blog: pairwise('blog', 'blog.example.org'),
  shop: pairwise('shop', 'shop.example.org', { sector_identifier_uri: SECTOR }),
  till: pairwise('till', 'till.example.org', { sector_identifier_uri: SECTOR }),
}
const usher_yaml = { features: { pairwise_subjects: true } }

const test = usherTest({ clients, usher: usher_yaml })
const folder = temporaryFolder()

async function tokensOf(client_id: string, at = usher, by = browser) {
  const { redirect_uris } = clients[client_id] as { redirect_uris: string[] }
  const params = { client_id, redirect_uri: redirect_uris[0] ?? '', scope: 'openid' }
  const { code, request } = await authorize(at, { browser: by, ...params })
  return { ...(await redeem(at, code, request)).body, request, params }
}
const subjectOf = async (client_id: string, at?: Usher, by?: Browser) =>
  String(decodeJwt((await tokensOf(client_id, at, by)).id_token).sub)

test('each sector gets its own subject for a user, in the format of all subjects', async () => {
  const [wiki, wiki2, blog, shop, till, web] = [
    await subjectOf('wiki'),
    await subjectOf('wiki2'),
    await subjectOf('blog'),
    await subjectOf('shop'),
    await subjectOf('till'),
    await subjectOf('web'),
  ]
  expect(web).toBe(ada)
  expect(wiki2).toBe(wiki)
  expect(till).toBe(shop)
  expect(new Set([wiki, blog, shop, web]).size).toBe(4)
  for (const sub of [wiki, blog, shop]) expect(sub).toMatch(/^usr_[0-9a-z]{26}$/)
  expect(await usher.directory.find(wiki)).toBeUndefined()
})

test('the subject is the same in the ID token, UserInfo and introspection', async () => {
  const { id_token, access_token } = await tokensOf('wiki')
  const { sub } = decodeJwt(id_token)
  expect((await userinfo(usher, access_token)).body.sub).toBe(sub)
  const form = { token: access_token, client_id: 'wiki' }
  expect((await post(usher, '/api/oauth/introspect', form)).body).toMatchObject({
    active: true,
    sub,
  })
})

test('an id_token_hint is valid for its own application only', async () => {
  const { id_token: id_token_hint, params } = await tokensOf('wiki')
  const headers = { cookie: await browser.cookies() }
  const ask = async (more: object) => {
    const { url } = authorizationRequest(usher, { ...params, prompt: 'none', ...more })
    return (await send(usher, url, { headers })).location?.searchParams
  }
  expect((await ask({ id_token_hint }))?.get('code')).toBeTruthy()
  const sub = { value: ada }
  const claims = JSON.stringify({ id_token: { sub } })
  expect((await ask({ claims }))?.get('error')).toBe('login_required')
})

test('the subject survives a restart, and each step of a change of USHER_SECRET', async () => {
  const store = `sqlite:${folder}/usher.db`
  const [old, next] = [0, 0].map(() => randomBytes(32).toString('base64url'))
  const subjects: string[] = []
  for (const [i, USHER_SECRET] of [old, `${next} ${old}`, next].entries()) {
    const env = { USHER_SECRET: USHER_SECRET ?? '' }
    const node = await startUsher({ clients, usher: usher_yaml, store, env })
    if (i === 0) await node.addAccount(ADA)
    subjects.push(await subjectOf('wiki', node, new Browser(node.issuer)))
    if (i === 1) await resealAll(node.store, createSeal(node.settings.secrets))
    await node.close()
  }
  expect(new Set(subjects).size).toBe(1)
})

const start = (more: object, features: object = usher_yaml) =>
  startUsher({ clients: { web: { ...CLIENTS.web, ...more } }, usher: features })
const NATIVE = { application_type: 'native', subject_type: 'pairwise' }
test.each<[string, object, RegExp]>([
  ['two hosts', { redirect_uris: ['https://a.example/', 'https://b.example/'] }, /one sector/],
  ['no host', { ...NATIVE, redirect_uris: ['com.example.app:/cb'] }, /one sector/],
  ['loopback', { ...NATIVE, redirect_uris: ['http://127.0.0.1/cb'] }, /one sector/],
])('a pairwise client with %s needs a sector_identifier_uri', async (_, more, reason) => {
  await expect(start({ subject_type: 'pairwise', ...more })).rejects.toThrow(reason)
})

test('an update of a client that registered itself changes neither its sector nor its subject_type', async () => {
  const at = await startAnother({
    clients,
    usher: { features: { ...usher_yaml.features, dynamic_registration: true } },
  })
  const pairwiseGame = { ...METADATA, subject_type: 'pairwise' }
  const game = await registerNew(at, pairwiseGame)
  const { client_id } = game
  const elsewhere = ['https://wiki.example.org/callback']
  for (const refused of [
    { ...pairwiseGame, redirect_uris: elsewhere },
    { ...pairwiseGame, redirect_uris: elsewhere, subject_type: 'public' },
    METADATA,
  ]) {
    const { status, json } = await manage(at, game, { ...refused, client_id })
    expect([status, json.error]).toEqual([400, expect.stringMatching(/^invalid_/)])
  }
  const redirect_uris = [`${new URL(CALLBACK).origin}/elsewhere`]
  expect((await manage(at, game, { ...pairwiseGame, redirect_uris, client_id })).status).toBe(200)

  const open = await registerNew(at)
  const update = { ...METADATA, subject_type: 'pairwise', client_id: open.client_id }
  expect((await manage(at, open, update)).status).toBe(400)
})
