// Authorization details that are none: what is refused, and what a developer reads of it.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { asker } from '../support/asking.ts'
import { BANKING, PAYMENT, push, refusal, STATEMENT } from '../support/details.ts'
import { SECRET, startUsher, type Usher } from '../support/usher.ts'
import { basic } from '../support/wire.ts'

let usher: Usher
beforeAll(async () => {
  const features = { ...BANKING.usher.features, ciba: true }
  const clients = { ...BANKING.clients, till: asker('till') }
  usher = await startUsher({ ...BANKING, clients, usher: { features } })
})
afterAll(() => usher.close())

const payment = (changes: object) => [{ ...PAYMENT, ...changes }]
const amount = (value: unknown, more: object = {}) =>
  payment({ amount: { value, currency: 'EUR', ...more } })

test.each<[string, unknown, string]>([
  ['no JSON', '[{', 'could not parse'],
  ['no list', PAYMENT, 'JSON array'],
  ['no type', [{ creditor: 'Grace' }], 'index 0'],
  ['a type that is none', [PAYMENT, { type: 'gift' }], 'index 1'],
  ['a type with a name of JavaScript', [{ type: '__proto__' }], 'index 0'],
  ['an unknown field', payment({ to: 'Alan' }), 'payment: there is no field to'],
  ['one within another', amount('1.00', { tip: 1 }), 'there is no field amount.tip'],
  ['one that looks like a path', payment({ 'amount.value': '2.00' }), 'no field amount?value'],
  ['an empty object', payment({ memo: {} }), 'there is no field memo'],
  ['a prototype', '[{"type":"payment","__proto__":{"x":1}}]', 'there is no field __proto__.x'],
  ['a field that is missing', [{ ...PAYMENT, creditor: undefined }], 'creditor is missing'],
  ['another form', amount('1e9'), 'amount.value is not of the form'],
  ['another value', payment({ amount: { value: '1.00', currency: 'BTC' } }), 'one of EUR, USD'],
  ['another kind', amount(1), 'amount.value is a text'],
  ['null', amount(null), 'amount.value is a text'],
  ['a text for true', payment({ monthly: 'no' }), 'monthly is true or false'],
  ['a number too large', payment({ limit: 1001 }), 'limit is at most 1000'],
  ['a number nobody could read', payment({ limit: 1e-9 }), 'limit is a number'],
  ['a list too many', payment({ creditor: ['Grace'] }), 'creditor is a text'],
  ['a value twice', [{ ...STATEMENT, actions: ['list', 'list'] }], 'actions has a value twice'],
  ['an empty list', [{ ...STATEMENT, actions: [] }], 'actions is a list of 1 to 20'],
  ['text too long', payment({ creditor: 'x'.repeat(101) }), 'longer than 100 characters'],
  ['text that turns round', payment({ creditor: 'Grace\u202egnikcah' }), 'control characters'],
  ['text with nothing to see', payment({ creditor: ' ' }), 'spaces at its ends'],
  ['a line break', payment({ reference: 'a\nb' }), 'control characters'],
  ['the same twice', [PAYMENT, { ...PAYMENT }], 'the same authorization details twice'],
  ['eleven', Array.from({ length: 11 }, (_, i) => amount(`${i}.00`)).flat(), 'more than 10'],
  ['long ones', payment({ creditor: 'x'.repeat(4100) }), 'longer than 4096 characters'],
])('OT5: %s is refused, and said', async (_, details, reason) => {
  const said = await refusal(usher, details)
  expect(said).toMatch(/^400 invalid_authorization_details /)
  expect(said).toContain(reason)
})

test('AZ13: 100 kB, or brackets without end, are an answer and no fault', async () => {
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

test('AZ13: nor are they in a request object, however it is sent', async () => {
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
      expect([end, name, ...statuses]).toEqual([end, name, 413, 411])
    }
  }
})
