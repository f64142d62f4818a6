// Ada at the application `web`: each family of tokens is a sign-in of its own.

import { Browser } from '../support/browser.ts'
import { authorizationRequest, redeem, signInAndAllow } from '../support/journey.ts'

export async function signIn(issuer: string, count: number) {
  const scope = 'openid profile offline_access'
  const families: { id_token: string; refresh_token: string }[] = []
  while (families.length < count) {
    const request = authorizationRequest({ issuer }, { scope })
    const browser = new Browser(issuer)
    await browser.open(request.url)
    const { params } = await signInAndAllow(browser, 'ada')
    const { body } = await redeem({ issuer }, params.get('code') ?? '', request)
    families.push(body)
  }
  return families
}
