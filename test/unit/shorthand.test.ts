import { expect, test } from 'vitest'
import { lengthen, shorten } from '../../src/storage/shorthand.ts'

const TOKEN = {
  iat: 1795336114,
  exp: 1795336714,
  accountId: 'usr_b9wnag21p7ptlwjiojpu2tihq0',
  grantId: 'S5lYBa_-1-WZ0f3H1STIhDatxj7LU15mKcuREiwtDvw',
  gty: 'authorization_code',
  clientId: 'web',
  scope: 'openid profile email offline_access',
}

const written = (value: unknown) => shorten(JSON.stringify(value))
const read = (text: string) => JSON.parse(lengthen(text))

test('what is shortened reads back as it was, and is shorter', () => {
  expect(read(written(TOKEN))).toEqual(TOKEN)
  expect(written(TOKEN).length).toBeLessThan(0.7 * JSON.stringify(TOKEN).length)
})

test('a text of any characters reads back as it was', () => {
  const all = String.fromCharCode(...Array.from({ length: 0x2030 }, (_, i) => i))
  const values = [
    { all },
    { [all]: all },
    { text: '\0\u0001"grantId":"\\"iat":\u001f' },
    { nested: [{ openid: 'openid ', 'openid ': { '"exp":': '\\u0000' } }] },
    { lone: '\ud800' },
    [],
    {},
  ]
  for (const value of values) expect(read(written(value))).toEqual(value)
})

test('what was written at length is read all the same', () => {
  expect(read(JSON.stringify(TOKEN))).toEqual(TOKEN)
})

// A phrase that moved would be read as another in every store there is.
test('a record that was written once is read for ever', () => {
  const text =
    '{\u001e1795336114,\u001f1795336714,\bb9wnag21p7ptlwjiojpu2tihq0",\u0014S5lY",\u0002,\u0011web",' +
    '\u0018openid \u001b email \u0010"}'
  const value = { ...TOKEN, grantId: 'S5lY' }
  expect(read(text)).toEqual(value)
  expect(written(value)).toBe(text)
})
