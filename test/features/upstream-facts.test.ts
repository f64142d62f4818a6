// What an upstream issuer says about a sign-in there is no fact of this provider: values of `amr` and `acr` that stand
// here for recovery codes, passkeys and upstreams give no rights over the factors of an account.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { createFactors } from '../../src/features/factors/factors.ts'
import { Browser } from '../support/browser.ts'
import { claimsAfter, FACTORS, TWO_FACTORS } from '../support/factors.ts'
import { type HostileIssuer, startHostileIssuer } from '../support/hostile-issuer.ts'
import { open, words } from '../support/people.ts'
import { withUpstreams } from '../support/upstream.ts'
import { startUsher, type Usher } from '../support/usher.ts'

const STRONG = 'https://issuer.example/strong'

let issuer: HostileIssuer
let usher: Usher
beforeAll(async () => {
  issuer = await startHostileIssuer()
  const files = withUpstreams({
    example: { issuer: issuer.issuer, acr: { [STRONG]: TWO_FACTORS } },
    other: { issuer: 'https://other.example.org' },
  })
  const sign_in = { second_factor: 'optional', methods: ['password', 'passkey', 'example'] }
  usher = await startUsher({ ...files, usher: { ...files.usher, sign_in } })
})
afterAll(async () => {
  await usher.close()
  await issuer.close()
})

/** Signs in at the issuer, which sends these claims. */
async function signIn(claims: Record<string, unknown>) {
  issuer.state.behaviour = { claims: { acr: STRONG, preferred_username: claims.sub, ...claims } }
  const browser = new Browser(usher.issuer, fetch, [issuer.issuer])
  const opened = await open(usher, {}, browser)
  await browser.submit({ decision: 'example' })
  return opened
}

/** Gives an account a passkey and recovery codes. */
async function addPasskeyTo(subject: string) {
  const account = await usher.directory.findByLink({ issuer: issuer.issuer, subject })
  await createFactors(usher.records).add(account?.id ?? '', {
    type: 'passkey',
    id: `of-${subject}`,
    name: '',
    created: 1,
    host: 'localhost',
    key: 'AA',
    counter: 0,
    transports: [],
    isDeviceBound: true,
  })
}

test('amr has the methods of the issuer, without recovery codes and upstreams of this provider', async () => {
  const amr = ['recovery_code', 'otp', 'other', 'example', 'mfa', 1, { toString: 1 }]
  const claims = await claimsAfter(usher, await signIn({ sub: 'listed', amr }))
  expect(claims.amr).toEqual(['example', 'otp', 'mfa'])
})

test.for<[string, unknown]>([
  ['nothing', undefined],
  ['a recovery code', ['recovery_code']],
  ['a recovery code among others', ['pwd', 'mfa', 'recovery_code']],
  ['a passkey', ['hwk', 'user', 'mfa']],
  ['a recovery code as text', 'recovery_code'],
])(
  'two factors there, by %s, do not change the passkey of an account here',
  async ([name, amr]) => {
    const sub = `of-${name.replaceAll(' ', '-')}`
    await signIn({ sub, amr })
    await addPasskeyTo(sub)
    const { browser } = await signIn({ sub, amr })
    await browser.open(`${FACTORS}?add=totp`)
    expect(browser.heading).toBe(words('factors.step_title'))
  },
)
