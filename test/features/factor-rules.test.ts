// The rules of second factors as pure functions: the page of the step, and what a request needs of a session.

import { expect, test } from 'vitest'
import { pageAction } from '../../src/features/factors/factor-step.ts'
import type { Factor } from '../../src/features/factors/factors.ts'
import {
  type Lack,
  levelsWith,
  needsOf,
  type StepUpRequest,
  strongestNeed,
} from '../../src/features/factors/step-up.ts'
import {
  PASSWORD_ACR,
  PHISHING_RESISTANT_ACR as PHR,
  TWO_FACTOR_ACR as TWO,
} from '../../src/oidc/vocabulary.ts'
import { APP as app, PASSKEY as passkey } from '../support/factors.ts'

const password = { acr: PASSWORD_ACR, amr: ['pwd'] }
const code = { acr: TWO, amr: ['pwd', 'otp', 'mfa'] }
const recovery = { acr: TWO, amr: ['pwd', 'recovery_code', 'mfa'] }
const withPasskey = { acr: PHR, amr: ['pwd', 'hwk', 'user', 'mfa'] }

const none: Factor[] = []
const both = [app, passkey]
const accountWith = (factors: Factor[]) => ({ accountId: 'usr_a', factors, recovery: [] })

type Login = { acr: string; amr: string[] }
type Action = ReturnType<typeof pageAction>
type Page = [factors: Factor[], Login, any: Action, passkeyOnly: Action, added?: Factor]

test.each<[account: string, ...Page]>([
  ['no factor', none, password, 'offerFactor', 'offerFactor'],
  ['an app', [app], password, 'askFactor', 'askFactor'],
  ['an app, used', [app], code, 'askFactor', 'offerFactor'],
  ['an app, replaced by a recovery code', [app], recovery, 'askFactor', 'offerFactor'],
  ['a passkey', [passkey], password, 'askFactor', 'askFactor'],
  ['a passkey and an app, which was used', both, code, 'askFactor', 'askFactor'],
  ['a passkey, used', [passkey], withPasskey, 'askFactor', 'askFactor'],
  // The app of this sign-in was not used.
  ['an app that was just added', [app], password, 'showCodes', 'askFactor', app],
  ['a passkey that was just added', both, code, 'showCodes', 'showCodes', passkey],
])('the page of the step for %s', (_, factors, login, any, passkeyOnly, added) => {
  const state = { login, own: accountWith(factors), added, hasSeenCodes: false }
  expect(pageAction({ ...state, isPasskeyOnly: false })).toBe(any)
  expect(pageAction({ ...state, isPasskeyOnly: true })).toBe(passkeyOnly)
})

test('after its recovery codes an added factor ends the step; without one they are no end', () => {
  const seen = (factors: Factor[], isPasskeyOnly: boolean, added?: Factor) => {
    const state = { login: password, own: accountWith(factors), added, hasSeenCodes: true }
    return pageAction({ ...state, isPasskeyOnly })
  }
  expect(seen([app], false, app)).toBe('done')
  expect(seen([passkey], true, passkey)).toBe('done')
  expect(seen([app], true, app)).toBe('askFactor')
  expect(seen([app], false)).toBe('askFactor')
  expect(seen([], false)).toBe('offerFactor')
})

const use = (level: Lack['level']): Lack => ({ level, need: 'use' })
const add = (level: Lack['level']): Lack => ({ level, need: 'add' })
const needing = (parts: Partial<StepUpRequest>): StepUpRequest => ({
  essentialAcrs: [],
  acrValues: [],
  needsFactor: false,
  isForChange: false,
  ...parts,
})
const essential = (...essentialAcrs: string[]) => needing({ essentialAcrs })
const voluntary = (...acrValues: string[]) => needing({ acrValues })
const client = needing({ needsFactor: true })
const change = needing({ isForChange: true })

test.each<[string, StepUpRequest, factors: Factor[], Lack | undefined, Login?]>([
  ['nothing', needing({}), [app], undefined],
  ['an essential acr, with an app', essential(TWO), [app], use(TWO)],
  ['an essential acr, without a factor', essential(TWO), none, add(TWO)],
  ['an essential acr of a passkey, with an app', essential(PHR), [app], add(PHR)],
  ['the weaker of two essential values', essential(PHR, TWO), [passkey], use(TWO)],
  ['an essential acr that the session has', essential(TWO, PHR), [app], undefined, code],
  ['an essential acr that is no level', essential('loa1'), [app], undefined],
  ['acr_values, with an app', voluntary(TWO), [app], use(TWO)],
  ['acr_values, without a factor', voluntary(TWO), none, undefined],
  ['acr_values of a passkey, with an app', voluntary(PHR), [app], undefined],
  ['acr_values of a passkey, with one', voluntary(PHR), [passkey], use(PHR)],
  ['a client, with an app', client, [app], use(TWO)],
  ['a client, without a factor', client, none, add(TWO)],
  ['a client, after the factor', client, [app], undefined, code],
  ['a change, without a factor', change, none, undefined],
  ['a change, with an app', change, [app], use(TWO)],
  ['a change, after the factor', change, [app], undefined, code],
  ['a change, after the weaker factor', change, both, use(PHR), code],
  ['a change, after a recovery code', change, both, undefined, recovery],
  ['the strongest of several', { ...client, acrValues: [PHR] }, [passkey], use(PHR)],
  ['a client, beside a voluntary acr', { ...client, acrValues: [PHR] }, [app], use(TWO)],
  ['the strongest, which is added', { ...client, essentialAcrs: [PHR] }, [app], add(PHR)],
])('what a session lacks for %s', (_, request, factors, lacks, login = password) => {
  const levels = levelsWith(true)
  const needs = needsOf(request, login.acr, levels)
  expect(strongestNeed(needs, login, accountWith(factors), levels)).toEqual(lacks)
})

test('without passkeys no request needs one', () => {
  const request = needing({ essentialAcrs: [PHR], acrValues: [PHR] })
  expect(needsOf(request, PASSWORD_ACR, levelsWith(false))).toEqual([])
})
