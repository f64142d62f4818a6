// The operator's commands for dynamic registration.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { inviteClients } from '../../src/commands/clients.ts'
import { takeAuditEvents } from '../../src/operation/operator-events.ts'
import { type Operated, startOperated } from '../support/operated.ts'
import { METADATA, manage, ON, register, registered } from '../support/registration.ts'
import type { Usher } from '../support/usher.ts'

let operated: Operated
let service: Usher
beforeAll(async () => {
  operated = await startOperated(ON)
  service = operated.service
})
afterAll(() => operated.close())

const usher = (words: string) => operated.usher(words)

test('an operator creates a token, lists tokens and clients, and removes both; the token is shown once', async () => {
  const invited = await usher('clients invite --until 2d --most 3 --policy without-pkce')
  const token = invited.stdout.trim()
  expect(token).toMatch(/^[\w-]{43}$/)
  const handle = /clients uninvite ([0-9a-f]{8})/.exec(invited.stderr)?.[1] ?? ''
  const { json } = await register(service, token)
  const id = String(json.client_id)

  const [invitations, list, show, explain] = await Promise.all([
    usher('clients invitations --json'),
    usher('clients list'),
    usher(`clients show ${id} --json`),
    usher(`config explain ${id}`),
  ])
  const [invitation] = JSON.parse(invitations.stdout)
  expect(invitation).toMatchObject({
    invitation: handle,
    most: 3,
    used: 1,
    policies: ['without-pkce'],
  })
  expect(list.stdout).toMatch(
    new RegExp(
      `${id}  Strange application  client_secret_basic\\n {4}registered itself .*${handle}`,
    ),
  )
  expect(JSON.parse(show.stdout)).toMatchObject({
    ...METADATA,
    registered: { invitation: handle },
  })
  expect(explain.stdout).toMatch(/^redirect_uris|registered itself/m)
  for (const { stdout } of [invitations, list, show, explain]) {
    for (const secret of [token, json.client_secret, json.registration_access_token]) {
      expect(stdout).not.toContain(secret)
    }
  }

  const timid = await usher(`clients remove ${id}`)
  expect([timid.code, timid.stderr]).toEqual([1, expect.stringContaining('--yes')])
  const [removed, uninvited] = await Promise.all([
    usher(`clients remove ${id} --yes`),
    usher(`clients uninvite ${handle}`),
  ])
  expect([removed.code, uninvited.code]).toEqual([0, 0])
  expect(await registered(service).list()).toEqual([])
  expect((await manage(service, json)).status).toBe(401)
  expect((await register(service, token)).status).toBe(401)
  const facts: string[] = []
  await takeAuditEvents(service.records, ({ event }) => facts.push(event))
  expect(facts.toSorted()).toEqual(['client_invited', 'client_removed', 'invitation_revoked'])
})

test.each([
  ['--until', { until: 'never' }],
  ['--until', { until: '2020-01-01' }],
  ['--most', { most: '0' }],
  ['--policy', { policy: 'none' }],
])('an invalid %s is refused with a reason', async (name, values) => {
  await expect(inviteClients({ values, flags: {}, args: [] })).rejects.toThrow(name)
})
