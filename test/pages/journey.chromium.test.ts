// The authorization code flow in Chromium, with and without scripts. The client uses openid-client.

import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { NO_COMPLAINTS } from '../support/chromium.ts'
import { startRelyingParty } from '../support/relying-party.ts'
import { someOf } from '../support/some-of.ts'
import { type Stage, startStage, Visit } from '../support/visit.ts'

/** A server of another origin and site, at which no user signs in. */
let third: Awaited<ReturnType<typeof startRelyingParty>>
let stage: Stage

beforeAll(async () => {
  third = await startRelyingParty({ client_id: 'third' })
  const landing = `${third.elsewhere}/landed`
  stage = await startStage([
    { client_id: 'web' },
    { client_id: 'form-post', response_mode: 'form_post' },
    { client_id: 'wanderer', landing },
    { client_id: 'form-post-wanderer', response_mode: 'form_post', landing },
  ])
})
afterAll(async () => {
  await stage.close()
  await third.close()
})

async function start(options = { javaScriptEnabled: true }): Promise<Visit> {
  await stage.forgetConsents()
  const visit = await Visit.start(stage.browser, options)
  onTestFinished(() => visit.close())
  return visit
}

/** Confirms a sign-out that leads back to the client at `origin`, and finds no session afterwards. */
async function confirmSignOut(visit: Visit, origin: string) {
  expect(await visit.heading()).toBe('Sign out')
  await visit.button('Sign out').click()
  await visit.page.waitForURL(`${origin}/signed-out`)
  await visit.page.goto(`${stage.usher.issuer}/account`)
  expect(await visit.heading()).toBe('Sign in')
}

describe.each([{ javaScriptEnabled: true }, { javaScriptEnabled: false }])('%j', options => {
  test('sign in, allow, come back, remove the access, sign out', async () => {
    const visit = await start(options)
    const { page } = visit
    const web = stage.party('web')
    await visit.signInAt(web)
    await page.waitForURL(`${web.origin}/`)
    expect(await visit.heading()).toBe('Welcome')
    expect(await page.locator('pre').textContent()).toContain('"name":"Ada Lovelace"')

    const session = web.session()
    expect(await web.userinfo(session)).toMatchObject({ preferred_username: 'ada' })
    await page.goto(`${stage.usher.issuer}/account/applications`)
    const listed = page.locator('.rows > li').filter({ hasText: 'Relying party' })
    await listed.getByRole('heading').click()
    await listed.getByText('See your email address').waitFor()
    await listed.getByRole('link', { name: 'Remove' }).click()
    expect(await visit.heading()).toBe('Remove the access of Relying party?')
    await visit.button('Remove access').click()
    expect(await page.getByRole('status').textContent()).toContain('Relying party')
    expect(await listed.count()).toBe(0)
    await expect(web.userinfo(session)).rejects.toMatchObject({ status: 401 })
    await expect(web.refresh(session)).rejects.toMatchObject({ error: 'invalid_grant' })

    await page.goto(web.origin)
    await visit.link('Sign out').click()
    await confirmSignOut(visit, web.origin)
    expect(visit.complaints).toEqual(NO_COMPLAINTS)
  })

  test('the response reaches a client that requested response_mode=form_post', async () => {
    const visit = await start(options)
    const party = stage.party('form-post')
    await visit.signInAt(party)
    if (!options.javaScriptEnabled) await visit.button('Continue').click()
    await visit.page.waitForURL(`${party.origin}/`)
    expect(await visit.heading()).toBe('Welcome')
    expect(visit.complaints).toEqual(NO_COMPLAINTS)
  })
})

const SIGN_OUTS: [what: string, scripts: boolean, hint: string][] = [
  ['a short sign-out', true, ''],
  ['a long sign-out', true, 'x'.repeat(4000)],
  ['a long sign-out without scripts', false, 'x'.repeat(4000)],
]

test.each(someOf(SIGN_OUTS, 3))(
  '%s by POST from another site asks the user who is signed in',
  async (_, scripts, hint) => {
    const visit = await start({ javaScriptEnabled: scripts })
    const { page } = visit
    const web = stage.party('web')
    await visit.signInAt(web)
    await page.waitForURL(`${web.origin}/`)
    const { id_token = '' } = web.session().tokens
    await page.goto(third.elsewhere)
    await page.setContent(`<form method="post" action="${stage.usher.issuer}/api/oauth/logout">
    <input name="id_token_hint" value="${id_token}"><input name="logout_hint" value="${hint}">
    <input name="post_logout_redirect_uri" value="${web.origin}/signed-out"><button>Go</button></form>`)
    await visit.button('Go').click()
    if (!scripts) await visit.button('Continue').click()
    await page.waitForURL(/logout/)
    await confirmSignOut(visit, web.origin)
    expect(visit.complaints).toEqual(NO_COMPLAINTS)
  },
)

describe('a client can redirect users from its callback to a third origin', () => {
  test.each(someOf(['wanderer', 'form-post-wanderer'], 2))('%s', async client_id => {
    const visit = await start()
    await visit.signInAt(stage.party(client_id))
    await visit.page.waitForURL(`${third.elsewhere}/landed`)
    expect(visit.complaints).toEqual(NO_COMPLAINTS)
  })
})

test('a user who denies consent returns to the client with access_denied', async () => {
  const visit = await start()
  const web = stage.party('web')
  await visit.beginAt(web)
  await visit.signIn()
  await visit.button('Do not allow').click()
  await visit.page.waitForURL(`${web.origin}/`)
  expect(await visit.heading()).toBe('access_denied')
  expect(visit.complaints).toEqual(NO_COMPLAINTS)
})

test('the policy blocks an injected style, and the tests report it', async () => {
  const visit = await start()
  await visit.beginAt(stage.party('web'))
  await visit.page.evaluate('document.body.setAttribute("style", "color: red")')
  await expect.poll(() => visit.complaints.policyViolations.join()).toContain('style-src')
})
