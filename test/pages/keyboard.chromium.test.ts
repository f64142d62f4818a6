// The pages used with the keyboard alone.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { focused, NO_COMPLAINTS, type TabStop, tabTo, waitForFocus } from '../support/chromium.ts'
import { PASSWORD } from '../support/usher.ts'
import { type Stage, startStage, Visit } from '../support/visit.ts'

let stage: Stage
let visit: Visit

beforeAll(async () => {
  stage = await startStage([{ client_id: 'web' }])
  visit = await Visit.start(stage.browser)
})
afterAll(() => stage.close())

const visible = (...names: string[]): TabStop[] =>
  names.map(name => ({ name, isFocusVisible: true }))

test('sign in, choose, allow, and remove the access again with Tab, Space and Enter', async () => {
  const { page } = visit
  const { keyboard } = page
  const web = stage.party('web')
  await page.goto(`${web.origin}/sign-in`)

  await waitForFocus(page)
  expect([await focused(page)]).toEqual(visible('Username'))
  await keyboard.type('ada')
  expect(await tabTo(page, 'Password')).toEqual(visible('Password'))
  await keyboard.type(PASSWORD)
  expect(await tabTo(page, 'Cancel')).toEqual(visible('Show', 'Sign in', 'Cancel'))
  await keyboard.press('Shift+Tab')
  await keyboard.press('Enter')

  await page.getByRole('heading', { name: 'Allow access' }).waitFor()
  const email = 'See your email address'
  const profile = 'See your name and username'
  const menu = 'Signed in as ada'
  expect(await tabTo(page, email)).toEqual(visible(menu, profile, email))
  await keyboard.press('Space')
  const rest = ['Keep access when you are not signed in', 'Allow']
  expect(await tabTo(page, 'Allow')).toEqual(visible(...rest))
  await keyboard.press('Enter')

  await page.waitForURL(`${web.origin}/`)
  const { claims } = web.session()
  expect(claims).toMatchObject({ name: 'Ada Lovelace' })
  expect(claims).not.toHaveProperty('email')

  await page.goto(`${stage.usher.issuer}/account`)
  const areas = [
    'Skip to the content',
    menu,
    'Overview',
    'Security',
    'Devices and activity',
    'Connected applications',
  ]
  const last = areas.at(-1) ?? ''
  expect(await tabTo(page, last)).toEqual(visible(...areas))
  await tabTo(page, 'Connected applications')
  await keyboard.press('Enter')
  await page.waitForURL('**/account/applications')
  expect((await tabTo(page, last)).at(-1)?.isFocusVisible).toBe(true)
  await keyboard.press('Tab')
  const application = await focused(page)
  expect(application?.name).toMatch(/^Relying party/)
  expect(application?.isFocusVisible).toBe(true)
  await keyboard.press('Enter')
  const remove = 'Remove access'
  expect((await tabTo(page, remove)).at(-1)?.isFocusVisible).toBe(true)
  await keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Remove the access of Relying party?' }).waitFor()
  expect(await tabTo(page, 'Cancel')).toEqual(visible(...areas, 'Remove access', 'Cancel'))
  await keyboard.press('Shift+Tab')
  await keyboard.press('Space')
  await page.getByRole('status').waitFor()
  expect(await tabTo(page, 'Overview')).toEqual(visible(...areas.slice(0, 3)))
  await keyboard.press('Enter')
  await page.waitForURL('**/account')

  await tabTo(page, 'Security')
  await keyboard.press('Enter')
  await page.waitForURL('**/account/security')
  await tabTo(page, 'Change password')
  await keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Change your password' }).waitFor()
  const another = 'another battery, another staple'
  const typed = { 'Current password': PASSWORD, 'New password': another }
  for (const [field, text] of Object.entries({ ...typed, 'Repeat new password': another })) {
    expect((await tabTo(page, field)).at(-1)?.isFocusVisible).toBe(true)
    await keyboard.type(text)
  }
  expect(await tabTo(page, 'Cancel')).toEqual(visible('Show', 'Change password', 'Cancel'))
  await keyboard.press('Shift+Tab')
  await keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Your password is changed' }).waitFor()
  await tabTo(page, 'Back to your account')
  await keyboard.press('Enter')
  await page.waitForURL('**/account')

  await tabTo(page, menu)
  await keyboard.press('Enter')
  const panel = page.locator('.panel')
  await panel.waitFor()
  await keyboard.press('Escape')
  await panel.waitFor({ state: 'hidden' })
  expect((await focused(page))?.name).toBe(menu)
  await keyboard.press('Enter')
  expect(await tabTo(page, 'Sign out')).toEqual(visible('Your account', 'Sign out'))
  await keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Sign out' }).waitFor()
  const stay = 'Stay signed in'
  expect(await tabTo(page, stay)).toEqual(visible('Sign out', stay))
  await keyboard.press('Shift+Tab')
  await keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Signed out' }).waitFor()
  expect(visit.complaints).toEqual(NO_COMPLAINTS)
})
