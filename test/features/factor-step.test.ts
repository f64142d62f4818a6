// What the page of a second factor does.

import { expect, test } from 'vitest'
import { pageAction } from '../../src/features/factors/factor-step.ts'
import type { Factor } from '../../src/features/factors/factors.ts'
import { PASSWORD_ACR, PHISHING_RESISTANT_ACR, TWO_FACTOR_ACR } from '../../src/oidc/vocabulary.ts'
import { APP as app, PASSKEY as passkey } from '../support/factors.ts'

const password = { acr: PASSWORD_ACR, amr: ['pwd'] }
const code = { acr: TWO_FACTOR_ACR, amr: ['pwd', 'otp', 'mfa'] }
const recovery = { acr: TWO_FACTOR_ACR, amr: ['pwd', 'recovery_code', 'mfa'] }
const withPasskey = { acr: PHISHING_RESISTANT_ACR, amr: ['pwd', 'hwk', 'user', 'mfa'] }

type Row = {
  account: string
  factors: Factor[]
  login: { acr: string; amr: string[] }
  added?: Factor
  anyFactor: ReturnType<typeof pageAction>
  passkeyOnly: ReturnType<typeof pageAction>
}

const UNSEEN: Row[] = [
  {
    account: 'no factor',
    factors: [],
    login: password,
    anyFactor: 'offerFactor',
    passkeyOnly: 'offerFactor',
  },
  {
    account: 'an app',
    factors: [app],
    login: password,
    anyFactor: 'askFactor',
    passkeyOnly: 'askFactor',
  },
  {
    account: 'an app, used',
    factors: [app],
    login: code,
    anyFactor: 'askFactor',
    passkeyOnly: 'offerFactor',
  },
  {
    account: 'an app, replaced by a recovery code',
    factors: [app],
    login: recovery,
    anyFactor: 'askFactor',
    passkeyOnly: 'offerFactor',
  },
  {
    account: 'a passkey',
    factors: [passkey],
    login: password,
    anyFactor: 'askFactor',
    passkeyOnly: 'askFactor',
  },
  {
    account: 'a passkey and an app, which was used',
    factors: [app, passkey],
    login: code,
    anyFactor: 'askFactor',
    passkeyOnly: 'askFactor',
  },
  {
    account: 'a passkey, used',
    factors: [passkey],
    login: withPasskey,
    anyFactor: 'askFactor',
    passkeyOnly: 'askFactor',
  },
  {
    account: 'an app that was just added',
    factors: [app],
    login: password,
    added: app,
    anyFactor: 'showCodes',
    // The app of this sign-in was not used.
    passkeyOnly: 'askFactor',
  },
  {
    account: 'a passkey that was just added',
    factors: [app, passkey],
    login: code,
    added: passkey,
    anyFactor: 'showCodes',
    passkeyOnly: 'showCodes',
  },
]

test.each(UNSEEN)('$account: $anyFactor; if only a passkey is accepted: $passkeyOnly', row => {
  const own = { accountId: 'usr_a', factors: row.factors, recovery: [] }
  const state = { login: row.login, own, added: row.added, hasSeenCodes: false }
  expect(pageAction({ ...state, isPasskeyOnly: false })).toBe(row.anyFactor)
  expect(pageAction({ ...state, isPasskeyOnly: true })).toBe(row.passkeyOnly)
})

test('after its recovery codes an added factor ends the step; without one they are no end', () => {
  const seen = (factors: Factor[], isPasskeyOnly: boolean, added?: Factor) => {
    const own = { accountId: 'usr_a', factors, recovery: [] }
    return pageAction({ login: password, own, added, isPasskeyOnly, hasSeenCodes: true })
  }
  expect(seen([app], false, app)).toBe('done')
  expect(seen([passkey], true, passkey)).toBe('done')
  expect(seen([app], true, app)).toBe('askFactor')
  expect(seen([app], false)).toBe('askFactor')
  expect(seen([], false)).toBe('offerFactor')
})
