// What the ID token of an upstream issuer may do to accounts: docs/identity-providers/README.md, "Which claim
// may do what".

import { decodeJwt } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Browser } from '../support/browser.ts'
import { type HostileIssuer, startHostileIssuer } from '../support/hostile-issuer.ts'
import { authorizationRequest, redeem } from '../support/journey.ts'
import { withUpstreams } from '../support/upstream.ts'
import { CLIENTS, startUsher, type Usher } from '../support/usher.ts'

const CORP = { allow: { email_domains: ['corp.example'] } }
const FIELDS = { username: 'preferred_username', name: 'name', email: 'email' }

/** The files of upstreams/, each with an issuer of its own. */
const FILES: Record<string, object> = {
  corp: { ...CORP, link_by_verified_email: true },
  partner: { allow: { claims: { org: 'partner' } } },
  // Trusts no domain: the setting has no effect.
  open: { link_by_verified_email: true },
  groups: { claims: { ...FIELDS, 'attributes.groups': 'groups', 'attributes.team': 'team' } },
}
type Claims = Record<string, unknown>

const issuers: Record<string, HostileIssuer> = {}
let usher: Usher
beforeAll(async () => {
  for (const name of Object.keys(FILES)) issuers[name] = await startHostileIssuer()
  const upstreams = Object.entries(FILES).map(([name, file]) => {
    return [name, { issuer: issuers[name]?.issuer, ...file }]
  })
  usher = await startUsher({ ...withUpstreams(Object.fromEntries(upstreams)), clients: CLIENTS })
})
afterAll(async () => {
  await usher.close()
  for (const issuer of Object.values(issuers)) await issuer.close()
})

/** Signs in at an issuer whose ID token has these claims. Without a code, the page says why. */
async function browserAt(name: string, claims: Claims) {
  const { state } = issuers[name] as HostileIssuer
  state.behaviour = { claims: { preferred_username: undefined, email: undefined, ...claims } }
  const browser = new Browser(usher.issuer, fetch, [issuers[name]?.issuer ?? ''])
  const request = authorizationRequest(usher, { client_id: 'first' })
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

/** An account of the operator, with a password. */
const local = (username: string, email = `${username}@corp.example`) =>
  usher.addAccount({ username, email, email_verified: true })

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
  })

  test('also when its address was verified by an operator, or is of an earlier version', async () => {
    const { sub = '' } = await signIn('partner', { sub: 'eve', org: 'partner' })
    await usher.directory.change(sub, account => ({ ...account, ...verified('eve@corp.example') }))
    const eve = await signIn('corp', { sub: 'eve', ...verified('eve@corp.example') })
    expect(eve.sub).not.toBe(sub)
  })

  test('the account of an operator is linked, also beside one of another issuer', async () => {
    const { id } = await local('grace')
    const email = 'grace@corp.example'
    await signIn('partner', { sub: 'not-grace', email, org: 'partner' })
    expect((await signIn('corp', { sub: 'grace', ...verified(email) })).sub).toBe(id)
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

  test.each<[string, Claims, object]>([
    ['nothing', {}, { groups: ['admins'], team: 'engines' }],
    ['the groups', { groups: undefined }, { team: 'engines' }],
    ['an attribute beside another', { team: undefined }, { groups: ['admins'] }],
    ['groups that are null', { groups: null }, { team: 'engines' }],
    ['all but an empty list', { groups: [] }, { groups: [], team: 'engines' }],
    ['every attribute', { groups: undefined, team: undefined }, {}],
  ])('is %s: the attribute is deleted', async (_, absent, attributes) => {
    await accountOf({})
    expect((await accountOf(absent))?.attributes).toEqual(attributes)
  })

  test.each([undefined, null])('is the name (%s): it stays', async name => {
    expect((await accountOf({ name }))?.name).toBe('Ada')
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

  test.each<[string, Claims]>([
    ['the address', { email: undefined }],
    ['the address, but not its email_verified', { email: undefined, email_verified: true }],
    ['an address that is null', { email: null, email_verified: true }],
    ['a valid address', { email: 'nowhere', email_verified: true }],
    ['email_verified', { email_verified: undefined }],
  ])('is %s: it is no longer verified', async (_, absent) => {
    const { id = '' } = (await accountOf({})) ?? {}
    await usher.directory.change(id, account => ({ ...account, email_verified: true }))
    expect(await accountOf(absent)).toMatchObject({ id, email_verified: false })
  })
})
