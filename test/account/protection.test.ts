// What the account pages say about the protection of an account, and about networks.

import { expect, test } from 'vitest'
import { type Protection, verdictOf } from '../../src/account/security.ts'
import { shownNetwork } from '../../src/account/signed-in-browsers.ts'

const BARE: Protection = { hasPassword: true, recoveryCodes: 0, isPasswordEnough: false }

// biome-ignore format: a table
test.each<[string, Partial<Protection>, string]>([
  ['no feature is on',                  {}, 'password_only'],
  ['apps are on, there is none',        { apps: 0 }, 'no_factor'],
  ['passkeys are on, there is none',    { passkeys: 0 }, 'no_factor'],
  ['both are on, there is none',        { passkeys: 0, apps: 0 }, 'no_factor'],
  ['an app and codes',                  { passkeys: 0, apps: 1, recoveryCodes: 3 }, 'enough'],
  ['a passkey and codes',               { passkeys: 1, apps: 0, recoveryCodes: 1 }, 'enough'],
  ['an app without codes',              { apps: 1 }, 'no_codes'],
  ['a passkey beside the password',     { passkeys: 1, isPasswordEnough: true }, 'passkey_beside'],
  ['no passkey beside the password',    { passkeys: 0, isPasswordEnough: true }, 'no_factor'],
  ['another issuer',                    { hasPassword: false, apps: 0 }, 'elsewhere'],
  ['another issuer, no feature is on',  { hasPassword: false }, 'elsewhere'],
  ['a passkey without a password',      { hasPassword: false, passkeys: 1 }, 'enough'],
])('%s', (_, changes, verdict) => {
  expect(verdictOf({ ...BARE, ...changes })).toBe(verdict)
})

test('a network is shown without the notation of its mask', () => {
  expect(shownNetwork('203.0.113.0/24')).toBe('203.0.113.x')
  expect(shownNetwork('2001:db8:1234::/48')).toBe('2001:db8:1234:x')
})
