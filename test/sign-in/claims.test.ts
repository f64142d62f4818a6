// The claims of an account: those of claims.yaml, from fields that the account itself has.

import { expect, test } from 'vitest'
import type { Account } from '../../src/sign-in/account.ts'
import { claimsOf } from '../../src/sign-in/account.ts'

const ADA: Account = {
  id: 'usr_ada',
  enabled: true,
  username: 'ada',
  name: 'Ada Lovelace',
  email: 'ada@example.org',
  email_verified: true,
  attributes: { department: 'Engines', level: 3, admin: false, none: null, tags: ['a', 'b'] },
  password: '$argon2id$canary',
  created: 1,
  updated: 2,
}
const claim = (from: string) => ({ claim: { scope: 'x', from } })

test.each([
  ['username', 'ada'],
  ['name', 'Ada Lovelace'],
  ['email', 'ada@example.org'],
  ['email_verified', true],
  ['updated_at', 2],
  ['attributes.department', 'Engines'],
  ['attributes.level', 3],
  ['attributes.admin', false],
  ['attributes.tags', ['a', 'b']],
])('a claim from %s is %j', (from, value) => {
  expect(claimsOf(ADA, claim(from))).toEqual({ claim: value })
})

test.each(['attributes.nowhere', 'attributes.none', 'attributes.department.length'])(
  'a claim from %s, which the account does not have, is left out',
  from => {
    expect(claimsOf(ADA, claim(from))).toEqual({})
  },
)

test.each([
  ['', undefined],
  [' \n', undefined],
  [[], undefined],
  [['', null, ' '], undefined],
  [{}, undefined],
  [{ street: '', area: [''] }, undefined],
  [
    ['a', '', null, 'b'],
    ['a', 'b'],
  ],
  [
    { street: '', city: 'London', lines: ['', '1'] },
    { city: 'London', lines: ['1'] },
  ],
  [0, 0],
  [false, false],
  [
    [0, false],
    [0, false],
  ],
  [' a ', ' a '],
])('a claim from the attribute %j is %j: empty values are left out', (value, claimed) => {
  const attributes = { any: value }
  expect(claimsOf({ ...ADA, attributes }, claim('attributes.any')).claim).toEqual(claimed)
})

test('an empty name of an account from elsewhere is left out', () => {
  expect(claimsOf({ ...ADA, name: '' }, claim('name'))).toEqual({})
})

test.each(['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'valueOf'])(
  'a claim from an attribute %s has the value of the account, or is absent',
  name => {
    expect(claimsOf(ADA, claim(`attributes.${name}`))).toEqual({})
    const attributes = JSON.parse(`{"${name}": "Engines"}`)
    expect(claimsOf({ ...ADA, attributes }, claim(`attributes.${name}`))).toEqual({
      claim: 'Engines',
    })
  },
)

test.each(['__proto__', 'constructor', 'toString'])('a claim may be called %s', name => {
  const claims = claimsOf(ADA, JSON.parse(`{"${name}": {"scope": "x", "from": "name"}}`))
  expect(Object.entries(claims)).toEqual([[name, 'Ada Lovelace']])
  expect(Object.getPrototypeOf(claims)).toBe(Object.prototype)
})

test('email_verified is absent without an email, and false if the email is not verified', () => {
  const { email, ...without } = ADA
  expect(email).toBeDefined()
  expect(claimsOf(without, claim('email_verified'))).toEqual({})
  expect(claimsOf({ ...ADA, email_verified: false }, claim('email_verified'))).toEqual({
    claim: false,
  })
})

test.each(['id', 'password', 'enabled', 'created', 'attributes', 'nickname'])(
  'no claim reads %s, even if a file names it',
  from => {
    expect(claimsOf(ADA, claim(from))).toEqual({})
  },
)
