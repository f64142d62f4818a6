// Passkeys: adding, using and removing them, alone and as second factor, and every answer that is refused.

import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { beforeEach, describe, expect, vi } from 'vitest'
import { createFactors } from '../../src/features/factors/factors.ts'
import { createPasskeys } from '../../src/features/factors/passkeys.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import type { Browser } from '../support/browser.ts'
import {
  addApp,
  claimsAfter,
  codesOn,
  enterPassword,
  FACTORS,
  factorsOf,
  nextCode,
  PASSKEY,
  removalOf,
  removeFactor,
  TWO_FACTORS,
} from '../support/factors.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import { Authenticator, addPasskey, optionsOn, usePasskey } from '../support/passkeys.ts'
import {
  confirmed,
  copyOf,
  credentials,
  fieldsOf,
  isSignedIn,
  newTab,
  open,
  send,
  signedIn,
  silently,
  words,
} from '../support/people.ts'
import { placesOf } from '../support/some-of.ts'
import { CLIENTS } from '../support/usher.ts'

const test = usherTest({
  accounts: [],
  clients: {
    ...CLIENTS,
    vault: { ...CLIENTS.first, client_id: 'vault', require_sign_in: 'passkey' },
  },
  usher: { sign_in: { methods: ['password', 'passkey'], second_factor: 'optional' } },
})

const PHR = 'phr'
const ESSENTIAL = {
  claims: JSON.stringify({ id_token: { acr: { essential: true, value: PHR } } }),
}

/** The user of a test, or of several, with an authenticator. */
let name: string
let id: string
let phone: Authenticator
async function newUser() {
  name = `u${randomBytes(6).toString('hex')}`
  id = (await usher.addAccount({ username: name })).id
  phone = new Authenticator(usher.issuer)
}

/** The audit events of the user. */
const events = () => usher.auditEvents(id)
const last = () => events().at(-1)

/** A browser of the user with a new passkey, and another browser at the sign-in page. */
async function withPasskey(params = {}) {
  const own = await signedIn(usher, name)
  await addPasskey(own, phone)
  return { own, ...(await open(usher, params)) }
}

/** A browser at the page that adds a passkey. */
async function atAddPage() {
  const own = await signedIn(usher, name)
  await own.open(`${FACTORS}?add=passkey`)
  return confirmed(own)
}

/** A browser of a user with an app and a passkey, in a session of the app. */
async function withBoth() {
  const { browser } = await addApp(usher, name)
  await browser.open(`${FACTORS}?add=passkey`)
  await browser.submit({ code: await nextCode(usher, id) })
  await browser.submit({ passkey: phone.create(optionsOn(browser)) })
  expect((await factorsOf(usher, id)).factors).toHaveLength(2)
  return browser
}

describe('a passkey', () => {
  beforeEach(newUser)

  test('is added with a name and recovery codes, signs in without a username, and its key is in no page or log', async () => {
    const own = await signedIn(usher, name)
    await addPasskey(own, phone)
    expect(codesOn(own)).toHaveLength(10)
    expect(own.page.text).toContain(words('factors.added_passkey'))
    await own.submit({ name: 'my phone' })
    expect(own.page.url.pathname).toBe(FACTORS)
    expect(own.page.text).toContain('my phone')
    const opened = await open(usher)
    await usePasskey(opened.browser, phone)
    expect(await claimsAfter(usher, opened)).toMatchObject({ sub: id, amr: ['hwk', 'user', 'mfa'] })
    expect(events().map(({ event, factor = '' }) => `${event} ${factor}`.trim())).toEqual([
      'sign_in_succeeded',
      'sign_in_succeeded',
      'second_factor_added passkey',
      'sign_in_succeeded passkey',
      'consent_given',
      'tokens_issued',
    ])
    const [passkey] = (await factorsOf(usher, id)).factors
    const key = passkey?.type === 'passkey' ? passkey.key : ''
    expect(key).toHaveLength(103)
    const pages = [...own.pages, ...opened.browser.pages].map(({ text }) => text)
    expect([...usher.output, ...pages].join('\n')).not.toContain(key)
  })

  test('that is synced between devices is no hardware key (RFC 8176)', async () => {
    phone.isSynced = true
    const opened = await withPasskey({ acr_values: PHR })
    await usePasskey(opened.browser, phone)
    expect(await claimsAfter(usher, opened)).toMatchObject({
      amr: ['swk', 'user', 'mfa'],
      acr: PHR,
    })
  })

  test('is the second factor after a password, without user verification', async () => {
    const opened = await withPasskey({ acr_values: PHR })
    await enterPassword(opened.browser, name)
    const options = JSON.parse(optionsOn(opened.browser))
    expect(options).toMatchObject({ userVerification: 'preferred' })
    expect(options.allowCredentials).toHaveLength(1)
    expect(await isSignedIn(opened.browser)).toBe(false)
    await usePasskey(opened.browser, phone, { isVerified: false })
    expect(await claimsAfter(usher, opened)).toMatchObject({
      amr: ['pwd', 'hwk', 'user', 'mfa'],
      acr: PHR,
    })
  })

  test('of several each signs in, and the page shows when and where it was used', async () => {
    const key = new Authenticator(usher.issuer)
    const { own, browser } = await withPasskey()
    await own.open(`${FACTORS}?add=passkey`)
    expect(own.heading).toBe(words('factors.step_title'))
    await usePasskey(own, phone)
    await addPasskey(own, key)
    expect(own.heading).toBe(words('factors.name_title'))
    await own.submit({ name: 'my key' })
    expect(own.heading).toBe(words('security.title'))
    expect(own.page.text).toContain('my key')
    await usePasskey(browser, key)
    expect(await isSignedIn(browser)).toBe(true)
    const again = (await open(usher)).browser
    await usePasskey(again, phone)
    await again.open(FACTORS)
    const rows = again.page.html.querySelectorAll('.row p').map(({ text }) => text)
    expect(rows.filter(text => /Added on .* Last used: /.test(text))).toHaveLength(2)
    expect((await factorsOf(usher, id)).factors.map(({ type }) => type)).toEqual([
      'passkey',
      'passkey',
    ])
  })

  test('is removed, and then refused: the browser may forget it', async () => {
    const { own, browser } = await withPasskey()
    await own.open(removalOf(phone.credentials[0]?.id))
    // The session of the password is not enough.
    expect(own.heading).toBe(words('factors.step_title'))
    await usePasskey(own, phone)
    expect(own.page.text).toContain(words('factors.remove_passkey'))
    await own.submit()
    expect(own.page.text).toContain(words('factors.removed'))
    const accepted = own.page.html.querySelector('[data-accepted]')?.getAttribute('data-accepted')
    expect(JSON.parse(accepted ?? '')).toEqual({
      rpId: new URL(usher.issuer).hostname,
      userId: Buffer.from(id).toString('base64url'),
      allAcceptedCredentialIds: [],
    })
    await usePasskey(browser, phone)
    const unknown = browser.page.html.querySelector('[data-unknown]')?.getAttribute('data-unknown')
    expect(JSON.parse(unknown ?? '')).toMatchObject({ credentialId: phone.credentials[0]?.id })
    expect(last()).toMatchObject({ event: 'sign_in_failed', reason: 'passkey_unknown' })
  })

  test('of a disabled account is refused, and not forgotten', async () => {
    const { browser } = await withPasskey()
    await usher.directory.endAccess(id, account => ({ ...account, enabled: false }))
    await usePasskey(browser, phone)
    expect(browser.page.text).toContain(words('sign_in.passkey_failed'))
    expect(browser.page.html.querySelector('[data-unknown]')).toBeNull()
    expect(last()).toMatchObject({ event: 'sign_in_failed', reason: 'disabled', factor: 'passkey' })
  })
})

/** An RSA key with a modulus and an exponent of so many bytes. */
const rsa = (modulus: number, exponent: number): [number, unknown][] => [
  [1, 3],
  [3, -257],
  [-1, randomBytes(modulus)],
  [-2, randomBytes(exponent)],
]
const MANY = Array.from({ length: 9000 }, (_, n): [number, unknown] => [n + 100, 0])

const stranger = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
const WRONG = [
  ['of another origin', { origin: 'https://evil.example' }, /origin/],
  ['of a subdomain', { origin: 'http://app.localhost:3000' }, /origin/],
  ['for another RP ID', { rpId: 'evil.example' }, /RP ID/],
  ['signed with another key', { key: stranger }, /signature/],
  ['to another challenge', { challenge: randomBytes(32).toString('base64url') }, /challenge/],
  ['to an empty challenge', { challenge: '' }, /challenge/],
  ['of a page in a foreign frame', { crossOrigin: true }, /origin/],
  ['to a challenge that is a list of gigabytes', { challenge: { length: 4e9 } }, /challenge/],
  ['to a challenge that is no text', { challenge: { toString: 1 } }, /primitive/],
  ['without the presence of the user', { isPresent: false }, /present/],
  ['of another ceremony', { type: 'webauthn.create' }, /type/],
  ['without user verification', { isVerified: false }, /verif/],
] as const

describe('a wrong answer is refused', () => {
  test.beforeAll(async () => {
    await newUser()
    await withPasskey()
  })

  test.for(WRONG)('%s, at the sign-in', async ([, wrong, detail]) => {
    const { browser } = await open(usher)
    await usePasskey(browser, phone, wrong)
    expect(browser.page.status).toBe(400)
    expect(browser.page.text).toContain(words('sign_in.passkey_failed'))
    expect(await isSignedIn(browser)).toBe(false)
    expect(last()).toMatchObject({ event: 'sign_in_failed', reason: 'passkey_wrong' })
    expect(last()?.detail).toMatch(detail)
    // The right answer begins a new budget of attempts.
    await usePasskey(browser, phone)
    expect(await isSignedIn(browser)).toBe(true)
  })

  test.for([WRONG[0], WRONG[3], WRONG[4]])('%s, as second factor', async ([, wrong]) => {
    const { browser } = await open(usher)
    await enterPassword(browser, name)
    await usePasskey(browser, phone, wrong)
    expect(browser.page.text).toContain(words('factors.passkey_failed'))
    expect(last()).toMatchObject({ event: 'second_factor_failed', reason: 'passkey_wrong' })
    expect(await isSignedIn(browser)).toBe(false)
  })
})

describe('a wrong answer is refused when a passkey is added', () => {
  let own: Browser
  test.beforeAll(async () => {
    await newUser()
    own = await atAddPage()
  })

  test.for([
    ['of another origin', { origin: 'https://evil.example' }],
    ['for another RP ID', { rpId: 'evil.example' }],
    ['to another challenge', { challenge: randomBytes(32).toString('base64url') }],
    ['of another ceremony', { type: 'webauthn.get' }],
    ['with an id of 1,024 bytes', { idBytes: 1024 }],
    ['with a member that its key does not need', { members: [[-70_000, 'x']] }],
    ['with 9,000 members in its key', { members: MANY }],
    ['with an RSA key of 4,104 bits', { publicKey: rsa(513, 3) }],
    ['with an RSA key of 2,040 bits', { publicKey: rsa(255, 3) }],
    ['with an RSA exponent of 3,072 bits', { publicKey: rsa(384, 384) }],
    ['of a page in a frame of another origin', { crossOrigin: true }],
    ['of a page whose frame names its origin', { topOrigin: 'https://evil.example' }],
    ['to a challenge that is a list of gigabytes', { challenge: { length: 4e9 } }],
  ] as const)('%s', async ([, wrong]) => {
    await own.open(`${FACTORS}?add=passkey`)
    await own.submit({ passkey: phone.create(optionsOn(own), wrong) })
    expect(own.page.text).toContain(words('factors.passkey_not_added'))
    expect((await factorsOf(usher, id)).factors).toEqual([])
  })
})

describe('an answer is refused', () => {
  beforeEach(newUser)

  // The package would fetch the revocation lists that the certificates name.
  test.for([
    ['of Android', { format: 'android-key' }],
    ['that some decoders overlook', { format: 'android-key', isHidden: true }],
    ['of a TPM', { format: 'tpm' }],
  ] as const)('no: certificates %s are ignored, and the passkey is added', async ([, sent]) => {
    const own = await atAddPage()
    await own.submit({ passkey: phone.create(optionsOn(own), sent) })
    expect((await factorsOf(usher, id)).factors).toHaveLength(1)
    const { browser } = await open(usher)
    await usePasskey(browser, phone)
    expect(await isSignedIn(browser)).toBe(true)
  })

  test.for([256, 512])('no: a passkey with an RSA modulus of %i bytes is added', async modulus => {
    const own = await atAddPage()
    await own.submit({ passkey: phone.create(optionsOn(own), { publicKey: rsa(modulus, 3) }) })
    expect((await factorsOf(usher, id)).factors).toHaveLength(1)
  })

  test('when the passkeys of an account are too large together', async () => {
    const factors = createFactors(usher.records)
    const large = { ...PASSKEY, key: 'k'.repeat(700) }
    const added = []
    for (let n = 0; n < 20; n++) {
      added.push(await factors.add(id, { ...large, id: String(n).padEnd(1300, 'x') }))
    }
    expect(added.filter(Boolean).length).toBeGreaterThan(10)
    expect(JSON.stringify(await factorsOf(usher, id)).length).toBeLessThan(40_000)
  })

  test.for([
    '',
    '{',
    'null',
    '{"id":{"toString":1}}',
    '{"id":"a","response":{"userHandle":{"toString":1}}}',
    '{"id":"a","response":{"userHandle":{"length":4e9},"attestationObject":{"length":4e9}}}',
    '{"id":"a","rawId":"a","type":"public-key"}',
  ])('that is no answer: %s', async answer => {
    const { browser } = await withPasskey()
    await browser.submit({ username: name, password: 'x', passkey: answer })
    expect(browser.page.status).toBe(400)
    await enterPassword(browser, name)
    await browser.submit({ passkey: answer })
    expect(browser.page.status).toBe(400)
    await usePasskey(browser, phone)
    await browser.open(`${FACTORS}?add=passkey`)
    await browser.submit({ passkey: answer })
    expect(browser.page.status).toBeLessThan(500)
    expect((await factorsOf(usher, id)).factors).toHaveLength(1)
  })

  test('with the passkey of another user', async () => {
    const { browser } = await withPasskey()
    const other = await usher.addAccount({ username: `${name}.other` })
    const theirs = new Authenticator(usher.issuer)
    await addPasskey(await signedIn(usher, other.username), theirs)
    const handle = Buffer.from(id).toString('base64url')
    // Their passkey, and the handle of this user.
    await usePasskey(browser, theirs, { userHandle: handle })
    expect(last()).toMatchObject({ event: 'sign_in_failed', reason: 'passkey_unknown' })
    // Their key, under the id of the passkey of this user.
    await usePasskey(browser, theirs, { userHandle: handle, id: phone.credentials[0]?.id })
    expect(last()).toMatchObject({ event: 'sign_in_failed', reason: 'passkey_wrong' })
    await enterPassword(browser, name)
    await usePasskey(browser, theirs)
    expect(last()).toMatchObject({ event: 'second_factor_failed', reason: 'passkey_unknown' })
    expect(await isSignedIn(browser)).toBe(false)
  })

  test('whose counter goes back or stays, and the log has it', async () => {
    phone.counter = 7
    const { browser } = await withPasskey()
    await usePasskey(browser, phone)
    expect(await isSignedIn(browser)).toBe(true)
    for (const counter of [0, 8, 9]) {
      const copied = (await open(usher)).browser
      await usePasskey(copied, phone, { counter })
      expect(await isSignedIn(copied)).toBe(false)
      expect(last()).toMatchObject({ event: 'sign_in_failed', reason: 'passkey_counter' })
    }
    const later = (await open(usher)).browser
    await usePasskey(later, phone, { counter: 20 })
    expect(await isSignedIn(later)).toBe(true)
  })

  test('in another browser or interaction than that of its challenge', async () => {
    const { browser } = await withPasskey()
    const answer = phone.get(optionsOn(browser))
    const elsewhere = (await open(usher)).browser
    await elsewhere.submit({ passkey: answer })
    expect(await isSignedIn(elsewhere)).toBe(false)
    const tab = newTab(browser)
    await open(usher, {}, tab)
    await tab.submit({ passkey: answer })
    expect(await isSignedIn(tab)).toBe(false)
    await browser.submit({ passkey: answer })
    expect(await isSignedIn(browser)).toBe(true)
  })

  test('that was sent before', async () => {
    const { browser } = await withPasskey()
    const answer = phone.get(optionsOn(browser))
    const { url } = browser.page
    const form = fieldsOf(browser.page, { passkey: answer })
    const copies = Array.from({ length: 6 }, () => copyOf(browser))
    const sent = await Promise.all(copies.map(copy => send(copy, url, { form })))
    const won = sent.filter(({ status }) => status === 200)
    expect(won).toHaveLength(1)
    expect(events().filter(({ reason }) => reason === 'passkey_replayed')).not.toHaveLength(0)
  })

  test.each(['sign-in', 'second factor'])('no: an interrupted %s is sent again', async place => {
    phone.counter = 1
    await addPasskey(await signedIn(usher, name), phone)
    const { write } = usher.store
    let isDone = false
    const { first, step } = placesOf(3)
    for (let failing = 1 + first; !isDone; failing += step) {
      const { browser } = await open(usher)
      if (place === 'second factor') await enterPassword(browser, name)
      const form = fieldsOf(browser.page, { passkey: phone.get(optionsOn(browser)) })
      const { url } = browser.page
      let writes = 0
      const spy = vi.spyOn(usher.store, 'write').mockImplementation(async changes => {
        // The store has the change, and its answer is lost.
        const written = await write.call(usher.store, changes)
        if (++writes >= failing) throw new StoreUnavailable('cut')
        return written
      })
      const { status } = await send(browser, url, { form })
      spy.mockRestore()
      isDone = status === 200
      if (isDone) break
      expect(status, `write ${failing}`).toBe(503)
      expect((await send(browser, url, { form })).status, `write ${failing}`).toBe(200)
    }
    expect(events().filter(({ reason }) => reason === 'passkey_replayed')).toEqual([])
  })

  test('after the lifetime of its challenge', async () => {
    await withPasskey()
    const passkeys = createPasskeys(usher.settings, usher.records, createFactors(usher.records))
    const answerAfter = async (minutes: number) => {
      const text = phone.get(await passkeys.useOptions('somewhere'))
      vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + minutes * 60_000 })
      const answer = { text, place: 'somewhere', use: { at: Date.now() / 1000 } }
      return passkeys.use(id, answer, { mustVerify: true }).finally(vi.useRealTimers)
    }
    await expect(answerAfter(16)).rejects.toMatchObject({ reason: 'passkey_wrong' })
    expect(await answerAfter(14)).toMatchObject({ type: 'passkey' })
  })
})

describe('the budget of attempts', () => {
  beforeEach(newUser)

  test('is that of the password', async () => {
    const { browser } = await withPasskey()
    for (let i = 0; i < 5; i++) await usePasskey(browser, phone, { isVerified: false })
    await usePasskey(browser, phone)
    expect(await isSignedIn(browser)).toBe(false)
    expect(last()).toMatchObject({ event: 'sign_in_throttled', reason: 'throttled' })
    await browser.submit(credentials(name))
    expect(browser.page.text).toContain(words('sign_in.failed'))
  })

  test.each(['sign-in', 'second factor'])('foreign passkeys cost no attempt: %s', async place => {
    const { browser } = await withPasskey()
    if (place === 'second factor') await enterPassword(browser, name)
    const userHandle = Buffer.from(id).toString('base64url')
    const passkey = JSON.stringify({ id: 'x', response: { userHandle } })
    for (let i = 0; i < 8; i++) await browser.submit({ passkey })
    expect(last()).toMatchObject({ reason: 'passkey_unknown' })
    const other = (await open(usher)).browser
    await enterPassword(other, name)
    await usePasskey(other, phone)
    expect(await isSignedIn(other)).toBe(true)
  })
})

test('the sign-in page is the same for every user, and offers passkeys where the browser fills in the username', async () => {
  await newUser()
  await addPasskey(await signedIn(usher, name), phone)
  const optionsFor = async (login_hint: string) => {
    const { browser } = await open(usher, { login_hint })
    const field = browser.page.html.querySelector('#username')
    expect(field?.getAttribute('autocomplete')).toBe('username webauthn')
    expect(browser.page.html.querySelector('[data-autofill]')).not.toBeNull()
    const { challenge: _, ...options } = JSON.parse(optionsOn(browser))
    return options
  }
  const rpId = new URL(usher.issuer).hostname
  const same = { rpId, timeout: 900_000, userVerification: 'required' }
  expect([await optionsFor(name), await optionsFor('nobody')]).toEqual([same, same])
})

describe('a change of a factor', () => {
  beforeEach(newUser)

  test('needs the passkey, if the account has one: a code of an app is not enough', async () => {
    const own = await withBoth()
    await own.open(`${FACTORS}?add=totp`)
    expect(own.heading).toBe(words('factors.step_title'))
    expect(own.page.html.querySelector('#code')).toBeNull()
    expect(own.page.html.querySelector('#recovery')).not.toBeNull()
    await own.submit({ code: await nextCode(usher, id) })
    expect(own.heading).toBe(words('factors.step_title'))
    await usePasskey(own, phone)
    expect(own.heading).toBe(words('factors.add_totp'))
  })

  test('is possible with a recovery code in place of a lost passkey', async () => {
    const own = await signedIn(usher, name)
    await addPasskey(own, phone)
    const [recovery = ''] = codesOn(own)
    await own.open(`${FACTORS}?add=passkey`)
    expect(own.heading).toBe(words('factors.step_title'))
    await own.submit({ recovery })
    const fresh = new Authenticator(usher.issuer)
    await own.submit({ passkey: fresh.create(optionsOn(own)) })
    expect((await factorsOf(usher, id)).factors).toHaveLength(2)
    await removeFactor(own, phone.credentials[0]?.id)
    const left = (await factorsOf(usher, id)).factors.map(factor => factor.id)
    expect(left).toEqual([fresh.credentials[0]?.id])
  })

  test('is refused with an answer to the challenge of another page', async () => {
    const own = await atAddPage()
    const other = await atAddPage()
    const answer = phone.create(optionsOn(own))
    await other.submit({ passkey: answer })
    expect((await factorsOf(usher, id)).factors).toEqual([])
    await own.submit({ passkey: answer })
    expect((await factorsOf(usher, id)).factors).toHaveLength(1)
  })
})

describe('step-up to phr', () => {
  beforeEach(newUser)

  test('by acr_values: the user is asked for a passkey only', async () => {
    const params = { acr_values: PHR }
    const own = await withBoth()
    expect(await silently(usher, own, params)).toBe('interaction_required')
    const opened = await open(usher, params, newTab(own))
    const { browser } = opened
    expect(browser.heading).toBe(words('factors.step_title'))
    for (const field of ['#code', '#recovery']) {
      expect(browser.page.html.querySelector(field)).toBeNull()
    }
    await browser.submit({ code: await nextCode(usher, id) })
    expect(browser.page.text).toContain(words('factors.wrong'))
    await usePasskey(browser, phone)
    const amr = ['pwd', 'otp', 'mfa', 'hwk', 'user']
    expect(await claimsAfter(usher, opened)).toMatchObject({ acr: PHR, amr })
    expect((await open(usher, params, newTab(own))).browser.page.ours).toBe(false)
  })

  test('a client that requires a sign-in with a passkey gets no other', async () => {
    const { own } = await withPasskey()
    const redirect_uri = CLIENTS.first?.redirect_uris[0]
    const { browser } = await open(usher, { client_id: 'vault', redirect_uri }, own)
    expect(browser.heading).toBe(words('sign_in.title'))
    expect(browser.page.html.querySelector('input[type=password]')).toBeNull()
    await browser.submit(credentials(name))
    expect(browser.page.status).toBe(400)
    await open(usher, { client_id: 'vault', redirect_uri }, own)
    await usePasskey(own, phone)
    expect(own.page.params.has('code')).toBe(true)
  })

  test('by an essential acr, a user without a passkey adds one, after the factor that exists', async () => {
    await addApp(usher, name)
    const opened = await open(usher, ESSENTIAL)
    const { browser } = opened
    await enterPassword(browser, name)
    await browser.submit({ code: await nextCode(usher, id) })
    expect(browser.heading).toBe(words('factors.add_passkey'))
    expect(browser.page.html.querySelector('#code')).toBeNull()
    await browser.submit({ passkey: phone.create(optionsOn(browser)) })
    await browser.submit()
    expect(await claimsAfter(usher, opened)).toMatchObject({ acr: PHR })
  })

  test('a session with a passkey has two factors, too', async () => {
    const opened = await withPasskey({ acr_values: TWO_FACTORS })
    await usePasskey(opened.browser, phone)
    expect(await claimsAfter(usher, opened)).toMatchObject({ acr: PHR })
  })

  test('discovery lists phr', async () => {
    const response = await fetch(`${usher.issuer}/.well-known/openid-configuration`)
    const acr_values_supported = expect.arrayContaining([TWO_FACTORS, PHR])
    expect(await response.json()).toMatchObject({ acr_values_supported })
  })
})
