// Passkeys in Chromium, with its virtual authenticators (CDP, WebAuthn): with the keyboard alone, by autofill, and
// with authenticators that cannot verify the user.

import type { CDPSession, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createFactors, isPasskey } from '../../src/features/factors/factors.ts'
import { axeViolations, NO_COMPLAINTS, tabTo, waitForFocus } from '../support/chromium.ts'
import { FACTORS } from '../support/factors.ts'
import { words } from '../support/people.ts'
import { PASSWORD } from '../support/usher.ts'
import { type Stage, startStage, Visit } from '../support/visit.ts'

let stage: Stage
let visit: Visit
let page: Page
let cdp: CDPSession
beforeAll(async () => {
  const sign_in = { methods: ['password', 'passkey'], second_factor: 'optional' }
  stage = await startStage([], { usher: { sign_in } })
})
afterAll(() => stage.close())
beforeEach(async () => {
  await createFactors(stage.usher.records).reset(stage.ada)
  visit = await Visit.start(stage.browser)
  ;({ page } = visit)
  cdp = await page.context().newCDPSession(page)
  await cdp.send('WebAuthn.enable', { enableUI: false })
})
afterEach(async () => {
  expect(visit.complaints).toEqual(NO_COMPLAINTS)
  await visit.close()
})

/** Adds an authenticator to the browser: by default one that keeps discoverable passkeys, and verifies the user. */
async function addAuthenticator(options: object = {}) {
  const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
      ...options,
    },
  })
  const setPresent = (enabled: boolean) =>
    cdp.send('WebAuthn.setAutomaticPresenceSimulation', { authenticatorId, enabled })
  const remove = () => cdp.send('WebAuthn.removeVirtualAuthenticator', { authenticatorId })
  const list = async () =>
    (await cdp.send('WebAuthn.getCredentials', { authenticatorId })).credentials
  return { authenticatorId, setPresent, remove, list }
}

const heading = (key: string) => page.getByRole('heading', { name: words(key), exact: true })
const button = (key: string) => page.getByRole('button', { name: words(key), exact: true })
const passkeys = async () =>
  (await createFactors(stage.usher.records).read(stage.ada)).factors.filter(isPasskey)

/** Signs in with the password, and adds the first passkey on the account page, with the keyboard alone. */
async function addPasskey() {
  await visit.enterPassword(stage.usher)
  await heading('account.title').waitFor()
  await page.goto(`${stage.usher.issuer}${FACTORS}`)
  await tabTo(page, words('factors.add_passkey'))
  await page.keyboard.press('Enter')
  // An account without a factor is asked for its password.
  await page.getByText(words('sign_in.for_change')).waitFor()
  await waitForFocus(page)
  await page.keyboard.type(PASSWORD)
  await page.keyboard.press('Enter')
  await heading('factors.add_passkey').waitFor()
  await button('factors.add_passkey').waitFor()
  await tabTo(page, words('factors.add_passkey'))
  await page.keyboard.press('Enter')
  await heading('factors.codes_title').waitFor()
}

/** Names the passkey that was just added. */
async function nameIt(name: string) {
  await page.getByLabel(words('factors.passkey_name')).fill(name)
  await page.keyboard.press('Enter')
  await heading('security.title').waitFor()
}

describe('with an authenticator that verifies the user', () => {
  test('a passkey is added and signs in with one button, with the keyboard alone', async () => {
    const phone = await addAuthenticator()
    await addPasskey()
    expect(await axeViolations(page)).toEqual([])
    expect((await passkeys())[0]?.name).toBe('Chrome on Linux')
    await nameIt('my phone')
    const [passkey] = await passkeys()
    expect(passkey).toMatchObject({ name: 'my phone', transports: ['internal'] })
    expect((await phone.list()).map(({ isResidentCredential }) => isResidentCredential)).toEqual([
      true,
    ])

    await page.context().clearCookies()
    await phone.setPresent(false)
    await page.goto(`${stage.usher.issuer}/account`)
    await tabTo(page, words('sign_in.passkey'))
    await phone.setPresent(true)
    await page.keyboard.press('Enter')
    await heading('account.title').waitFor()
    await page.goto(`${stage.usher.issuer}${FACTORS}`)
    expect(await axeViolations(page)).toEqual([])
    expect(await page.getByRole('listitem').filter({ hasText: 'my phone' }).count()).toBe(1)
  })

  test('autofill on the field of the username signs in without a button', async () => {
    const phone = await addAuthenticator()
    await addPasskey()
    await page.context().clearCookies()
    // The virtual authenticator chooses the passkey as soon as the page offers it.
    await phone.setPresent(true)
    await page.goto(`${stage.usher.issuer}/account`)
    await heading('account.title').waitFor()
  })

  test('autofill is asked for again after the dialog of the button was cancelled', async () => {
    await addAuthenticator()
    await page.addInitScript(`
      const asked = (window.asked = [])
      navigator.credentials.get = ({ mediation = 'dialog' }) => {
        asked.push(mediation)
        const cancelled = new DOMException('cancelled', 'NotAllowedError')
        return mediation === 'dialog' ? Promise.reject(cancelled) : new Promise(() => {})
      }
    `)
    await page.goto(`${stage.usher.issuer}/account`)
    const asked = () => page.evaluate<string[]>('window.asked')
    await expect.poll(asked).toEqual(['conditional'])
    await button('sign_in.passkey').press('Enter')
    await page.getByText(words('factors.passkey_unused')).waitFor()
    await expect.poll(asked).toEqual(['conditional', 'dialog', 'conditional'])
  })

  test('the same device gets no second passkey, and the page says so', async () => {
    await addAuthenticator()
    await addPasskey()
    await page.goto(`${stage.usher.issuer}${FACTORS}?add=passkey`)
    await heading('factors.step_title').waitFor()
    await page.locator('button:focus').waitFor()
    expect(await axeViolations(page)).toEqual([])
    await page.keyboard.press('Enter')
    await heading('factors.add_passkey').waitFor()
    await button('factors.add_passkey').press('Enter')
    await page.getByText(words('factors.passkey_known')).waitFor()
    expect(await axeViolations(page)).toEqual([])
    expect(await passkeys()).toHaveLength(1)
  })

  test('a removed passkey is forgotten by the browser', async () => {
    const phone = await addAuthenticator()
    await addPasskey()
    const [passkey] = await passkeys()
    await createFactors(stage.usher.records).remove(stage.ada, passkey?.id ?? '')
    await page.goto(`${stage.usher.issuer}${FACTORS}`)
    await expect.poll(phone.list).toEqual([])
  })
})

describe('with a security key without user verification', () => {
  const KEY = { transport: 'usb', hasUserVerification: false, isUserVerified: false }

  test('a passkey is a second factor after the password, and no sign-in alone', async () => {
    const key = await addAuthenticator({ ...KEY, hasResidentKey: false })
    await addPasskey()
    await page.context().clearCookies()
    await visit.enterPassword(stage.usher)
    await heading('factors.step_title').waitFor()
    await page.locator('button:focus').waitFor()
    await page.keyboard.press('Enter')
    await heading('account.title').waitFor()
    expect((await key.list()).map(({ signCount }) => signCount)).toEqual([2])

    await page.context().clearCookies()
    await page.goto(`${stage.usher.issuer}/account`)
    await button('sign_in.passkey').press('Enter')
    await page.getByText(words('factors.passkey_unused')).waitFor()
    expect(await axeViolations(page)).toEqual([])
  })
})

test('of two authenticators each signs in', async () => {
  const key = { transport: 'usb' }
  const first = await addAuthenticator(key)
  await addPasskey()
  await nameIt('first')
  await page.goto(`${stage.usher.issuer}${FACTORS}?add=passkey`)
  await heading('factors.step_title').waitFor()
  await button('factors.use_passkey').press('Enter')
  await heading('factors.add_passkey').waitFor()
  await first.setPresent(false)
  const second = await addAuthenticator({ ...key, transport: 'internal' })
  await button('factors.add_passkey').press('Enter')
  await heading('factors.name_title').waitFor()
  await nameIt('second')
  expect((await passkeys()).map(({ name }) => name)).toEqual(['first', 'second'])
  for (const [used, other] of [
    [first, second],
    [second, first],
  ] as const) {
    await page.context().clearCookies()
    await other.setPresent(false)
    await used.setPresent(true)
    await page.goto(`${stage.usher.issuer}/account`)
    await heading('account.title').waitFor()
  }
  const times = (await passkeys()).map(({ used, created }) => (used?.at ?? 0) >= created)
  expect(times).toEqual([true, true])
})

test('without JavaScript, pages say what is needed, and the password still works', async () => {
  const plain = await Visit.start(stage.browser, { javaScriptEnabled: false })
  await plain.page.goto(`${stage.usher.issuer}/account`)
  const signIn = plain.page.getByRole('button', { name: words('sign_in.passkey') })
  expect(await signIn.count()).toBe(0)
  await plain.page.getByLabel(words('sign_in.username')).fill('ada')
  await plain.page.getByLabel(words('sign_in.password')).fill(PASSWORD)
  await plain.page.getByLabel(words('sign_in.password')).press('Enter')
  await plain.page.getByRole('heading', { name: words('account.title') }).waitFor()
  await plain.page.goto(`${stage.usher.issuer}${FACTORS}?add=passkey`)
  await plain.page.getByLabel(words('sign_in.password')).fill(PASSWORD)
  await plain.page.getByLabel(words('sign_in.password')).press('Enter')
  await plain.page.getByRole('heading', { name: words('factors.add_passkey') }).waitFor()
  expect(await plain.page.getByText(words('factors.no_passkeys')).isVisible()).toBe(true)
  await plain.close()
})
