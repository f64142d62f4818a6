// An operator's name, logo, colours and links, on every page.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { Browser } from '../support/browser.ts'
import { startUsher, type Usher } from '../support/usher.ts'

const LOGO =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><script>alert(1)</script></svg>'
const LINKS = {
  help: 'https://example.org/help',
  terms: 'https://example.org/terms',
  privacy: 'https://example.org/privacy',
}

let usher: Usher
let browser: Browser
beforeAll(async () => {
  const logo = 'pages/logo.svg'
  const branding = { name: 'Example & Sons', logo, accent: '#d00000', links: LINKS }
  const files = { 'pages/theme.css': 'main { border-radius: 0 }', [logo]: LOGO }
  usher = await startUsher({ usher: { branding }, files })
  browser = new Browser(usher.issuer)
  await browser.open('/errors')
})
afterAll(() => usher.close())

const get = (selector: string, attribute: string) =>
  browser.page.html.querySelector(selector)?.getAttribute(attribute) ?? ''
const fetchAsset = (path: string) => fetch(new URL(path, usher.issuer))

test('the logo stands at the top under the name, and nothing in it can run', async () => {
  expect(get('.brand img', 'alt')).toBe('Example & Sons')
  expect(get('link[rel=icon]', 'href')).toBe(get('.brand img', 'src'))
  const response = await fetchAsset(get('.brand img', 'src'))
  expect(response.headers.get('content-type')).toMatch(/^image\/svg\+xml/)
  expect(response.headers.get('content-security-policy')).toBe(
    "default-src 'none'; style-src 'unsafe-inline'; sandbox",
  )
  expect(await response.text()).toBe(LOGO)
})

test('colours and theme come after our stylesheet, from here, under a name of their content', async () => {
  const sheets = browser.page.html.querySelectorAll('link[rel=stylesheet]')
  const [, theme = ''] = sheets.map(link => link.getAttribute('href') ?? '')
  expect(theme).toMatch(/^\/assets\/theme-[0-9a-f]{12}\.css$/)
  const response = await fetchAsset(theme)
  expect(response.headers.get('cache-control')).toContain('immutable')
  const css = await response.text()
  expect(css).toMatch(/^:root { --accent: #d00000; --on-accent: #ffffff; }/)
  expect(css).toMatch(/prefers-color-scheme: dark.* --on-accent: #0d1526/)
  expect(css).toMatch(/main { border-radius: 0 }$/)
})

test('the links stand below every page, and discovery names those it has words for', async () => {
  const links = browser.page.html.querySelectorAll('footer a')
  expect(links.map(link => link.getAttribute('href'))).toEqual(Object.values(LINKS))
  const discovery = await fetch(`${usher.issuer}/.well-known/openid-configuration`)
  expect(await discovery.json()).toMatchObject({
    op_policy_uri: LINKS.privacy,
    op_tos_uri: LINKS.terms,
  })
})

test('a template of the operator that fails on a page is replaced by ours, and logged', async () => {
  const files = { 'pages/errors.eta': '<%= it.nothing.there %>' }
  const failing = await startUsher({ files })
  try {
    const page = await new Browser(failing.issuer).open('/errors')
    expect(page.status).toBe(200)
    expect(page.html.querySelector('#invalid_grant')).toBeTruthy()
    expect(failing.output.join('')).toMatch(/"fault":"pages\/errors\.eta: /)
  } finally {
    await failing.close()
  }
})
