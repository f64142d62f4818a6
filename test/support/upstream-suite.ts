// Sign-in at an upstream issuer in Chromium: an application, Usher as a process, and the issuer, all with
// TLS. One suite for every issuer.

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type Made, makeCertificate } from './certificates.ts'
import { launchChromium } from './chromium.ts'
import { runUsher } from './command.ts'
import { freePort } from './ports.ts'
import { type RelyingParty, startRelyingParty } from './relying-party.ts'
import { startService } from './service.ts'
import { LABEL, withUpstreams } from './upstream.ts'
import { ADA, GRACE, PASSWORD, writeConfig } from './usher.ts'
import { Visit } from './visit.ts'

const MAPPED_ACR = 'urn:example:strong'

/** Users at the issuer, each with `PASSWORD`, in the group staff. Eve's domain is not allowed. */
export const USERS = [
  ADA,
  { ...GRACE, email_verified: true },
  { username: 'eve', name: 'Eve', email: 'eve@example.com', email_verified: true },
]

/** Facts that an issuer needs to start, and to register Usher as its client `usher` with `SECRET`. */
export interface Surroundings {
  /** A folder for files, removed at the end. */
  folder: string
  /** Runs at the end, and after a failed start. */
  closing: AsyncDisposableStack
  /** The certificate of 127.0.0.1 and localhost. */
  certificate: Made
  authority: Made
  /** The endpoints of Usher. */
  redirectUri: string
  signedOutUri: string
  backchannelLogoutUri: string
}

/** An issuer with `USERS`. */
export interface IssuerUnderTest {
  issuer: string
  /** The `acr` after a sign-in with the strongest method. */
  acr: string
  /** Fills in the sign-in page of the issuer, until the browser leaves it. */
  signIn(visit: Visit, username: string): Promise<void>
  /** Confirms the sign-out on the page of the issuer. */
  signOut(visit: Visit): Promise<void>
  /** Ends the sessions of a user, as its administrator does. */
  endSessions(username: string): Promise<void>
}

type StartIssuer = (surroundings: Surroundings) => Promise<IssuerUnderTest>

interface User {
  username: string
  name: string
  email?: string
  email_verified?: boolean
  attributes?: object
}

/** Starts an Usher with TLS of its own, and adds accounts with `PASSWORD`. */
export async function startTlsUsher(
  { folder, certificate: { cert, key }, authority, closing }: Surroundings,
  { name, host, port }: { name: string; host: string; port: number },
  config: Parameters<typeof writeConfig>[1],
  accounts: User[],
) {
  const own = join(folder, name)
  mkdirSync(own)
  writeConfig(own, { ...config, usher: { ...config.usher, listen: { tls: { cert, key } } } })
  const env = {
    USHER_CONFIG: own,
    USHER_SECRET: Buffer.alloc(32, name).toString('base64url'),
    USHER_ISSUER: `https://${host}:${port}`,
    USHER_STORE: `sqlite:${join(folder, `${name}.db`)}`,
    PORT: String(port),
    HOST: '127.0.0.1',
    NODE_EXTRA_CA_CERTS: authority.cert,
  }
  const service = await startService(env)
  closing.defer(() => service.stop().then(() => {}))
  const usher = async (words: string[], input?: string) => {
    const done = await runUsher(words, env, input)
    if (done.code !== 0) throw new Error(`usher ${words.join(' ')}: ${done.stderr}`)
    return done
  }
  for (const { username, name, email, email_verified, attributes } of accounts) {
    const words = ['accounts', 'add', '--username', username, '--name', name]
    if (email) words.push('--email', email)
    if (email_verified) words.push('--email-verified')
    if (attributes) words.push('--attributes', JSON.stringify(attributes))
    await usher([...words, '--password-stdin'], PASSWORD)
  }
  return { ...service, issuer: env.USHER_ISSUER, usher }
}

type Stage = Awaited<ReturnType<typeof startStage>>
async function startStage(startIssuer: StartIssuer, closing: AsyncDisposableStack) {
  const folder = mkdtempSync(join(tmpdir(), 'usher-upstream-'))
  closing.defer(() => rmSync(folder, { recursive: true }))
  const authority = makeCertificate(folder, 'authority', {
    extensions: ['basicConstraints=critical,CA:TRUE'],
  })
  const certificate = makeCertificate(folder, 'server', {
    issuer: authority,
    extensions: ['subjectAltName=DNS:localhost,IP:127.0.0.1'],
  })
  const trusted = getCACertificates()
  setDefaultCACertificates([...trusted, authority.pem])
  closing.defer(() => setDefaultCACertificates(trusted))

  const place = { name: 'usher', host: 'localhost', port: await freePort() }
  const own = `https://localhost:${place.port}`
  const surroundings = {
    folder,
    closing,
    certificate,
    authority,
    redirectUri: `${own}/sign-in/example/callback`,
    signedOutUri: `${own}/sign-in/example/signed-out`,
    backchannelLogoutUri: `${own}/sign-in/example/backchannel-logout`,
  }
  const issuer = await startIssuer(surroundings)
  const party = await startRelyingParty({ client_id: 'web' })
  closing.defer(() => party.close())
  const config = withUpstreams({
    example: {
      issuer: issuer.issuer,
      acr: { [issuer.acr]: MAPPED_ACR },
      sign_out: 'return',
      allow: { email_domains: ['example.org'] },
      claims: {
        username: 'preferred_username',
        name: 'name',
        email: 'email',
        'attributes.groups': 'groups',
      },
    },
  })
  const clients = {
    web: { ...party.metadata, application_type: 'native', require_auth_time: true },
  }
  const local = { username: 'local', name: 'Grace at home' }
  const usher = await startTlsUsher(surroundings, place, { ...config, clients }, [local])
  await party.connect(usher.issuer)
  const browser = await launchChromium()
  closing.defer(() => browser.close())
  return { browser, usher, issuer, party }
}

/** Defines the tests of sign-in, step-up, sign-out and linking. */
export function upstreamSuite(startIssuer: StartIssuer, timeout?: number) {
  const closing = new AsyncDisposableStack()
  let browser: Browser
  let usher: Stage['usher']
  let issuer: IssuerUnderTest
  let party: RelyingParty
  beforeAll(async () => {
    ;({ browser, usher, issuer, party } = await startStage(startIssuer, closing))
  }, timeout)
  afterAll(() => closing.disposeAsync())

  async function start() {
    const visit = await Visit.start(browser, { ignoreHTTPSErrors: true })
    onTestFinished(() => visit.close())
    return visit
  }

  /** Opens the sign-in page of Usher for the application. */
  const begin = ({ page }: Visit, params: Record<string, string> = {}) =>
    page.goto(`${party.origin}/sign-in?${new URLSearchParams(params)}`)

  /** Goes from the consent page, if there is one, to the application; returns its claims. */
  async function arrive({ page }: Visit) {
    const allow = page.getByRole('button', { name: 'Allow', exact: true })
    const welcome = page.getByRole('heading', { name: 'Welcome' })
    await allow.or(welcome).waitFor()
    if (await allow.isVisible()) await allow.click()
    await welcome.waitFor()
    return party.session().claims
  }

  async function signIn(visit: Visit, username = 'ada', params: Record<string, string> = {}) {
    await begin(visit, params)
    await visit.button(LABEL).click()
    await issuer.signIn(visit, username)
    return arrive(visit)
  }

  async function isSignedIn(visit: Visit) {
    await visit.page.goto(`${usher.issuer}/account`)
    return (await visit.heading()) === 'Your account'
  }

  async function signInByPassword(visit: Visit) {
    await visit.page.goto(`${usher.issuer}/account`)
    await visit.page.getByLabel('Username').fill('local')
    await visit.page.getByLabel('Password').fill(PASSWORD)
    await visit.button('Sign in').click()
    await visit.page.getByRole('heading', { name: 'Your account' }).waitFor()
  }

  test('the button, sign-in at the issuer, consent, and back to the application', async () => {
    const visit = await start()
    await begin(visit)
    expect(await visit.heading()).toBe('Sign in')
    await visit.button(LABEL).click()
    await issuer.signIn(visit, 'ada')
    expect(await visit.heading()).toBe('Allow access')
    const claims = await arrive(visit)
    expect(claims).toMatchObject({
      preferred_username: 'ada',
      name: 'Ada Lovelace',
      email: 'ada@example.org',
      email_verified: true,
    })
    expect(claims.sub).toMatch(/^usr_[0-9a-z]{26}$/)
    expect([claims.amr].flat()[0]).toBe('example')
    expect(visit.complaints.policyViolations).toEqual([])
    const { stdout } = await usher.usher(['accounts', 'show', 'ada', '--json'])
    expect(JSON.parse(stdout)).toMatchObject({ id: claims.sub, attributes: { groups: ['staff'] } })
    expect((await signIn(await start())).sub).toBe(claims.sub)
  })

  test('a user whom the file does not allow gets no account', async () => {
    const visit = await start()
    await begin(visit)
    await visit.button(LABEL).click()
    await issuer.signIn(visit, 'eve')
    expect(await visit.page.getByRole('alert').textContent()).toContain(
      'You cannot sign in this way',
    )
    await expect
      .poll(() => usher.stdout())
      .toMatch(/"event":"sign_in_failed".*"reason":"not_allowed"/)
    expect(await isSignedIn(visit)).toBe(false)
  })

  test.each([
    ['prompt', 'login'],
    ['max_age', '0'],
  ])('%s=%s asks for the password again', async (name, value) => {
    const visit = await start()
    const { sub, auth_time = Infinity } = await signIn(visit)
    // An auth_time has no fractions of a second.
    await expect.poll(() => Date.now() / 1000).toBeGreaterThan(auth_time + 1)
    const after = await signIn(visit, 'ada', { [name]: value })
    expect(after.sub).toBe(sub)
    expect(after.auth_time).toBeGreaterThan(auth_time)
  })

  test('a user adds the issuer, steps up a password session with it, and removes it', async () => {
    const visit = await start()
    const { page } = visit
    await signInByPassword(visit)
    await visit.page.goto(`${usher.issuer}/account/security`)
    await page.getByRole('button', { name: 'Add' }).click()
    // The password, before the change.
    await page.getByLabel('Password').fill(PASSWORD)
    await visit.button('Sign in').click()
    await page.getByRole('button', { name: 'Add' }).click()
    await issuer.signIn(visit, 'grace')
    expect(await page.getByRole('status').textContent()).toBe('You can now sign in this way.')

    const elsewhere = await start()
    await signInByPassword(elsewhere)
    const claims = await signIn(elsewhere, 'grace', {
      acr_values: MAPPED_ACR,
      claims: JSON.stringify({ id_token: { acr: null } }),
    })
    expect(claims).toMatchObject({ preferred_username: 'local', acr: MAPPED_ACR })

    await page.goto(`${usher.issuer}/account/security`)
    await page.getByRole('button', { name: 'Remove' }).click()
    expect(await page.getByRole('status').textContent()).toBe('You can no longer sign in this way.')
    expect(visit.complaints.policyViolations).toEqual([])
  })

  test('a sign-out at the issuer ends the session of Usher', async () => {
    const visit = await start()
    await signIn(visit)
    expect(await isSignedIn(visit)).toBe(true)
    await issuer.endSessions('ada')
    await expect.poll(() => isSignedIn(visit)).toBe(false)
  })

  test('a sign-out of Usher alone leaves the session of the issuer', async () => {
    const visit = await start()
    await signIn(visit)
    await visit.page.goto(`${party.origin}/sign-out`)
    await visit.button('Sign out').click()
    await visit.page.waitForURL(`${party.origin}/signed-out`)
    expect(await isSignedIn(visit)).toBe(false)
    await visit.button(LABEL).click()
    await visit.page.getByRole('heading', { name: 'Your account' }).waitFor()
  })

  test('a sign-out at the issuer, too, leads back to the application', async () => {
    const visit = await start()
    await signIn(visit)
    await visit.page.goto(`${party.origin}/sign-out`)
    await visit.button(`Sign out at ${new URL(issuer.issuer).host}, too`).click()
    await issuer.signOut(visit)
    await visit.page.waitForURL(`${party.origin}/signed-out`)
    expect(await isSignedIn(visit)).toBe(false)
    // The issuer asks for the password again.
    await signIn(visit)
    expect(visit.complaints.policyViolations).toEqual([])
  })
}
