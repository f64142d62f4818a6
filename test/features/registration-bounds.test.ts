// Limits of dynamic registration, registered clients on several nodes and after a copy of the store, and
// that the store contains no credential.

import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createInvitations } from '../../src/features/registration/invitations.ts'
import { MAX_CLIENTS } from '../../src/features/registration/registered-clients.ts'
import { signOutQueue } from '../../src/oidc/adapter/sessions.ts'
import { Browser } from '../support/browser.ts'
import { moveClock, startAnother } from '../support/fixtures.ts'
import { temporaryFolder } from '../support/folder.ts'
import { authorizationRequest, authorize } from '../support/journey.ts'
import { freePort } from '../support/ports.ts'
import { startRedis } from '../support/redis.ts'
import {
  CALLBACK,
  invite,
  METADATA,
  manage,
  ON,
  register,
  registered,
  registerNew,
} from '../support/registration.ts'
import { ADA, type UsherOptions } from '../support/usher.ts'

const DAY = 24 * 3600

const start = (options: UsherOptions = {}) => startAnother({ ...ON, ...options })
test('concurrent registrations cannot exceed the number of uses of an initial access token', async () => {
  const usher = await start()
  const token = await invite(usher, 7)
  const answers = await Promise.all(Array.from({ length: 25 }, () => register(usher, token)))
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(7)
  const refused = answers.filter(({ status }) => status === 401)
  expect(refused).toHaveLength(18)
  expect(refused[0]?.json.error_description).toContain('used up')
  expect(await registered(usher).list()).toHaveLength(7)
})

test('at most a thousand clients can be registered', async () => {
  const usher = await start()
  const clients = registered(usher)
  const { client_id } = await registerNew(usher)
  const kept = await clients.read(client_id)
  for (let i = 1; i < MAX_CLIENTS; i++) {
    const client = { ...kept?.client, client_id: `app_${i.toString(16).padStart(24, '0')}` }
    await clients.add({ client, since: 0, invitation: 'x' })
  }
  const token = await invite(usher)
  const { status, json } = await register(usher, token)
  expect([status, json.error]).toEqual([429, 'invalid_request'])
  await clients.remove('app_000000000000000000000001')
  expect((await register(usher, token)).status).toBe(201)
})

test('a registered client without a sign-in is removed after a day, with its token; a used one stays', async () => {
  const usher = await start()
  await usher.addAccount(ADA)
  const [unused, used] = [await registerNew(usher), await registerNew(usher)]
  const { client_id } = used
  await authorize(usher, { client_id, redirect_uri: CALLBACK })
  // An update does not count as use.
  await manage(usher, unused, { ...METADATA, client_id: unused.client_id })
  moveClock(DAY + 120)
  expect((await manage(usher, unused)).status).toBe(401)
  expect((await manage(usher, used)).status).toBe(200)
  expect(await registered(usher).list()).toMatchObject([{ client_id }])
  moveClock(300 * DAY)
  expect((await manage(usher, used)).status).toBe(200)
  moveClock(401 * DAY)
  expect((await manage(usher, used)).status).toBe(401)
})

test('an expired or revoked initial access token registers no client', async () => {
  const usher = await start()
  const [token, other] = [await invite(usher), await invite(usher)]
  const invitations = createInvitations(usher.records)
  const [first] = await invitations.list()
  if (first) await invitations.revoke(first)
  expect((await register(usher, first?.jti ?? '')).status).toBe(401)
  const left = first?.jti === token ? other : token
  expect((await register(usher, left)).status).toBe(201)
  moveClock(3600 + 120)
  expect((await register(usher, left)).status).toBe(401)
  expect(await invitations.list()).toEqual([])
})

const folder = temporaryFolder()
let files = 0
const newFile = () => `sqlite:${join(folder, `${files++}.db`)}`

async function newRedis(): Promise<string> {
  const redis = await startRedis({ port: await freePort() })
  onTestFinished(() => redis.stop())
  return redis.url
}

test.each([
  ['SQLite', newFile],
  ['Redis', newRedis],
])('%s: two nodes have the same registered clients', async (_name, make) => {
  const store = await make()
  const env = { USHER_SECRET: 'of-two-nodes-that-share-one-and-the-same-store' }
  const [one, two] = [await start({ store, env }), await start({ store, env })]
  const client = await registerNew(one)
  const read = await manage(two, client)
  expect(read.json).toMatchObject(METADATA)
  const client_name = 'Another name'
  await manage(two, client, { ...METADATA, client_name, client_id: client.client_id })
  expect((await manage(one, client)).json.client_name).toBe(client_name)
  const token = await invite(one, 3)
  const answers = await Promise.all(
    [one, two, one, two, one, two].map(node => register(node, token)),
  )
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(3)
  await manage(two, client, undefined, 'DELETE')
  expect((await manage(one, client)).status).toBe(401)
})

test('if a feature of a registered client is switched off, only that client fails', async () => {
  const store = newFile()
  const env = { USHER_SECRET: 'of-one-node-that-is-started-twice-on-its-store' }
  const features = { dynamic_registration: true, pairwise_subjects: true }
  const before = await start({ store, env, usher: { features } })
  const scope = 'openid profile email'
  const pairwise = await registerNew(before, { ...METADATA, subject_type: 'pairwise' })
  const scoped = await registerNew(before, { ...METADATA, scope })
  const claims = { claims: { name: { scope: 'profile', from: 'name' } } }
  const after = await start({ store, env, claims })
  const open = ({ client_id }: { client_id: string }) =>
    new Browser(after.issuer).open(
      authorizationRequest(after, { client_id, redirect_uri: CALLBACK }).url,
    )
  const page = await open(pairwise)
  expect([page.status, page.text]).toEqual([400, expect.stringContaining('subject_type')])
  expect((await open(scoped)).url.pathname).toMatch(/^\/interaction\//)
  const sub = await after.addAccount(ADA)
  const { client_id } = pairwise
  await signOutQueue(after.records).enqueue({ uid: 'x', accountId: sub.id, client_id, sid: 'y' })
  await after.deliver('new')
  expect(after.output.join('')).not.toContain('logout_failed')
})
