// The error page on the machine of a developer: the application, what it sent, and what is registered.

import { describe, expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest } from '../support/journey.ts'
import { words } from '../support/people.ts'
import { ON, registerNew } from '../support/registration.ts'
import { CLIENTS, WEB } from '../support/usher.ts'

const test = usherTest({ usher: { ...ON.usher, proxy: ['127.0.0.1'] } })
const REMOTE = { 'x-forwarded-for': '203.0.113.7' }

async function detailsOf(url: string | URL, headers: Record<string, string> = {}) {
  const browser = new Browser(usher.issuer)
  const page = await browser.open(url, headers)
  expect(page.status).toBe(400)
  return page.html.querySelector('details')?.rawText ?? ''
}

const authorizing = (params: Record<string, string>) => authorizationRequest(usher, params).url
const BYE = 'https://app.example.org/bye'
const signingOut = (uri: string) =>
  `/api/oauth/logout?${new URLSearchParams({ client_id: 'web', post_logout_redirect_uri: uri })}`

describe('the details name the application, and what was sent and is registered:', () => {
  test('a wrong redirect URI', async () => {
    const sent = `${WEB}/?next=1`
    const details = await detailsOf(authorizing({ redirect_uri: sent }))
    for (const text of [
      'Web application',
      'Sent: redirect_uri',
      sent,
      'Registered: redirect_uri',
      WEB,
    ]) {
      expect(details).toContain(text)
    }
  })

  test('a redirect URI with letters that hide or reorder', async () => {
    const details = await detailsOf(authorizing({ redirect_uri: 'https://a.example/\u202Ex<b>' }))
    expect(details).toContain('https://a.example/?x&lt;b&gt;')
  })

  test('a client that registered itself', async () => {
    const { client_id } = await registerNew(usher)
    const details = await detailsOf(authorizing({ client_id, redirect_uri: WEB }))
    expect(details).toContain('Strange application')
    expect(details).toContain('https://stranger.example.net/callback')
  })

  test('an unknown client', async () => {
    const details = await detailsOf(authorizing({ client_id: 'wbe', redirect_uri: WEB }))
    expect(details).toMatch(/Sent: client_id.*wbe.*Registered: client_id.*web/s)
  })

  test('a wrong address after a sign-out', async () => {
    const details = await detailsOf(signingOut(`${BYE}/x`))
    for (const text of [
      'Web application',
      `${BYE}/x`,
      'Registered: post_logout_redirect_uri',
      BYE,
    ]) {
      expect(details).toContain(text)
    }
  })
})

test('another address than loopback gets the name of a client file only', async () => {
  const details = await detailsOf(authorizing({ redirect_uri: `${WEB}/x` }), REMOTE)
  expect(details).toContain('Web application')
  expect(details).not.toContain(WEB)
  expect(details).not.toContain('Registered')
  const { client_id } = await registerNew(usher)
  const unchecked = await detailsOf(authorizing({ client_id, redirect_uri: WEB }), REMOTE)
  expect(unchecked).not.toContain('Strange application')
})

test('the page leads back to the application, also to one without a home page', async () => {
  const actionsOf = async (client_id: string) => {
    const browser = new Browser(usher.issuer)
    const wrong = authorizing({ client_id, redirect_uri: 'https://evil.example/' })
    const { html } = await browser.open(wrong, REMOTE)
    const links = html.querySelectorAll('.actions a').map(link => link.getAttribute('href'))
    return { links, text: html.querySelector('main')?.rawText ?? '' }
  }
  expect((await actionsOf('web')).links).toEqual(['https://app.example.org/'])
  expect((await actionsOf('post')).links).toEqual(['https://post.example.org/'])
  // A program has no site.
  const native = await actionsOf('native')
  expect(native.links).toEqual([])
  const client = String(CLIENTS.native?.client_name)
  expect(native.text).toContain(words('error.of_application', { client }))
})
