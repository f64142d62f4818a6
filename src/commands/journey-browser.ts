// The browser of the doctor's journey: it keeps cookies, signs in, and ends with a code.

import { createHash, randomBytes } from 'node:crypto'
import type { Check } from '../storage/store.ts'
import { Obstacle, ok, wrong } from './verdicts.ts'

/** Nothing is ever sent there: the code is read from the redirect. */
export const REDIRECT_URI = 'https://doctor.invalid/callback'
/** Milliseconds for an answer. */
export const PATIENCE = 5_000

type Browser = ReturnType<typeof createBrowser>

/** Keeps cookies, and follows redirects below the issuer. */
export function createBrowser(issuer: string) {
  const cookies = new Map<string, string>()
  const seen: string[] = []

  async function go(url: URL, form?: Record<string, string>): Promise<{ url: URL; page: string }> {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const response = await fetch(url, {
      headers: { accept: 'text/html', cookie },
      ...(form && { method: 'POST', body: new URLSearchParams(form) }),
      redirect: 'manual',
      signal: AbortSignal.timeout(PATIENCE),
    })
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      seen.push(line)
      cookies.set(name, value)
    }
    const page = await response.text()
    const [, refresh] = /content="0;url=([^"]*)"/.exec(page) ?? []
    const next = response.headers.get('location') ?? refresh?.replaceAll('&amp;', '&')
    if (!next) return { url, page }
    const target = new URL(next, url)
    return target.origin === issuer ? go(target) : { url: target, page }
  }
  return { go, seen }
}

/** A code, with what redeems it. */
export async function authorize(
  browser: Browser,
  { authorization_endpoint }: Record<string, string>,
  name: string,
  password: string,
) {
  const code_verifier = randomBytes(32).toString('base64url')
  const url = new URL(authorization_endpoint ?? '')
  url.search = new URLSearchParams({
    client_id: name,
    response_type: 'code',
    redirect_uri: REDIRECT_URI,
    scope: 'openid offline_access',
    code_challenge: createHash('sha256').update(code_verifier).digest('base64url'),
    code_challenge_method: 'S256',
  }).toString()
  const signIn = await browser.go(url)
  const [, csrf = ''] = /name="csrf" value="([^"]*)"/.exec(signIn.page) ?? []
  if (!csrf) {
    const found = `there is no sign-in page at ${signIn.url.pathname}`
    throw new Obstacle(wrong('sign-in', found, 'the service may use another store: USHER_STORE'))
  }
  const form = { csrf, username: name, password, decision: 'continue' }
  const { url: back } = await browser.go(signIn.url, form)
  const code = back.searchParams.get('code')
  if (code) return { code, code_verifier }
  const error = back.searchParams.get('error') ?? `it ends at ${back.pathname}`
  throw new Obstacle(wrong('sign-in', `no code comes of it: ${error}`))
}

/** As they arrive, whatever a proxy has made of them (SE1). */
export function examineCookies({ seen }: Browser, issuer: string): Check {
  const wanted = ['HttpOnly', 'SameSite=Lax', ...(issuer.startsWith('https:') ? ['Secure'] : [])]
  const set = seen.filter(line => !/^[^=]+=;/.test(line))
  const lacks = wanted.filter(
    flag => !set.every(line => new RegExp(`;\\s*${flag}`, 'i').test(line)),
  )
  if (!lacks.length) return ok('cookies', wanted.join(', '))
  const mend = 'the reverse proxy must not rewrite Set-Cookie'
  return wrong('cookies', `arrive without ${lacks.join(', ')}`, mend)
}
