// Two requests change one session at once: what is stored in the end.

import { expect, test } from 'vitest'
import { mergeSession, type SessionRecord } from '../../src/oidc/adapter/session-record.ts'

type Fields = Partial<SessionRecord>

const ADA = { accountId: 'ada', loginTs: 100, signInId: 'first' }
const AGAIN = { accountId: 'ada', loginTs: 200, signInId: 'second' }
const GRACE = { accountId: 'grace', loginTs: 300, signInId: 'third' }
const APP = { app: { grantId: 'a', sid: '1' } }
const OTHER = { other: { grantId: 'b', sid: '2' } }

/** A session with a cookie value that tells which request wrote it. */
const session = (jti: string, fields: Fields): SessionRecord => ({
  uid: 'u',
  exp: 1000,
  ...fields,
  jti,
})

test.each<[string, base: Fields, mine: Fields, theirs: Fields, result: Fields]>([
  ['nothing changes', ADA, ADA, ADA, ADA],
  ['mine changes a field', ADA, { ...ADA, amr: ['pwd'] }, ADA, { ...ADA, amr: ['pwd'] }],
  ['theirs changes a field', ADA, ADA, { ...ADA, exp: 2000 }, { ...ADA, exp: 2000 }],
  ['both change a field', ADA, { ...ADA, exp: 3000 }, { ...ADA, exp: 2000 }, { ...ADA, exp: 3000 }],
  ['mine removes a field', { ...ADA, state: {} }, ADA, { ...ADA, state: {} }, ADA],
  ['mine signs in', {}, ADA, {}, ADA],
  ['mine replaces the user', ADA, GRACE, ADA, GRACE],
  [
    'each adds a client',
    ADA,
    { ...ADA, authorizations: APP },
    { ...ADA, authorizations: OTHER },
    { ...ADA, authorizations: { ...OTHER, ...APP } },
  ],
  [
    'each adds a grant',
    ADA,
    { ...ADA, grants: { a: 500 } },
    { ...ADA, grants: { b: 600 } },
    { ...ADA, grants: { a: 500, b: 600 } },
  ],
  ['both sign one account in', {}, AGAIN, ADA, { ...AGAIN, signInId: 'first' }],
])('%s: the cookie of mine', (_name, base, mine, theirs, result) => {
  const merged = mergeSession(
    session('old', base),
    session('mine', mine),
    session('theirs', theirs),
  )
  expect(merged).toEqual(session('mine', { authorizations: {}, grants: {}, ...result }))
})

test('only theirs signs in again: the cookie of theirs, because that of mine leads nowhere', () => {
  const merged = mergeSession(session('old', ADA), session('mine', ADA), session('theirs', AGAIN))
  expect(merged).toEqual(session('theirs', { ...AGAIN, authorizations: {}, grants: {} }))
})

test('theirs signs another account in to an anonymous session: nothing is stored', () => {
  expect(mergeSession(session('old', {}), session('mine', ADA), session('theirs', GRACE))).toBe(
    undefined,
  )
})

test('a new session is stored as it is', () => {
  const mine = session('mine', { ...ADA, authorizations: APP, grants: { a: 500 } })
  expect(mergeSession(undefined, mine, undefined)).toEqual(mine)
})
