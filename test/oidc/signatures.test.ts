import { createHmac } from 'node:crypto'
import { createServer } from 'node:http'
import Koa from 'koa'
import { expect, onTestFinished, test } from 'vitest'
import { createSignatures } from '../../src/oidc/browser.ts'
import { listen } from '../support/ports.ts'

const [older, newer, foreign] = ['older', 'newer', 'foreign'].map(text => Buffer.alloc(32, text))

/** Whether a service with these secrets accepts a cookie, and the signature that it sets, if any. */
async function ask(secrets: (Buffer | undefined)[], cookie: string) {
  const app = new Koa()
  app.keys = createSignatures(secrets.filter(secret => secret !== undefined))
  app.use(ctx => {
    if (!cookie) ctx.cookies.set('who', 'ada', { signed: true })
    ctx.body = { who: ctx.cookies.get('who', { signed: true }) }
  })
  const server = createServer(app.callback())
  const port = await listen(server)
  onTestFinished(() => void server.close())
  const answer = await fetch(`http://127.0.0.1:${port}/`, { headers: { cookie } })
  const { who } = (await answer.json()) as { who?: string }
  const signature = answer.headers
    .getSetCookie()
    .map(set => set.match(/^who\.sig=([^;]*)/)?.[1])
    .find(found => found !== undefined)
  return { who, signature }
}

const signedWith = async (secret: Buffer | undefined) => (await ask([secret], '')).signature ?? ''

test('a cookie with the signature of an older secret is accepted, and signed with the first secret', async () => {
  const [old, own] = [await signedWith(older), await signedWith(newer)]
  expect(old).not.toBe(own)
  expect(await ask([newer, older], `who=ada; who.sig=${old}`)).toEqual({
    who: 'ada',
    signature: own,
  })
  expect(await ask([newer, older], `who=ada; who.sig=${own}`)).toEqual({ who: 'ada' })
})

test('a cookie without a valid signature is ignored, and its signature is removed', async () => {
  const own = await signedWith(newer)
  const others = [await signedWith(foreign), own.slice(0, -1), `${own}A`, 'é', own.toUpperCase()]
  for (const signature of others) {
    const cookie = encodeURI(`who=ada; who.sig=${signature}`).replaceAll('%20', ' ')
    expect(await ask([newer, older], cookie)).toEqual({ signature: '' })
  }
  expect(await ask([newer], `who=eve; who.sig=${own}`)).toEqual({ signature: '' })
  expect(await ask([newer], `who=ada; who.sig=`)).toEqual({})
})

test('a signature is HMAC-SHA256 as base64url, and the second secret verifies it too', () => {
  const [first, second] = [Buffer.alloc(32, 'a'), Buffer.alloc(32, 'b')]
  const key = second.toString('base64url')
  const expected = createHmac('sha256', key).update('x=y').digest('base64url')
  expect(createSignatures([second]).sign('x=y')).toBe(expected)
  expect(createSignatures([first, second]).index('x=y', expected)).toBe(1)
  expect(createSignatures([first]).verify('x=y', expected)).toBe(false)
})

test('signatures need a secret', () => {
  expect(() => createSignatures([])).toThrow('signatures need a secret')
})
