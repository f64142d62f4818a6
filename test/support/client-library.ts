// Authorization code flows of openid-client through the browser emulator.

import * as openid from 'openid-client'
import { Browser } from './browser.ts'
import { signInAndAllow } from './journey.ts'
import { SECRET, type Usher } from './usher.ts'

/** Discovers an Usher. The files of test/clients have another openid-client, which does not take the result. */
export async function configurationOf(
  { issuer }: { issuer: string },
  client_id: string,
  metadata: Partial<openid.ClientMetadata> = {},
  authentication = openid.ClientSecretBasic(SECRET),
): Promise<openid.Configuration> {
  return openid.discovery(new URL(issuer), client_id, metadata, authentication, {
    execute: [openid.allowInsecureRequests],
  })
}

/** Parameters of an authorization request of openid-client, and the checks of its response. */
export async function newRequest(params: Record<string, string> = {}) {
  const pkceCodeVerifier = openid.randomPKCECodeVerifier()
  const [state, nonce] = [openid.randomState(), openid.randomNonce()]
  return {
    params: {
      scope: 'openid profile email',
      state,
      nonce,
      code_challenge: await openid.calculatePKCECodeChallenge(pkceCodeVerifier),
      code_challenge_method: 'S256',
      ...params,
    },
    checks: { pkceCodeVerifier, expectedState: state, expectedNonce: nonce },
  }
}

/** Signs Ada in and allows the request. Returns the URL of the authorization response. */
export async function follow(usher: Usher, url: URL, browser = new Browser(usher.issuer)) {
  await browser.open(url)
  const page = await signInAndAllow(browser, 'ada')
  if (page.ours) throw new Error(`no response: "${browser.heading}" ${page.text.slice(0, 2000)}`)
  return page.url
}

/** Signs Ada in, and returns the tokens that openid-client accepted. */
export async function signInWith(
  usher: Usher,
  config: openid.Configuration,
  params: Record<string, string>,
) {
  const request = await newRequest(params)
  const answer = await follow(usher, openid.buildAuthorizationUrl(config, request.params))
  return openid.authorizationCodeGrant(config, answer, request.checks)
}
