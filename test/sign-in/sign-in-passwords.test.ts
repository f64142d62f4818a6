import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { test, usher } from '../support/fixtures.ts'
import { credentials } from '../support/people.ts'
import { ADA } from '../support/usher.ts'

let users = 0
async function userWith(password: string): Promise<string> {
  const username = `ada-${++users}`
  await usher.addAccount({ ...ADA, username }, password)
  return username
}

async function outcome(username: string, password: string): Promise<string> {
  const browser = new Browser(usher.issuer)
  await browser.open('/account')
  await browser.submit(credentials(username, password))
  return browser.heading
}

const LONG = 'a'.repeat(100)
const ACCEPTED: Record<string, string> = {
  'of twelve letters': 'twelve letters'.slice(0, 12),
  'of 1024 bytes': 'ü'.repeat(512),
  'of 72 bytes and more': LONG,
  'with spaces at its ends': '  two spaces, two spaces  ',
  'of other scripts': 'пароль密码كلمة',
  'of emoji': '👩‍💻👩‍💻👩‍💻',
  'with everything that means something in HTML and forms': `<a href="?x=1&y=+%20">'"\\;`,
  'with control characters': 'tab\tand\u0007bell and \u0000nul',
}

test.for(Object.entries(ACCEPTED))('a password %s signs in', async ([, password]) => {
  const username = await userWith(password)
  expect(await outcome(username, password)).toBe('Your account')
})

test('no byte of a password is cut off', async () => {
  const username = await userWith(`${LONG}x`)
  const spaced = await userWith('  two spaces, two spaces  ')
  const withNul = await userWith('before the nul\u0000after it')
  const outcomes = await Promise.all([
    outcome(username, LONG),
    outcome(username, `${LONG}y`),
    outcome(username, `${LONG}xx`),
    outcome(spaced, 'two spaces, two spaces'),
    outcome(withNul, 'before the nul'),
  ])
  expect(outcomes).toEqual(Array(5).fill('Sign in'))
})

test('composed and decomposed letters of a password are equal', async () => {
  const username = await userWith('Pässwörter über alles'.normalize('NFC'))
  expect(await outcome(username, 'Pässwörter über alles'.normalize('NFD'))).toBe('Your account')
  expect(await outcome(username, 'Passworter uber alles')).toBe('Sign in')
})

test('a password beyond 1024 bytes fails like a wrong one, also for its owner', async () => {
  const username = await userWith('b'.repeat(1025))
  expect(await outcome(username, 'b'.repeat(1025))).toBe('Sign in')
  expect(await outcome(username, 'b'.repeat(10_000))).toBe('Sign in')
})

test('a hash with weaker parameters is replaced when its owner signs in', async () => {
  const username = await userWith('a password of its time')
  const account = await usher.directory.findByUsername(username)
  const { hash } = await import('@node-rs/argon2')
  const weak = await hash('a password of its time', { memoryCost: 8192, timeCost: 1 })
  await usher.directory.change(account?.id ?? '', found => ({ ...found, password: weak }))
  expect(await outcome(username, 'not the password')).toBe('Sign in')
  expect((await usher.directory.findByUsername(username))?.password).toBe(weak)
  expect(await outcome(username, 'a password of its time')).toBe('Your account')
  const rehashed = (await usher.directory.findByUsername(username))?.password
  const [, memory, time] = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=1\$/.exec(rehashed ?? '') ?? []
  expect(Number(memory)).toBeGreaterThanOrEqual(19_456)
  expect(Number(time)).toBeGreaterThanOrEqual(2)
  expect(await outcome(username, 'a password of its time')).toBe('Your account')
})
