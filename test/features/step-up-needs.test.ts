// The step-up of a session: which needs of a request it does not meet, and which of them counts.

import { expect, test } from 'vitest'
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

const none: Factor[] = []
const use = (level: Lack['level']): Lack => ({ level, need: 'use' })
const add = (level: Lack['level']): Lack => ({ level, need: 'add' })

type Row = {
  what: string
  request: Partial<StepUpRequest>
  acr?: string
  amr?: string[]
  factors: Factor[]
  lacks: Lack | undefined
}

const ROWS: Row[] = [
  { what: 'nothing', request: {}, factors: [app], lacks: undefined },
  { what: 'an essential acr', request: { essentialAcrs: [TWO] }, factors: [app], lacks: use(TWO) },
  { what: 'an essential acr', request: { essentialAcrs: [TWO] }, factors: none, lacks: add(TWO) },
  { what: 'an essential acr', request: { essentialAcrs: [PHR] }, factors: [app], lacks: add(PHR) },
  {
    what: 'the weaker of two values',
    request: { essentialAcrs: [PHR, TWO] },
    factors: [passkey],
    lacks: use(TWO),
  },
  {
    what: 'an essential acr that the session has',
    request: { essentialAcrs: [TWO, PHR] },
    acr: TWO,
    factors: [app],
    lacks: undefined,
  },
  {
    what: 'an essential acr that is no level',
    request: { essentialAcrs: ['loa1'] },
    factors: [app],
    lacks: undefined,
  },
  { what: 'acr_values', request: { acrValues: [TWO] }, factors: [app], lacks: use(TWO) },
  { what: 'acr_values', request: { acrValues: [TWO] }, factors: none, lacks: undefined },
  { what: 'acr_values', request: { acrValues: [PHR] }, factors: [app], lacks: undefined },
  { what: 'acr_values', request: { acrValues: [PHR] }, factors: [passkey], lacks: use(PHR) },
  { what: 'a client', request: { needsFactor: true }, factors: [app], lacks: use(TWO) },
  { what: 'a client', request: { needsFactor: true }, factors: none, lacks: add(TWO) },
  { what: 'a client', request: { needsFactor: true }, acr: TWO, factors: [app], lacks: undefined },
  { what: 'a change', request: { isForChange: true }, factors: none, lacks: undefined },
  { what: 'a change', request: { isForChange: true }, factors: [app], lacks: use(TWO) },
  { what: 'a change', request: { isForChange: true }, acr: TWO, factors: [app], lacks: undefined },
  {
    what: 'a change, after the weaker factor',
    request: { isForChange: true },
    acr: TWO,
    factors: [app, passkey],
    lacks: use(PHR),
  },
  {
    what: 'a change, after a recovery code',
    request: { isForChange: true },
    acr: TWO,
    amr: ['pwd', 'recovery_code', 'mfa'],
    factors: [app, passkey],
    lacks: undefined,
  },
  {
    what: 'the strongest of several',
    request: { needsFactor: true, acrValues: [PHR] },
    factors: [passkey],
    lacks: use(PHR),
  },
  {
    what: 'a voluntary one is left out',
    request: { needsFactor: true, acrValues: [PHR] },
    factors: [app],
    lacks: use(TWO),
  },
  {
    what: 'the strongest has to be added',
    request: { needsFactor: true, essentialAcrs: [PHR] },
    factors: [app],
    lacks: add(PHR),
  },
]

test.each(ROWS)('$what, $factors.length factors: $lacks', row => {
  const { acr = PASSWORD_ACR, amr = ['pwd'] } = row
  const request = requestWith(row.request)
  const own = { accountId: 'usr_a', factors: row.factors, recovery: [] }
  const levels = levelsWith(true)
  const needs = needsOf(request, acr, levels)
  expect(strongestNeed(needs, { acr, amr }, own, levels)).toEqual(row.lacks)
})

test('without passkeys no request needs one', () => {
  const request = requestWith({ essentialAcrs: [PHR], acrValues: [PHR] })
  expect(needsOf(request, PASSWORD_ACR, levelsWith(false))).toEqual([])
})

function requestWith(parts: Partial<StepUpRequest>): StepUpRequest {
  return { essentialAcrs: [], acrValues: [], needsFactor: false, isForChange: false, ...parts }
}
