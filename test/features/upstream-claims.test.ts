// What the ID token of an upstream issuer may do to accounts: docs/identity-providers/README.md, "Which claim
// may do what".

import { decodeJwt } from 'jose'
import { describe, expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import { type HostileIssuer, startHostileIssuer } from '../support/hostile-issuer.ts'
import { authorizationRequest, redeem, refresh, tokens, userinfo } from '../support/journey.ts'
import { isSignedIn, signedIn, slowDown, submitConfirmed } from '../support/people.ts'
import { placesOf } from '../support/some-of.ts'
import { stopping } from '../support/stopping.ts'
import { withUpstreams } from '../support/upstream.ts'
import { PASSWORD } from '../support/usher.ts'

const CORP = { allow: { email_domains: ['corp.example'] } }
const FIELDS = { username: 'preferred_username', name: 'name', email: 'email' }

/** The files of upstreams/, each with an issuer of its own. */
const FILES: Record<string, object> = {
  corp: { ...CORP, link_by_verified_email: true },
  partner: { allow: { claims: { org: 'partner' } } },
  contact: { ...CORP, claims: { ...FIELDS, email: 'contact' } },
  // Users of other tests add and remove this one.
  link: { accounts: 'link' },
  // Trusts no domain: the setting has no effect.
  open: { link_by_verified_email: true },
  groups: { claims: { ...FIELDS, 'attributes.groups': 'groups', 'attributes.team': 'team' } },
}
type Claims = Record<string, unknown>
const OFFLINE = 'openid offline_access'

const issuers: Record<string, HostileIssuer> = {}
const test = usherTest(async () => {
  for (const name of Object.keys(FILES)) issuers[name] = await startHostileIssuer()
  const upstreams = Object.entries(FILES).map(([name, file]) => {
    return [name, { issuer: issuers[name]?.issuer, ...file }]
  })
  const { usher: settings, ...options } = withUpstreams(Object.fromEntries(upstreams))
  const sign_in = { by: ['username', 'email'] }
  return { ...options, usher: { ...settings, sign_in }, accounts: [] }
})
test.afterAll(async () => {
  for (const issuer of Object.values(issuers)) await issuer.close()
})

/** A browser that also opens the pages of an issuer. */
const browserOf = (name: string) => new Browser(usher.issuer, fetch, [issuers[name]?.issuer ?? ''])
/** Signs in at an issuer whose ID token has these claims. Without a code, the page says why. */
async function browserAt(name: string, claims: Claims, params: Record<string, string> = {}) {
  const { state } = issuers[name] as HostileIssuer
  state.behaviour = { claims: { preferred_username: undefined, email: undefined, ...claims } }
  const browser = browserOf(name)
  const request = authorizationRequest(usher, { client_id: 'first', ...params })
  await browser.open(request.url)
  await browser.submit({ decision: name })
  return { browser, request }
}

/** Returns the claims that an application gets. */
async function signIn(name: string, claims: Claims) {
  const { browser, request } = await browserAt(name, claims)
  const code = browser.page.params.get('code')
  if (!code) throw new Error(`no code: ${browser.heading} ${browser.page.text.slice(0, 1500)}`)
  const { body } = await redeem(usher, code, request)
  return decodeJwt(body.id_token)
}

const events = (event: string) =>
  usher.output.map(line => JSON.parse(line)).filter(line => line.event === event)

/** An account of the operator, with a password. */
const local = (username: string, email = `${username}@corp.example`) =>
  usher.addAccount({ username, email, email_verified: true })

/** A list of so many levels. */
const nested = (levels: number): unknown => JSON.parse('['.repeat(levels) + ']'.repeat(levels))
const verified = (email: string) => ({ email, email_verified: true })

describe('an issuer vouches only for the domains in its own allow.email_domains', () => {
  test.each<[string, Claims, boolean]>([
    ['corp', verified('one@corp.example'), true],
    ['corp', verified('Two@CORP.example'), true],
    ['partner', { ...verified('ceo@corp.example'), org: 'partner' }, false],
    ['open', verified('anybody@corp.example'), false],
    ['groups', verified('someone@elsewhere.example'), false],
  ])('%s, %j: verified is %s', async (name, claims, isVerified) => {
    const { email, email_verified } = await signIn(name, { sub: 'address', ...claims })
    expect([email, email_verified]).toEqual([claims.email, isVerified])
  })

  test('the account of a user of another issuer is not linked by its address', async () => {
    const mallory = { sub: 'mallory', ...verified('boss@corp.example'), org: 'partner' }
    const { sub } = await signIn('partner', { ...mallory, preferred_username: 'mallory' })
    const boss = await signIn('corp', { sub: 'boss', ...verified('boss@corp.example') })
    expect(boss.sub).not.toBe(sub)
    expect(boss.preferred_username).not.toBe('mallory')
    expect((await signIn('partner', mallory)).sub).toBe(sub)
    // Also when its address was verified by an operator, or is of an earlier version.
    const eve = await signIn('partner', { sub: 'eve', org: 'partner' })
    const address = verified('eve@corp.example')
    await usher.directory.change(eve.sub ?? '', account => ({ ...account, ...address }))
    expect((await signIn('corp', { sub: 'eve', ...address })).sub).not.toBe(eve.sub)
  })

  test('the account of an operator is linked, also beside one of another issuer', async () => {
    const { id } = await local('grace')
    const email = 'grace@corp.example'
    await signIn('partner', { sub: 'not-grace', email, org: 'partner' })
    expect((await signIn('corp', { sub: 'grace', ...verified(email) })).sub).toBe(id)
  })

  test('the address of a former user of the issuer, who has another sub, links nothing', async () => {
    const { id } = await local('john')
    const john = verified('john@corp.example')
    expect((await signIn('corp', { sub: 'john-1', ...john })).sub).toBe(id)
    expect((await signIn('corp', { sub: 'john-2', ...john })).sub).not.toBe(id)
    expect((await usher.directory.find(id))?.links).toHaveLength(1)
    expect(events('account_linked')).toContainEqual(
      expect.objectContaining({ account: id, upstream: 'corp', subject: 'john-1' }),
    )
  })

  test('email_verified is about the claim email, not about another that the file maps', async () => {
    const { email, email_verified } = await signIn('contact', {
      sub: 'contact',
      ...verified('eve@corp.example'),
      contact: 'ceo@corp.example',
    })
    expect([email, email_verified]).toEqual(['ceo@corp.example', false])
  })

  test('an issuer without domains links nothing', async () => {
    const { id } = await local('lin')
    const { sub } = await signIn('open', { sub: 'lin', ...verified('lin@corp.example') })
    expect(sub).not.toBe(id)
  })
})

describe('a claim that the issuer no longer sends', () => {
  const here = { sub: 'leaver', name: 'Ada', groups: ['admins'], team: 'engines' }
  const accountOf = async (claims: Claims) => {
    const { sub = '' } = await signIn('groups', {
      ...here,
      ...verified('leaver@corp.example'),
      ...claims,
    })
    return usher.directory.find(sub)
  }

  test('is an attribute: it is deleted, and the others stay', async () => {
    const rows: [absent: Claims, attributes: object][] = [
      [{}, { groups: ['admins'], team: 'engines' }],
      [{ groups: undefined }, { team: 'engines' }],
      [{ team: undefined }, { groups: ['admins'] }],
      [{ groups: null }, { team: 'engines' }],
      [{ groups: [] }, { groups: [], team: 'engines' }],
      [{ groups: undefined, team: undefined }, {}],
      [{ groups: nested(2000) }, { team: 'engines' }],
      [{ groups: [{ toString: 1 }] }, { groups: [{ toString: 1 }], team: 'engines' }],
    ]
    for (const [absent, attributes] of rows) {
      await accountOf({})
      expect((await accountOf(absent))?.attributes).toEqual(attributes)
    }
    for (const name of [undefined, null]) expect((await accountOf({ name }))?.name).toBe('Ada')
  })

  test('leaves attributes that the file does not name', async () => {
    const { id = '' } = (await accountOf({})) ?? {}
    await usher.directory.change(id, account => ({
      ...account,
      attributes: { ...account.attributes, desk: 4 },
    }))
    expect((await accountOf({ groups: undefined }))?.attributes).toEqual({
      desk: 4,
      team: 'engines',
    })
  })

  test('is the address, or email_verified: it is no longer verified', async () => {
    const { id = '' } = (await accountOf({})) ?? {}
    const rows: Claims[] = [
      { email: undefined },
      { email: undefined, email_verified: true },
      { email: null, email_verified: true },
      { email: 'nowhere', email_verified: true },
      { email_verified: undefined },
    ]
    for (const absent of rows) {
      await usher.directory.change(id, account => ({ ...account, email_verified: true }))
      expect(await accountOf(absent)).toMatchObject({ id, email_verified: false })
    }
  })
})

describe('an account has one link to an issuer', () => {
  const METHODS = '/account/security'
  /** A browser of a user with a password, who adds the user `subject` of the issuer. */
  async function added(username: string, subject: string, browser?: Browser) {
    const own = browser ?? (await signedIn(usher, username, PASSWORD, browserOf('link')))
    const { state } = issuers.link as HostileIssuer
    state.behaviour = { claims: { sub: subject } }
    await own.open(METHODS)
    await submitConfirmed(own, { link: 'link' })
    return own
  }
  const linksOf = async (username: string) =>
    (await usher.directory.findByUsername(username))?.links?.map(({ subject }) => subject)

  test('a second user of the issuer is refused, and cannot sign in', async () => {
    await local('owner')
    const browser = await added('owner', 'owner-there')
    expect(browser.page.text).toContain('You can now sign in this way.')
    await added('owner', 'hijacker', browser)
    expect(browser.page.text).toContain('Nothing was added')
    expect(events('sign_in_failed').at(-1)).toMatchObject({
      subject: 'hijacker',
      reason: expect.stringContaining('another user of this issuer'),
    })
    expect(await linksOf('owner')).toEqual(['owner-there'])
    await expect(signIn('link', { sub: 'hijacker' })).rejects.toThrow('You cannot sign in this way')
    await added('owner', 'owner-there', browser)
    expect(browser.page.text).toContain('You can now sign in this way.')
    expect(events('account_linked').at(-1)).toMatchObject({
      upstream: 'link',
      subject: 'owner-there',
    })
  })

  test('Remove removes every link to the issuer, also those of an earlier version', async () => {
    const { id } = await local('several')
    const browser = await added('several', 'several-1')
    const issuer = issuers.link?.issuer ?? ''
    const elsewhere = { issuer: 'https://elsewhere.example', subject: 'several' }
    await usher.directory.change(id, ({ links = [], ...account }) => ({
      ...account,
      links: [...links, { issuer, subject: 'several-2' }, elsewhere],
    }))
    await browser.open(METHODS)
    await submitConfirmed(browser, { unlink: 'link' })
    expect(browser.page.text).toContain('You can no longer sign in this way.')
    expect(await linksOf('several')).toEqual(['several'])
    const subjects = events('account_unlinked').map(({ subject }) => subject)
    expect(subjects).toEqual(expect.arrayContaining(['several-1', 'several-2']))
    for (const sub of ['several-1', 'several-2']) {
      await expect(signIn('link', { sub })).rejects.toThrow('You cannot sign in this way')
    }
  })

  test.each([
    ['that nobody verified, goes', false],
    ['that an operator verified, stays', true],
  ])('an address of the issuer %s with the last link', async (_, isVerified) => {
    const name = `leaver-${isVerified}`
    await local(name)
    const browser = await added(name, name)
    await signIn('link', { sub: name, email: 'owner@example.com', email_verified: true })
    const { id = '' } = (await usher.directory.findByUsername(name)) ?? {}
    const verify = (email_verified: boolean) =>
      usher.directory.change(id, account => ({ ...account, email_verified }))
    expect(await usher.directory.find(id)).toMatchObject({ email_verified: false })
    await verify(isVerified)
    await browser.open(METHODS)
    await browser.submit({ unlink: 'link' })
    const left = (await usher.directory.find(id))?.email
    expect(left).toBe(isVerified ? 'owner@example.com' : undefined)
  })

  test('Remove ends the sessions and tokens of sign-ins at the issuer, and no others', async () => {
    await local('mover')
    const byPassword = await added('mover', 'mover-there')
    const own = await tokens(usher, { username: 'mover', scope: OFFLINE })
    const { browser, request } = await browserAt('link', { sub: 'mover-there' }, { scope: OFFLINE })
    const code = browser.page.params.get('code') ?? ''
    const { body } = await redeem(usher, code, request)
    expect((await userinfo(usher, body.access_token)).status).toBe(200)
    await byPassword.open(METHODS)
    await submitConfirmed(byPassword, { unlink: 'link' })
    expect(await isSignedIn(browser)).toBe(false)
    expect((await userinfo(usher, body.access_token)).status).toBe(401)
    expect((await refresh(usher, body.refresh_token, 'first')).body.error).toBe('invalid_grant')
    expect(await isSignedIn(byPassword)).toBe(true)
    expect((await refresh(usher, own.refresh_token)).status).toBe(200)
  })

  test('Remove can be repeated after a crash at any write', async () => {
    await local('unlucky')
    const byPassword = await added('unlucky', 'unlucky-there')
    let isDone = false
    const stopped = stopping(usher.store)
    const { first, step } = placesOf(3)
    for (let writes = first; !isDone; writes += step) {
      await added('unlucky', 'unlucky-there', byPassword)
      const { browser } = await browserAt('link', { sub: 'unlucky-there' })
      await byPassword.open(METHODS)
      await stopped(writes, () => submitConfirmed(byPassword, { unlink: 'link' }))
      isDone = byPassword.page.status === 200
      byPassword.pages.pop()
      await submitConfirmed(byPassword, { unlink: 'link' })
      expect(byPassword.page.text, `after ${writes} writes`).toContain('You can no longer sign in')
      expect(await isSignedIn(browser), `after ${writes} writes`).toBe(false)
      expect(await linksOf('unlucky')).toEqual([])
    }
  })
})

describe('an address that is not valid admits, links and verifies nobody', () => {
  test('the sign-in is refused, and the log names the rule', async () => {
    await local('kate')
    const invalid = [
      '\u212Aate@corp.example',
      'kate@\u212Aorp.example',
      'k\u200Bate@corp.example',
      'kate@corp.example@evil.test',
      'kate@corp.example\u0000',
      'kate @corp.example',
      '\uFF4Bate@corp.example',
      `${'k'.repeat(255)}@corp.example`,
    ]
    for (const [i, email] of invalid.entries()) {
      const signingIn = signIn('corp', { sub: `not-kate-${i}`, ...verified(email) })
      await expect(signingIn, email).rejects.toThrow('You cannot sign in this way')
      expect((await usher.directory.findByUsername('kate'))?.links).toBeUndefined()
      const ignored = [expect.stringMatching(/^email: must /)]
      expect(events('sign_in_failed').at(-1)).toMatchObject({ reason: 'not_allowed', ignored })
    }
  })

  test('other addresses are valid, without their spaces', async () => {
    const valid = [
      'r&d@corp.example',
      'first/last@corp.example',
      ' spaced@corp.example\u200B',
      `${'l'.repeat(200)}@corp.example`,
      '"quoted @"@corp.example',
    ]
    for (const [i, email] of valid.entries()) {
      const claims = await signIn('corp', { sub: `valid-${i}`, ...verified(email) })
      const kept = email.replace(/^ |\u200B/g, '')
      expect(claims).toMatchObject({ email: kept, email_verified: true })
    }
  })

  test('email_verified that is no boolean is refused, and the log names its type', async () => {
    for (const email_verified of ['true', 1, null]) {
      const signingIn = signIn('corp', { sub: 'flag', email: 'flag@corp.example', email_verified })
      await expect(signingIn).rejects.toThrow('You cannot sign in this way')
      const type = typeof email_verified
      const ignored = [`email_verified: must be true or false, and is a ${type}`]
      expect(events('sign_in_failed').at(-1)).toMatchObject({ reason: 'not_allowed', ignored })
    }
  })

  test('what is left out of a sign-in is in its log line, without its value', async () => {
    const name = '\u001B]0;secret title\u0007'
    const claims = { sub: 'strange', name, preferred_username: 7, email: ['a'] }
    expect(await signIn('groups', claims)).not.toHaveProperty('name')
    const { ignored } = events('sign_in_succeeded').at(-1)
    expect(ignored.toSorted()).toEqual([
      'email: must be text, and is a object',
      'name: has no control characters, line breaks or invisible characters',
      'preferred_username: must be text, and is a number',
    ])
  })
})

describe('the username of a new account', () => {
  const MADE = /^(corp|partner|groups)-[0-9a-f]{20}$/
  const usernameBy = async (name: string, claims: Claims) =>
    (await signIn(name, { org: 'partner', ...claims })).preferred_username

  test.each<[string, string, Claims, string | RegExp]>([
    ['the claim', 'groups', { preferred_username: 'plain' }, 'plain'],
    ['the claim, tidied', 'groups', { preferred_username: ' ti\u200Bdy\n' }, 'tidy'],
    ['the own address', 'corp', verified('mine@corp.example'), 'mine@corp.example'],
    [
      'the claim that is the own address',
      'corp',
      { preferred_username: 'Own@corp.example', ...verified('own@corp.example') },
      'Own@corp.example',
    ],
    [
      'not another address',
      'corp',
      { preferred_username: 'later@corp.example', ...verified('her@corp.example') },
      'her@corp.example',
    ],
    ['not an address', 'partner', { preferred_username: 'LıLY@corp.example' }, MADE],
    ['not one in full width', 'partner', { preferred_username: 'x\uFF20corp.example' }, MADE],
    ['not an unverified address', 'partner', verified('unv@corp.example'), MADE],
    ['not one with invisible letters', 'groups', { preferred_username: 'admin\u3164' }, MADE],
    ['not one that is too long', 'corp', verified(`${'m'.repeat(150)}@corp.example`), MADE],
    ['not the sub', 'groups', {}, MADE],
  ])('is %s', async (sub, name, claims, expected) => {
    const username = await usernameBy(name, { sub: sub.replace(/[ ,]/g, '-'), ...claims })
    if (typeof expected === 'string') expect(username).toBe(expected)
    else expect(username).toMatch(expected)
  })

  test('differs for subjects that differ in case, or only behind their 200th character', async () => {
    const long = 'x'.repeat(250)
    const subjects = ['case', 'CASE', `${long}1`, `${long}2`]
    const names = []
    for (const sub of subjects) names.push(await usernameBy('groups', { sub }))
    expect(new Set(names).size).toBe(subjects.length)
  })
})

test('a user of an issuer with the same address does not keep its owner from signing in', async () => {
  await local('bob')
  await signIn('contact', { sub: 'bob', ...verified('bob@corp.example') })
  const { sub = '' } = await signIn('groups', { sub: 'not-bob', preferred_username: 'not-bob' })
  await usher.directory.change(sub, account => ({ ...account, ...verified('bob@corp.example') }))
  for (const name of ['bob@corp.example', ' BOB@corp.example\u200B', 'bob ', '\uFF42ob']) {
    const browser = await signedIn(usher, name)
    expect(browser.page.text).toContain('Signed in as bob')
  }
  const later = await usher.addAccount({ username: 'named@corp.example' })
  await usher.directory.change(later.id, ({ password, ...account }) => account)
  await local('named')
  expect((await signedIn(usher, 'named@corp.example')).page.text).toContain('Signed in as named')
})

// The last one: the store stays slow.
test('ten parallel first sign-ins of a user get one account, and one link', async () => {
  const { id } = await local('linked')
  slowDown(usher)
  for (const [name, user] of [
    ['corp', 'parallel'],
    ['groups', 'parallel'],
    ['corp', 'linked'],
  ] as const) {
    const claims = { sub: user, ...verified(`${user}@corp.example`) }
    const all = await Promise.all(Array.from({ length: 10 }, () => signIn(name, claims)))
    expect(new Set(all.map(({ sub }) => sub)).size).toBe(1)
    if (user === 'linked') expect(all[0]?.sub).toBe(id)
  }
  expect((await usher.directory.find(id))?.links).toHaveLength(1)
})
