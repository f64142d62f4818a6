// Audit events in the log and in the metrics: one line for each event, also after retries, and no secret.

import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { ada, auditEventsOf, test, usher } from '../support/fixtures.ts'
import {
  authorizationRequest,
  authorize,
  post,
  redeem,
  refresh,
  tokens,
} from '../support/journey.ts'
import { removalOf } from '../support/people.ts'
import { ADA, PASSWORD, startUsher } from '../support/usher.ts'

const names = (facts: Record<string, unknown>[]) => facts.map(({ event }) => event)

test('sign-in, consent and issued tokens are one event each', async () => {
  const browser = new Browser(usher.issuer)
  const facts = await auditEventsOf(() => tokens(usher, { browser }))
  expect(names(facts)).toEqual(['sign_in_succeeded', 'consent_given', 'tokens_issued'])
  for (const fact of facts) {
    expect(fact).toMatchObject({ client_id: 'web', account: ada, ip: '127.0.0.1' })
    expect(fact.id).toEqual(expect.any(String))
    expect(fact.user_agent).toEqual(expect.any(String))
  }
  expect(facts[1]).toMatchObject({ scopes: expect.arrayContaining(['offline_access']) })
  const again = await auditEventsOf(() => tokens(usher, { browser }))
  expect(names(again)).toEqual(['tokens_issued'])
})

test('a failed sign-in is one event, and does not name the user', async () => {
  const browser = new Browser(usher.issuer)
  const facts = await auditEventsOf(async () => {
    await browser.open(authorizationRequest(usher).url)
    await browser.submit({ username: 'ada', password: 'wrong', decision: 'continue' })
  })
  expect(names(facts)).toEqual(['sign_in_failed'])
  expect(JSON.stringify(facts)).not.toContain('ada')
})

test('a retried refresh, and reuse as theft, are one event each', async () => {
  const { refresh_token } = await tokens(usher)
  const facts = await auditEventsOf(async () => {
    const { body } = await refresh(usher, refresh_token)
    await refresh(usher, refresh_token)
    await refresh(usher, body.refresh_token)
    for (let i = 0; i < 3; i++) await refresh(usher, refresh_token)
  })
  expect(names(facts)).toEqual([
    'tokens_issued',
    'refresh_replay',
    'tokens_issued',
    'tokens_issued',
    'refresh_reuse',
  ])
})

test('a revocation, the removal of an application, and a sign-out are one event each', async () => {
  const browser = new Browser(usher.issuer)
  const { access_token, refresh_token } = await tokens(usher, { browser })
  const revoke = (token: string) => post(usher, '/api/oauth/revoke', { token })
  const revoked = await auditEventsOf(async () => {
    await revoke(access_token)
    await revoke(refresh_token)
    await revoke(refresh_token)
    await revoke('nonsense')
  })
  expect(revoked).toMatchObject([
    { event: 'token_revoked', token: 'access', account: ada, client_id: 'web' },
    { event: 'token_revoked', token: 'refresh', account: ada, client_id: 'web' },
  ])

  const removed = await auditEventsOf(async () => {
    await browser.open(removalOf())
    await browser.submit()
  })
  expect(removed).toMatchObject([{ event: 'access_removed', client_id: 'web', account: ada }])

  const out = await auditEventsOf(async () => {
    await browser.open('/api/oauth/logout')
    await browser.submit()
  })
  expect(out).toMatchObject([{ event: 'signed_out', account: ada }])
})

test('metrics count a token request that ends with a fault', async () => {
  const faulty = { authorization_code: () => () => Promise.reject(new Error('a fault')) }
  const failing = await startUsher({ features: [{ grantHandlers: faulty }] })
  await failing.addAccount(ADA)
  const { code, request } = await authorize(failing)
  expect((await redeem(failing, code, request)).status).toBe(500)
  const line =
    'usher_token_requests_total{grant_type="authorization_code",outcome="server_error"} 1'
  expect(await failing.metrics.text()).toContain(`${line}\n`)
  await failing.close()
})

test('metrics count events and requests by route, without labels that grow with clients or users', async () => {
  await post(usher, '/api/oauth/token', { grant_type: 'made-up-by-a-caller' })
  await fetch(`${usher.issuer}/nowhere/${'x'.repeat(20)}`)
  const text = await usher.metrics.text()
  expect(text).toMatch(/usher_audit_events_total{event="refresh_reuse"} 1\n/)
  expect(text).toMatch(/usher_audit_events_total{event="sign_in_succeeded"} \d+\n/)
  expect(text).toMatch(/usher_token_requests_total{grant_type="refresh_token",outcome="ok"} \d+\n/)
  expect(text).toMatch(
    /usher_token_requests_total{grant_type="refresh_token",outcome="invalid_grant"} \d+\n/,
  )
  expect(text).toMatch(
    /usher_request_seconds_count{route="\/api\/oauth\/token",status="200"} \d+\n/,
  )
  expect(text).toContain('nodejs_eventloop_lag_seconds')
  for (const word of ['made-up', 'nowhere', 'web', ada, PASSWORD, 'ada']) {
    expect(text).not.toContain(`"${word}`)
  }
})
