import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { userinfo } from '../support/journey.ts'
import { fieldsOf, onlineTokens, open, send, signedIn } from '../support/people.ts'
import { ADA, GRACE, startUsher, type Usher } from '../support/usher.ts'

let usher: Usher
let ada: string
let grace: string
beforeAll(async () => {
  usher = await startUsher()
  ada = (await usher.addAccount(ADA)).id
  grace = (await usher.addAccount(GRACE)).id
})
afterAll(() => usher.close())
beforeEach(async () => {
  for (const id of [ada, grace]) {
    await usher.directory.endAccess(id)
    await usher.consents.removeAll(id)
  }
})

const APPLICATIONS = '/account/applications'

test('AC1: the address people come back to leads nowhere else', async () => {
  const browser = await signedIn(usher)
  for (const state of [
    'https://evil.example/',
    '//evil.example',
    '/\\evil.example',
    '/account/applications/../../evil',
    'javascript:alert(1)',
    '',
  ]) {
    const query = new URLSearchParams({ state, code: 'x' })
    const answer = await send(browser, `/account/signed-in?${query}`, { method: 'GET' })
    expect(answer.headers.get('location'), state).toBe('/account')
  }
  const twice = await send(browser, '/account/signed-in?state=//evil.example&state=/account', {
    method: 'GET',
  })
  expect(twice.headers.get('location')).toBe('/account')
})

test('AC2: nothing is removed without the token of the page, or from elsewhere', async () => {
  const { browser } = await onlineTokens(usher)
  await browser.open(APPLICATIONS)
  const form = fieldsOf(browser.page)
  expect(form).toMatchObject({ client_id: 'web', csrf: expect.stringMatching(/./) })
  const { browser: second } = await onlineTokens(usher)
  await second.open(APPLICATIONS)
  const { csrf = '' } = fieldsOf(second.page)
  for (const wrong of ['', 'x', csrf]) {
    const answer = await send(browser, APPLICATIONS, { form: { ...form, csrf: wrong } })
    expect(answer.status).toBe(403)
  }
  for (const [name, value] of [
    ['Sec-Fetch-Site', 'cross-site'],
    ['Sec-Fetch-Site', 'same-site'],
    ['Origin', 'https://evil.example'],
    ['Origin', 'null'],
  ] as const) {
    const answer = await send(browser, APPLICATIONS, { form, headers: { [name]: value } })
    expect(answer.status, `${name}: ${value}`).toBe(403)
  }
  expect(await usher.consents.find(ada, 'web')).toBeDefined()
})

test('AC2: no GET changes anything', async () => {
  const { browser, access_token } = await onlineTokens(usher)
  await browser.open(APPLICATIONS)
  const query = new URLSearchParams(fieldsOf(browser.page))
  for (const method of ['GET', 'HEAD']) {
    await send(browser, `${APPLICATIONS}?${query}`, { method })
  }
  await open(usher, { prompt: 'none' }, browser)
  expect(await usher.consents.find(ada, 'web')).toBeDefined()
  expect((await userinfo(usher, access_token)).status).toBe(200)
})

test('AC3: nobody sees or removes what is another’s', async () => {
  const adas = await onlineTokens(usher)
  const graces = await onlineTokens(usher, { username: 'grace', client_id: 'post' })
  await adas.browser.open(APPLICATIONS)
  const page = await graces.browser.open(APPLICATIONS)
  expect(page.text).toContain('Post application')
  expect(page.text).not.toContain('Web application')
  for (const secret of [ada, grace]) expect(page.text).not.toContain(secret)

  const form = fieldsOf(adas.browser.page)
  expect((await send(graces.browser, APPLICATIONS, { form })).status).toBe(403)
  const { csrf = '' } = fieldsOf(page)
  for (const client_id of ['web', `${ada} web`, '', '__proto__']) {
    const answer = await send(graces.browser, APPLICATIONS, { form: { csrf, client_id } })
    expect(answer.status, client_id).toBeLessThan(500)
    expect(await answer.text()).not.toContain('role="status"')
  }
  expect((await userinfo(usher, adas.access_token)).status).toBe(200)
  expect(await usher.consents.find(ada, 'web')).toBeDefined()
  expect(await usher.consents.find(grace, 'post')).toBeDefined()
})

test('AC6: the pages are kept by no cache, shown in no frame and read by no other origin', async () => {
  const { browser } = await onlineTokens(usher)
  for (const path of ['/account', APPLICATIONS]) {
    const { headers } = await send(browser, path, {
      method: 'GET',
      headers: { Origin: 'https://app.example.org' },
    })
    expect(headers.get('cache-control')).toBe('no-store')
    expect(headers.get('x-frame-options')).toBe('DENY')
    expect(headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
    expect([...headers.keys()].filter(name => name.startsWith('access-control-'))).toEqual([])
    expect(headers.get('cross-origin-resource-policy')).toBe('same-origin')
  }
})
