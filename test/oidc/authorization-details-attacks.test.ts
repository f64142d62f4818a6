// Authorization details of another user or client, more than the user allowed, and invalid ones.

import { expect } from 'vitest'
import { FILES, refreshFor } from '../support/apis.ts'
import { cibaClient, sendRequest } from '../support/ciba.ts'
import {
  BANK,
  BANKING,
  detailsRequest,
  detailsTokens,
  introspect,
  LEDGER,
  PAYMENT,
  push,
  pushOutcome,
  STATEMENT,
} from '../support/details.ts'
import { browser, usher, usherTest } from '../support/fixtures.ts'
import { codeForm, post, redeem, signInAndAllow } from '../support/journey.ts'
import { signedIn } from '../support/people.ts'
import { SECRET } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const MORE = { ...PAYMENT, amount: { value: '99999.00', currency: 'EUR' } }
const OFFLINE = { scope: 'openid offline_access' }
const WRONG = 'invalid_authorization_details'

const test = usherTest({
  ...BANKING,
  clients: {
    ...BANKING.clients,
    till: cibaClient('till', { authorization_details_types: ['payment'] }),
  },
  usher: { features: { ...BANKING.usher.features, ciba: true } },
  browser: signedIn,
})

test('a client that can authenticate pushes authorization details, and cannot send others beside them', async () => {
  await browser.open(detailsRequest(usher, [PAYMENT]).url)
  expect(browser.page.params.get('error')).toBe('invalid_request')
  expect(browser.page.params.get('error_description')).toContain('have to be pushed')
  const pushed = await push(usher, [PAYMENT])
  pushed.url.searchParams.set('authorization_details', JSON.stringify([MORE]))
  await browser.open(pushed.url)
  const code = (await signInAndAllow(browser, 'ada')).params.get('code') ?? ''
  const { body } = await redeem(usher, code, pushed)
  expect(body.authorization_details).toEqual([PAYMENT])
})

test('a backchannel request cannot ask for details, which its page does not show', async () => {
  const { status, json } = await sendRequest(usher, {
    authorization_details: JSON.stringify([PAYMENT]),
  })
  expect([status, json.error]).toEqual([400, 'invalid_request'])
  expect(json.error_description).toBe('authorization_details cannot be asked for here')
})

test('a refresh cannot add details, and the refused refresh token stays valid', async () => {
  const { refresh_token } = await detailsTokens(usher, browser, [PAYMENT], OFFLINE)
  for (const details of [[MORE], [PAYMENT, MORE], [PAYMENT, PAYMENT], 'x', [1]]) {
    const authorization_details = typeof details === 'string' ? details : JSON.stringify(details)
    const refused = await refreshFor(usher, { refresh_token, authorization_details })
    expect([details, refused.status, refused.body.error]).toEqual([details, 400, WRONG])
  }
  const other = { authorization_details: JSON.stringify([STATEMENT]) }
  const ledger = { resource: LEDGER }
  for (const more of [other, ledger, { ...other, ...ledger }]) {
    const { body } = await refreshFor(usher, { refresh_token, ...more })
    expect([more, body.error]).toEqual([more, 'invalid_target'])
  }
  const again = await refreshFor(usher, { refresh_token })
  expect(again.body.authorization_details).toEqual([PAYMENT])
  expect(usher.output.join('')).not.toMatch(/refresh_(reuse|replay)/)
})

test('a code exchange cannot add details', async () => {
  const request = await push(usher, [PAYMENT])
  await browser.open(request.url)
  const code = (await signInAndAllow(browser, 'ada')).params.get('code') ?? ''
  const form = codeForm(code, request)
  const authorization_details = JSON.stringify([MORE])
  const { status, body } = await post(usher, '/api/oauth/token', { ...form, authorization_details })
  expect([status, body.error]).toEqual([400, WRONG])
})

test('details in the form of the consent page are ignored', async () => {
  const request = await push(usher, [PAYMENT])
  await browser.open(request.url)
  const forged = { details: JSON.stringify([MORE]), authorization_details: JSON.stringify([MORE]) }
  await browser.submit({ decision: 'allow', ...forged })
  const code = browser.page.params.get('code') ?? ''
  expect((await redeem(usher, code, request)).body.authorization_details).toEqual([PAYMENT])
})

test('another client does not get the details, and another API does not see them', async () => {
  expect(await pushOutcome(usher, [PAYMENT], { client_id: 'service' })).toMatch(/^400/)
  const body = { authorization_details: JSON.stringify([PAYMENT]), scope: 'openid' }
  const headers = basic('payroll-api', SECRET)
  expect((await send(usher, '/api/oauth/par', { body, headers })).status).toBe(400)

  const mine = await detailsTokens(usher, browser, [PAYMENT], OFFLINE)
  const { refresh_token } = mine
  const stolen = await refreshFor(usher, { refresh_token, client_id: 'spa' })
  expect(stolen.body.error).toBe('invalid_grant')
  const asked = await introspect(usher, mine.access_token, 'payroll-api')
  expect(asked).toEqual({ active: false })
})

test('a client may only request the types in its file', async () => {
  const url = detailsRequest(usher, [PAYMENT], { client_id: 'native' }).url
  await browser.open(url)
  expect(browser.page.params.get('error')).toBe(WRONG)
})

test('a service without a user gets no details', async () => {
  const form = { grant_type: 'client_credentials', client_id: 'service' }
  for (const details of [JSON.stringify([PAYMENT]), 'x', '{}']) {
    const asked = { ...form, authorization_details: details, scope: 'bank:read' }
    const { status, body } = await post(usher, '/api/oauth/token', asked)
    expect([status, body.error]).toEqual([400, WRONG])
  }
})

test('a resource that the details are not for is refused', async () => {
  const elsewhere = { resource: LEDGER, scope: 'openid ledger:read', client_id: 'spa' }
  await browser.open(detailsRequest(usher, [PAYMENT], elsewhere).url)
  expect(browser.page.params.get('error')).toBe(WRONG)
  await browser.open(detailsRequest(usher, [PAYMENT], { ...elsewhere, resource: FILES }).url)
  expect(browser.page.params.get('error')).toBe(WRONG)
  // A scope of the API is granted with or without details.
  await browser.open(detailsRequest(usher, '[]', { client_id: 'spa', resource: BANK }).url)
  expect(browser.page.params.get('error')).toBe('invalid_scope')
})

const payment = (changes: object) => [{ ...PAYMENT, ...changes }]
const amount = (value: unknown, more: object = {}) =>
  payment({ amount: { value, currency: 'EUR', ...more } })

test.each<[string, unknown, string]>([
  ['no JSON', '[{', 'could not parse'],
  ['no list', PAYMENT, 'JSON array'],
  ['no type', [{ creditor: 'Grace' }], 'index 0'],
  ['an unknown type', [PAYMENT, { type: 'gift' }], 'index 1'],
  ['a type with a name of JavaScript', [{ type: '__proto__' }], 'index 0'],
  ['an unknown property', payment({ to: 'Alan' }), 'payment: there is no property to'],
  ['one within another', amount('1.00', { tip: 1 }), 'there is no property amount.tip'],
  ['one that looks like a path', payment({ 'amount.value': '2.00' }), 'no property amount.value'],
  ['an unknown empty object', payment({ more: {} }), 'there is no property more'],
  ['an empty object', payment({ memo: {} }), 'memo is empty'],
  ['a prototype', '[{"type":"payment","__proto__":{"x":1}}]', 'amount is missing'],
  [
    'a prototype beside it',
    JSON.stringify([PAYMENT]).replace('{', '{"__proto__":{"x":1},'),
    'there is no property __proto__',
  ],
  ['a missing property', [{ ...PAYMENT, creditor: undefined }], 'creditor is missing'],
  ['a value outside its pattern', amount('1e9'), 'amount.value has another format'],
  [
    'a value outside its enum',
    payment({ amount: { value: '1.00', currency: 'BTC' } }),
    'EUR or USD',
  ],
  ['another JSON type', amount(1), 'amount.value must be text'],
  ['null', amount(null), 'amount.value must be text'],
  ['a text for true', payment({ monthly: 'no' }), 'monthly must be true or false'],
  ['a number too large', payment({ limit: 1001 }), 'limit must be at most 1000'],
  ['a number with too many digits', payment({ limit: 1e-9 }), 'limit has too many digits'],
  ['a list for a text', payment({ creditor: ['Grace'] }), 'creditor must be text'],
  ['a value twice', [{ ...STATEMENT, actions: ['list', 'list'] }], 'actions.1 '],
  ['an empty list', [{ ...STATEMENT, actions: [] }], 'actions is empty'],
  ['text too long', payment({ creditor: 'x'.repeat(101) }), 'creditor must have at most 100'],
  ['long text without a limit', payment({ reference: 'x'.repeat(501) }), 'at most 500 characters'],
  ['text that turns round', payment({ creditor: 'Grace\u202egnikcah' }), 'control characters'],
  ['text with nothing to see', payment({ creditor: ' ' }), 'no space at its beginning'],
  ['a line break', payment({ reference: 'a\nb' }), 'line breaks'],
  ['a line separator', payment({ reference: 'a\u2028b' }), 'line breaks'],
  ['a paragraph separator', payment({ reference: 'a\u2029b' }), 'line breaks'],
  ['a run of spaces', payment({ creditor: `Red${' '.repeat(60)}Cross` }), 'two spaces in a row'],
  ['filler characters', payment({ creditor: `Red${'\u3164'.repeat(30)}Cross` }), 'invisible'],
  ['stacked marks', payment({ creditor: `Re${'\u0301'.repeat(9)}d` }), 'combining marks'],
  ['filler in a list', [{ ...STATEMENT, actions: ['\u3164'] }], 'balance or list'],
  ['two equal details', [PAYMENT, { ...PAYMENT }], 'the same authorization details twice'],
  ['eleven', Array.from({ length: 11 }, (_, i) => amount(`${i}.00`)).flat(), 'more than 10'],
  ['long ones', payment({ creditor: 'x'.repeat(4100) }), 'longer than 4096 characters'],
])('%s is refused, and the error says why', async (_, details, reason) => {
  const refused = await pushOutcome(usher, details)
  expect(refused).toMatch(/^400 invalid_authorization_details /)
  expect(refused).toContain(reason)
})

test('100 kB, or deeply nested brackets, are refused without a fault', async () => {
  const deep = (n: number) => `${'['.repeat(n)}${']'.repeat(n)}`
  const objects = (n: number) => `${'{"a":'.repeat(n)}1${'}'.repeat(n)}`
  for (const text of [
    JSON.stringify(payment({ creditor: 'x'.repeat(100_000) })),
    deep(25_000),
    `[{"type":"payment","creditor":${deep(20_000)}}]`,
    `[{"type":"payment","creditor":${objects(6000)}}]`,
    `[{"type":"payment","actions":["${'a","'.repeat(10_000)}"]}]`,
  ]) {
    const { answer } = await push(usher, text)
    expect([answer.status, text.slice(0, 40)]).toEqual([expect.any(Number), text.slice(0, 40)])
    expect(answer.status).toBeGreaterThanOrEqual(400)
    expect(answer.status).toBeLessThan(500)
  }
})

test('deeply nested brackets in a request object are refused without a fault', async () => {
  const part = (text: string) => Buffer.from(text).toString('base64url')
  const ends = { par: 'web', device_authorization: 'tv', backchannel_authentication: 'till' }
  for (const [end, client_id] of Object.entries(ends)) {
    for (const name of ['claims', 'authorization_details']) {
      const deep = `${'['.repeat(9000)}${']'.repeat(9000)}`
      const payload = part(`{"client_id":"${client_id}","${name}":[{"type":${deep}}]}`)
      const request = `${part('{"alg":"none"}')}.${payload}.`
      const form = new URLSearchParams({ client_id, request })
      const headers = {
        'content-type': 'application/x-www-form-urlencoded',
        ...(client_id !== 'tv' && basic(client_id, SECRET)),
      }
      const statuses = []
      for (const body of [form, new Blob([String(form)]).stream()]) {
        const init = { method: 'POST', headers, body, duplex: 'half' } as const
        statuses.push((await fetch(`${usher.issuer}/api/oauth/${end}`, init)).status)
      }
      expect([end, name, ...statuses]).toEqual([end, name, 400, 400])
    }
  }
})
