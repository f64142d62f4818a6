// Sign-ins of a user at the client `web`. Each sign-in gives a token family of its own.

import { Browser } from './browser.ts'
import { type Answer, authorizationRequest, redeem, signInAndAllow } from './journey.ts'
import type { Service } from './service.ts'

export async function signIn(issuer: string, count: number, username = 'ada', password?: string) {
  const scope = 'openid profile offline_access'
  const families: Answer['body'][] = []
  while (families.length < count) {
    const request = authorizationRequest({ issuer }, { scope })
    const browser = new Browser(issuer)
    await browser.open(request.url)
    const { params } = await signInAndAllow(browser, username, password)
    families.push((await redeem({ issuer }, params.get('code') ?? '', request)).body)
  }
  return families
}

/** Signs in the demo user. A service creates it in an empty store, and logs its password once. */
export function signInDemo({ issuer, stderr }: Pick<Service, 'issuer' | 'stderr'>, count: number) {
  return signIn(issuer, count, 'demo', /the password (\S+)/.exec(stderr())?.[1])
}
