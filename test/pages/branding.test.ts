// The operator's name, logo, colours and links are on every page.

import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { browser, startAnother, usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest } from '../support/journey.ts'
import { credentials, open, textOf, words } from '../support/people.ts'
import { CLIENTS, WEB } from '../support/usher.ts'

const LOGO =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><script>alert(1)</script></svg>'
const DARK = LOGO.replace('alert(1)', 'alert(2)')
const WIKI = LOGO.replace('alert(1)', 'alert(3)')
const MARK = LOGO.replace('alert(1)', 'alert(4)')
const LINKS = {
  forgot_password: 'https://example.org/forgot',
  help: 'https://example.org/help',
  terms: 'https://example.org/terms',
  privacy: 'https://example.org/privacy',
}

const test = usherTest(() => {
  const logo = 'pages/logo.svg'
  const branding = {
    name: 'Example & Sons',
    logo,
    logo_dark: 'pages/dark.svg',
    background: '#ffeedd',
    accent: '#d00000',
    links: LINKS,
  }
  const files = {
    'pages/theme.css': 'main { border-radius: 0 }',
    'pages/dark.svg': DARK,
    'clients/wiki.svg': WIKI,
    'clients/mark.svg': MARK,
    [logo]: LOGO,
  }
  const wiki = {
    ...CLIENTS.web,
    client_id: 'wiki',
    logo_uri: 'clients/mark.svg',
    branding: { logo: 'clients/wiki.svg', accent: '#006622' },
  }
  return { usher: { branding }, files, clients: { ...CLIENTS, wiki } }
})
test.beforeAll(async () => {
  await browser.open('/errors')
})

const get = (selector: string, attribute: string) =>
  browser.page.html.querySelector(selector)?.getAttribute(attribute) ?? ''
const fetchAsset = (path: string) => fetch(new URL(path, usher.issuer))

test('the logo is at the top with the name as its text, and no script in it can run', async () => {
  expect(get('.brand img', 'alt')).toBe('Example & Sons')
  expect(get('link[rel=icon]', 'href')).toBe(get('.brand img', 'src'))
  const response = await fetchAsset(get('.brand img', 'src'))
  expect(response.headers.get('content-type')).toMatch(/^image\/svg\+xml/)
  expect(response.headers.get('content-security-policy')).toBe(
    "default-src 'none'; style-src 'unsafe-inline'; sandbox",
  )
  expect(await response.text()).toBe(LOGO)
})

test('colours and theme are in a stylesheet after the default one, with a hash of its content in its name', async () => {
  const sheets = browser.page.html.querySelectorAll('link[rel=stylesheet]')
  const [, theme = ''] = sheets.map(link => link.getAttribute('href') ?? '')
  expect(theme).toMatch(/^\/assets\/theme-[0-9a-f]{12}\.css$/)
  const response = await fetchAsset(theme)
  expect(response.headers.get('cache-control')).toContain('immutable')
  const css = await response.text()
  expect(css).toMatch(/^:root { --accent: #d00000; --on-accent: #ffffff; --background: #ffeedd; }/)
  expect(css).toMatch(/prefers-color-scheme: dark.* --on-accent: #0d1526/)
  expect(css).toMatch(/main { border-radius: 0 }$/)
})

test('every page has the links at its end, and discovery has those to the terms and the privacy policy', async () => {
  const links = browser.page.html.querySelectorAll('footer a')
  expect(links.map(link => link.getAttribute('href'))).toEqual([
    LINKS.help,
    LINKS.terms,
    LINKS.privacy,
  ])
  const discovery = await fetch(`${usher.issuer}/.well-known/openid-configuration`)
  expect(await discovery.json()).toMatchObject({
    op_policy_uri: LINKS.privacy,
    op_tos_uri: LINKS.terms,
  })
})

test('if a template of the operator fails, the default template is used and the error is logged', async () => {
  const files = { 'pages/errors.eta': '<%= it.nothing.there %>' }
  const failing = await startAnother({ files })
  const page = await new Browser(failing.issuer).open('/errors')
  expect(page.status).toBe(200)
  expect(page.html.querySelector('#invalid_grant')).toBeTruthy()
  expect(failing.output.join('')).toMatch(/"fault":"pages\/errors\.eta: /)
})

test('users who prefer dark colours get the dark logo, and the background is the operator’s', async () => {
  await browser.open('/errors')
  const dark = get('.brand source[media="(prefers-color-scheme: dark)"]', 'srcset')
  expect(await (await fetchAsset(dark)).text()).toBe(DARK)
  const theme = await (await fetchAsset(get('link[href*=theme]', 'href'))).text()
  expect(theme).toContain('--background: #ffeedd;')
})

test('a client’s logo and accent are on its own sign-in and consent pages, and on no others', async () => {
  const other = new Browser(usher.issuer)
  const look = async () => {
    const { html } = other.page
    const logo = html.querySelector('.brand .of-client')?.getAttribute('src')
    const theme = html.querySelector('link[href*="/client-"]')?.getAttribute('href')
    if (!logo || !theme) return undefined
    const [picture, colours] = await Promise.all([fetchAsset(logo), fetchAsset(theme)])
    return { picture: await picture.text(), colours: await colours.text() }
  }
  const own = { picture: WIKI, colours: expect.stringContaining('--accent: #006622') }
  await other.open(authorizationRequest(usher, { client_id: 'wiki', redirect_uri: WEB }).url)
  expect(other.heading).toBe('Sign in')
  expect(await look()).toEqual(own)
  await other.submit(credentials())
  expect(other.heading).toBe('Allow access')
  expect(await look()).toEqual(own)
  await other.submit({ decision: 'allow' })
  await other.open('/account/applications')
  const mark = other.page.html.querySelector('img.mark')?.getAttribute('src')
  expect(await (await fetchAsset(mark ?? '')).text()).toBe(MARK)

  await other.open(authorizationRequest(usher, { client_id: 'web' }).url)
  expect(other.heading).toBe('Allow access')
  expect(await look()).toBeUndefined()
  await other.open('/account')
  expect(await look()).toBeUndefined()
})

test('the sign-in page links to where a forgotten password is reset', async () => {
  const { browser: other } = await open(usher)
  const link = other.page.html.querySelector('form a')
  expect(link?.getAttribute('href')).toBe(LINKS.forgot_password)
})

test('without mail, a failed sign-in says whom to ask, with the link to the help', async () => {
  const branding = { links: { help: LINKS.help } }
  const plain = await startAnother({ usher: { branding } })
  const { browser } = await open(plain)
  expect(browser.page.text).not.toContain(words('sign_in.forgot_ask'))
  await browser.submit({ username: 'ada', password: 'wrong', decision: 'continue' })
  const problem = browser.page.html.querySelector('[role=alert]')
  expect(textOf(problem?.text ?? '')).toContain(words('sign_in.forgot_ask'))
  expect(problem?.querySelector('a')?.getAttribute('href')).toBe(LINKS.help)
})
