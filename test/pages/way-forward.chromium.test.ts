// Pages after an error tell the user the problem and the next step.

import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { waitForFocus } from '../support/chromium.ts'
import { type Stage, startStage, Visit } from '../support/visit.ts'

let stage: Stage
let visit: Visit

beforeAll(async () => {
  stage = await startStage([{ client_id: 'web' }])
})
afterAll(() => stage.close())
beforeEach(async () => {
  await stage.forgetConsents()
  visit = await Visit.start(stage.browser)
  onTestFinished(() => visit.close())
})

test('a failed sign-in shows its request id, by which the operator finds the reason', async () => {
  await visit.beginAt(stage.party('web'))
  const [response] = await Promise.all([
    visit.page.waitForResponse(answer => answer.request().method() === 'POST'),
    visit.signIn('not the password'),
  ])
  const id = response.headers()['x-request-id'] ?? ''
  expect(await visit.page.getByRole('alert').textContent()).toContain(`Reference: ${id}`)
})

test('after a wrong password, the page has an alert, the username, and the focus on the password', async () => {
  const { page } = visit
  await visit.beginAt(stage.party('web'))
  await visit.signIn('not the password')
  expect(await page.getByRole('alert').textContent()).toContain('is incorrect')
  const password = page.getByLabel('Password')
  expect(await page.getByLabel('Username').inputValue()).toBe('ada')
  expect(await password.inputValue()).toBe('')
  await waitForFocus(page)
  expect(await page.evaluate('document.activeElement.id')).toBe('password')
  await visit.signIn()
  expect(await visit.heading()).toBe('Allow access')
  expect(visit.complaints.policyViolations).toEqual([])
})

test('Back after signing in leads to the application, as long as the session lasts', async () => {
  const { page } = visit
  const web = stage.party('web')
  await visit.beginAt(web)
  await visit.signIn()
  expect(await visit.heading()).toBe('Allow access')
  await page.goBack()
  await page.waitForURL(`${web.origin}/`)
  await page.goForward()
  await visit.button('Allow').click()
  await page.waitForURL(`${web.origin}/`)
  expect(await visit.heading()).toBe('Welcome')
  await page.goBack()
  await page.waitForURL(`${web.origin}/`)
  expect(await visit.heading()).toBe('Welcome')
  expect(visit.complaints.policyViolations).toEqual([])
})

test('a sign-in page that was open for too long says so, and leads back to the client', async () => {
  await visit.beginAt(stage.party('web'))
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 16 * 60_000 })
  await visit.signIn().finally(() => vi.useRealTimers())
  expect(await visit.heading()).toBe('This page has expired')
  await visit.link('Go back to Relying party').click()
  await visit.page.waitForURL(`${stage.party('web').origin}/`)
})

test('a user who opens sign-out in the account menu, and stays, sees that they stay signed in', async () => {
  await visit.page.goto(`${stage.usher.issuer}/account`)
  await visit.signIn()
  await visit.page.getByText('Signed in as ada').click()
  await visit.link('Sign out').click()
  await visit.button('Stay signed in').click()
  expect(await visit.heading()).toBe('Still signed in')
  await visit.link('Go to your account').click()
  expect(await visit.heading()).toBe('Your account')
})

test('sign-out without a session needs no confirmation', async () => {
  await visit.page.goto(`${stage.usher.issuer}/api/oauth/logout`)
  await visit.page.getByRole('heading', { name: 'Signed out' }).waitFor()
  expect(visit.complaints.policyViolations).toEqual([])
})
