// Every page in every state, held against axe (WCAG 2.2 AA and best practice) in each look.

import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import type { Account } from '../../src/accounts/account.ts'
import { axeViolations, launchChromium, overflow } from '../support/chromium.ts'
import { authorizationRequest } from '../support/journey.ts'
import { inEveryLook } from '../support/looks.ts'
import { ADA, CLIENTS, PASSWORD, startUsher, type Usher } from '../support/usher.ts'
import { Visit } from '../support/visit.ts'

const APPLICATION = 'https://app.example.org'
const ALL = 'openid profile email phone offline_access'
const QUESTION = 'Remove the access of Web application?'
const PASSWORD_FIELDS = ['Current password', 'New password', 'New password, once more']
const NEW_PASSWORD = 'another battery, another staple'
const AGENTS = [
  'Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0',
  'curl/8.15.0',
]

let usher: Usher
let browser: Browser
let ada: Account

beforeAll(async () => {
  const web = {
    ...CLIENTS.web,
    policy_uri: `${APPLICATION}/privacy`,
    tos_uri: `${APPLICATION}/terms`,
  }
  // A name as long as may be, without a place to break it.
  const native = { ...CLIENTS.native, client_name: 'Donaudampfschifffahrtsgesellschaft'.repeat(2) }
  const claims = {
    preferred_username: { scope: 'profile', from: 'username' },
    name: { scope: 'profile', from: 'name' },
    email: { scope: 'email', from: 'email' },
    phone_number: { scope: 'phone', from: 'attributes.phone' },
  }
  const clients = { ...CLIENTS, web, native }
  ;[usher, browser] = await Promise.all([
    startUsher({ clients, claims: { claims } }),
    launchChromium(),
  ])
  ada = await usher.addAccount(ADA)
})
afterAll(async () => {
  await browser.close()
  await usher.close()
})

const authorizationUrl = (params: Record<string, string> = {}) =>
  authorizationRequest(usher, { scope: ALL, ...params }).url.href

async function allowed(client_id: string, scopes: string[]) {
  const version = await usher.consents.version(ada.id, client_id)
  await usher.consents.decide(ada.id, client_id, { scopes, declined: [], version })
}

/** Answers in the place of whatever comes next, so that the page stays where it is. */
const hold = (page: Page) =>
  page.route('**/api/oauth/authorize/*', route => route.fulfill({ status: 204 }))

const shown = ({ page }: Visit, name: string) =>
  page.getByRole('heading', { level: 1, name, exact: true }).waitFor()

async function signInAt(visit: Visit, path: string, next: string) {
  await visit.page.goto(new URL(path, usher.issuer).href)
  await visit.signIn()
  await shown(visit, next)
}

const consentPage = (visit: Visit, params: Record<string, string> = {}) =>
  signInAt(visit, authorizationUrl(params), 'Allow access')
const accountPage = (visit: Visit) => signInAt(visit, '/account', 'Your account')
const applicationsPage = (visit: Visit) =>
  signInAt(visit, '/account/applications', 'Connected applications')

const sessionsPage = (visit: Visit) =>
  signInAt(visit, '/account/sessions', 'Where you are signed in')
const passwordPage = (visit: Visit) => signInAt(visit, '/account/password', 'Change your password')

async function changePassword(visit: Visit, ...typed: string[]) {
  for (const [i, label] of PASSWORD_FIELDS.entries()) {
    await visit.page.getByLabel(label, { exact: true }).fill(typed[i] ?? '')
  }
  await visit.button('Change password').click()
}

/** Somewhere else. */
async function signedInWith(agent: string) {
  const elsewhere = await Visit.start(browser, { userAgent: agent })
  await accountPage(elsewhere)
  await elsewhere.close()
}

type Way = (visit: Visit) => Promise<unknown>

const PAGES: [name: string, heading: string, way: Way][] = [
  ['sign-in', 'Sign in', ({ page }) => page.goto(authorizationUrl())],
  [
    'sign-in-long-name',
    'Sign in',
    ({ page }) => page.goto(authorizationUrl({ client_id: 'native', login_hint: 'ada' })),
  ],
  [
    'sign-in-failed',
    'Sign in',
    async visit => {
      await visit.page.goto(authorizationUrl())
      await visit.signIn('not the password')
      await visit.page.getByRole('alert').waitFor()
    },
  ],
  [
    'sign-in-again',
    'Sign in',
    async visit => {
      await accountPage(visit)
      await visit.page.goto(authorizationUrl({ prompt: 'login' }))
    },
  ],
  ['consent', 'Allow access', visit => consentPage(visit)],
  [
    'consent-native',
    'Allow access',
    visit => consentPage(visit, { client_id: 'native', scope: 'openid email' }),
  ],
  [
    'consent-withdrawn',
    'Allow access',
    async visit => {
      await allowed('web', ['openid'])
      await consentPage(visit)
      await usher.consents.withdraw(ada.id, 'web')
      await visit.button('Allow').click()
      await visit.page.getByRole('alert').waitFor()
    },
  ],
  [
    'navigate',
    'One moment',
    async visit => {
      await visit.page.goto(authorizationUrl())
      await hold(visit.page)
      await visit.signIn()
    },
  ],
  [
    'interaction-gone',
    'This page has expired',
    async visit => {
      await visit.page.goto(authorizationUrl())
      const url = visit.page.url()
      await visit.signIn()
      await shown(visit, 'Allow access')
      await visit.page.goto(url)
    },
  ],
  ['account', 'Your account', accountPage],
  ['applications-empty', 'Connected applications', applicationsPage],
  [
    'applications-two',
    'Connected applications',
    async visit => {
      await allowed('web', ALL.split(' '))
      await allowed('native', ['openid', 'email'])
      await applicationsPage(visit)
    },
  ],
  [
    'applications-removed',
    'Connected applications',
    async visit => {
      await allowed('web', ALL.split(' '))
      await allowed('native', ['openid', 'email'])
      await applicationsPage(visit)
      await visit.page.getByRole('article').last().getByRole('link', { name: 'Remove' }).click()
      await visit.button('Remove access').click()
      await visit.page.getByRole('status').waitFor()
    },
  ],
  [
    'applications-question',
    'Remove the access of Web application?',
    async visit => {
      await allowed('web', ALL.split(' '))
      await signInAt(visit, '/account/applications/remove?client_id=web', QUESTION)
    },
  ],
  [
    'applications-others',
    'Connected applications',
    async visit => {
      await allowed('first', ['openid'])
      await allowed('long-gone', ALL.split(' '))
      await applicationsPage(visit)
    },
  ],
  ['sessions-one', 'Where you are signed in', sessionsPage],
  [
    'sessions-three',
    'Where you are signed in',
    async visit => {
      for (const agent of AGENTS) await signedInWith(agent)
      await sessionsPage(visit)
      await visit.page.request.get(authorizationUrl({ client_id: 'first' }), { maxRedirects: 0 })
      await visit.page.goto(`${usher.issuer}/account/sessions`)
    },
  ],
  [
    'sessions-question',
    'Sign out of Firefox on Linux?',
    async visit => {
      await signedInWith(AGENTS[0] ?? '')
      await sessionsPage(visit)
      await visit.page.getByRole('article').last().getByRole('link').click()
    },
  ],
  [
    'sessions-question-others',
    'Sign out everywhere else?',
    async visit => {
      for (const agent of AGENTS) await signedInWith(agent)
      await sessionsPage(visit)
      await visit.link('Sign out everywhere else').click()
    },
  ],
  [
    'sessions-ended',
    'Where you are signed in',
    async visit => {
      await signedInWith(AGENTS[0] ?? '')
      await sessionsPage(visit)
      await visit.link('Sign out everywhere else').click()
      await visit.button('Sign out everywhere else').click()
      await visit.page.getByRole('status').waitFor()
    },
  ],
  ['password', 'Change your password', visit => passwordPage(visit)],
  [
    'password-wrong',
    'Change your password',
    async visit => {
      await passwordPage(visit)
      await changePassword(visit, 'not the password', 'too short', 'another')
      await visit.page.getByText('This is not your current password.', { exact: false }).waitFor()
    },
  ],
  [
    'password-changed',
    'Your password is changed',
    async visit => {
      await passwordPage(visit)
      await changePassword(visit, PASSWORD, NEW_PASSWORD, NEW_PASSWORD)
    },
  ],
  [
    'sign-out',
    'Sign out',
    async visit => {
      await accountPage(visit)
      await visit.page.goto(`${usher.issuer}/api/oauth/logout?client_id=web`)
    },
  ],
  [
    'stayed',
    'Still signed in',
    async visit => {
      await accountPage(visit)
      await visit.page.goto(`${usher.issuer}/api/oauth/logout?client_id=web`)
      await visit.button('Stay signed in').click()
    },
  ],
  [
    'signed-out',
    'Signed out',
    async visit => {
      await accountPage(visit)
      await visit.link('Sign out').click()
      await visit.button('Sign out').click()
    },
  ],
  [
    'error-400',
    'This did not work',
    ({ page }) => page.goto(authorizationUrl({ client_id: 'unknown' })),
  ],
  ['error-404', 'Page not found', ({ page }) => page.goto(`${usher.issuer}/nothing/here`)],
  ['errors', 'Error codes', ({ page }) => page.goto(`${usher.issuer}/errors`)],
]

async function start(): Promise<Visit> {
  const { password } = ada
  await usher.directory.endAccess(ada.id, account => ({ ...account, password }))
  await usher.consents.removeAll(ada.id)
  const visit = await Visit.start(browser)
  onTestFinished(() => visit.close())
  return visit
}

test.each(PAGES)('axe finds nothing wrong with "%s", and nothing sticks out', async (...row) => {
  const [name, heading, way] = row
  const visit = await start()
  await way(visit)
  await shown(visit, heading)
  const found = await inEveryLook(visit.page, name, async ({ exceptions }) => {
    const pixels = await overflow(visit.page)
    const violations = await axeViolations(visit.page, exceptions)
    return pixels ? [...violations, `${pixels}px stick out`] : violations
  })
  expect(found).toEqual({})
})

test('AC6 HD3: the page that hands a form_post answer over is one of ours, for who has no scripts', async () => {
  const visit = await start()
  await visit.page.route(`${APPLICATION}/**`, route => route.fulfill({ status: 204 }))
  await consentPage(visit, { response_mode: 'form_post' })
  await Promise.all([
    visit.page.waitForResponse(`${APPLICATION}/callback`),
    visit.button('Allow').click(),
  ])
  expect(await axeViolations(visit.page)).toEqual([])
})
