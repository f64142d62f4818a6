// Consent to the scopes of protected APIs.

import { expect } from 'vitest'
import { APIS, CALENDAR, FILES, requestScopes, tokensFor } from '../support/apis.ts'
import { ada, browser, usher, usherTest } from '../support/fixtures.ts'
import { post, redeem } from '../support/journey.ts'
import { signedIn } from '../support/people.ts'

const SHARED = { scope: 'openid share', resources: [FILES, CALENDAR] }
const READ = { scope: 'openid files:read', resources: [FILES] }

const test = usherTest({ ...APIS, browser: signedIn })
test.beforeEach(() => usher.consents.withdraw(ada, 'web'))

/** Each scope on the page with the note beside it. */
const asked = () =>
  browser.page.html
    .querySelectorAll('fieldset .signs li')
    .map(({ text }) => text.trim().replaceAll(/\s+/g, ' '))

async function allow(
  scope: string[],
  request: Awaited<ReturnType<typeof requestScopes>>,
  resource: string,
) {
  expect(browser.heading).toBe('Allow access')
  await browser.submit({ decision: 'allow', scope })
  return redeem(usher, browser.page.params.get('code') ?? '', request, resource)
}

test('the page describes the requested scopes, and names the API', async () => {
  await requestScopes(usher, {
    browser,
    scope: 'openid files:read share',
    resources: [FILES, CALENDAR],
  })
  expect(asked().slice(1)).toEqual([
    'Read your files Files',
    'Share your files with others Files',
    'Share your appointments with others Calendar',
  ])
  for (const box of browser.page.html.querySelectorAll('.choice input')) {
    const { id = '', 'aria-describedby': note = '' } = box.attributes
    expect(id).not.toMatch(/\s/)
    expect(browser.page.html.querySelector(`label[for="${id}"]`)).not.toBe(null)
    expect(browser.page.html.querySelector(`[id="${note}"]`)?.text).toMatch(/^(Files|Calendar)$/)
  }
})

test('a scope can be allowed for one API and declined for another', async () => {
  const request = await requestScopes(usher, { browser, ...SHARED })
  const given = await allow([`${FILES} share`], request, FILES)
  expect([given.status, given.body.scope]).toEqual([200, 'share'])
  expect(await usher.consents.find(ada, 'web')).toMatchObject({
    scopes: ['openid', `${FILES} share`],
    declined: [`${CALENDAR} share`],
  })

  const again = await requestScopes(usher, { browser, ...SHARED })
  const code = browser.page.params.get('code') ?? ''
  const refused = await redeem(usher, code, again, CALENDAR)
  expect([refused.status, refused.body.error]).toEqual([400, 'invalid_scope'])
})

test('scopes in the form that were not requested are ignored', async () => {
  const request = await requestScopes(usher, { browser, ...READ })
  const sent = [`${FILES} files:read`, `${FILES} files:write`, `${CALENDAR} share`, 'profile']
  const { body } = await allow(sent, request, FILES)
  expect(body.scope).toBe('files:read')
  const { scopes } = (await usher.consents.find(ada, 'web')) ?? {}
  expect(scopes).toEqual(['openid', `${FILES} files:read`])
})

test('allowed scopes need no new consent, a new scope does', async () => {
  await tokensFor(usher, { browser, ...READ }, FILES)
  await requestScopes(usher, { browser, ...READ })
  expect(browser.page.params.get('code')).toBeTruthy()
  const more = { scope: 'openid files:read files:write', resources: [FILES] }
  await requestScopes(usher, { browser, ...more })
  expect(asked()).toContain('Change your files Files')
  const { scope } = await tokensFor(usher, { browser, ...more }, FILES)
  expect(scope).toBe('files:read files:write')
  const { scope: less } = await tokensFor(usher, { browser, ...READ }, FILES)
  expect(less).toBe('files:read')
})

test('a scope of the same name at another API needs its own consent', async () => {
  await tokensFor(usher, { browser, scope: 'openid share', resources: [FILES] }, FILES)
  await requestScopes(usher, { browser, scope: 'openid share', resources: [CALENDAR] })
  expect(asked().slice(1)).toEqual(['Share your appointments with others Calendar'])
})

test('a client with implicit consent has no consent page, and is listed', async () => {
  const first = { browser, client_id: 'first', ...READ }
  const { scope } = await tokensFor(usher, first, FILES)
  expect(scope).toBe('files:read')
  expect((await usher.consents.find(ada, 'first'))?.scopes).toContain(`${FILES} files:read`)
})

test('Connected applications describes the scopes, and a removal ends the tokens', async () => {
  const { access_token: token } = await tokensFor(usher, { browser, ...READ }, FILES)
  const about = () => post(usher, '/api/oauth/introspect', { token, client_id: 'files-api' })
  expect((await about()).body.active).toBe(true)
  const { text } = await browser.open('/account/applications')
  expect(text).toContain('<span>Read your files (Files)</span></li>')
  const removal = await browser.open('/account/applications/remove?client_id=web')
  expect(removal.text).not.toContain('Calendar')
  await browser.submit()
  expect((await about()).body).toEqual({ active: false })
  await requestScopes(usher, { browser, ...READ })
  expect(browser.heading).toBe('Allow access')
})

test('the removal page shows how long JWT access tokens stay valid', async () => {
  const asked = { browser, scope: 'openid calendar:read', resources: [CALENDAR] }
  await tokensFor(usher, asked, CALENDAR)
  const { text } = await browser.open('/account/applications/remove?client_id=web')
  expect(text).toContain('At Calendar, its access can last up to 5 min longer')
})

test('an API that was removed from the config folder is listed by its identifier', async () => {
  const { version } = await usher.consents.read(ada, 'web')
  const decision = { scopes: ['urn:gone see'], declined: [], version }
  await usher.consents.decide(ada, 'web', decision)
  const { text } = await browser.open('/account/applications')
  expect(text).toContain('<span>see (urn:gone)</span></li>')
})
