// A second Usher as upstream issuer, in Chromium, both with TLS.

import { PASSWORD_ACR } from '../../src/oidc/vocabulary.ts'
import { freePort } from '../support/ports.ts'
import { DOWNSTREAM } from '../support/upstream.ts'
import { startTlsUsher, USERS, upstreamSuite } from '../support/upstream-suite.ts'
import { CLAIMS, PASSWORD } from '../support/usher.ts'

upstreamSuite(async surroundings => {
  // Cookies do not depend on the port, so the two need different hosts.
  const place = { name: 'central', host: '127.0.0.1', port: await freePort() }
  const { redirectUri, signedOutUri, backchannelLogoutUri } = surroundings
  const client = {
    ...DOWNSTREAM,
    application_type: 'web',
    redirect_uris: [redirectUri],
    post_logout_redirect_uris: [signedOutUri],
    backchannel_logout_uri: backchannelLogoutUri,
    backchannel_logout_session_required: true,
  }
  const users = USERS.map(user => ({ ...user, attributes: { groups: ['staff'] } }))
  const config = {
    claims: {
      claims: { ...CLAIMS.claims, groups: { scope: 'profile', from: 'attributes.groups' } },
    },
    clients: { usher: client },
    usher: { features: { backchannel_logout: true }, egress: { allow: ['localhost'] } },
  }
  const central = await startTlsUsher(surroundings, place, config, users)
  return {
    issuer: central.issuer,
    acr: PASSWORD_ACR,
    async signIn({ page }, username) {
      await page.getByLabel('Username').fill(username)
      await page.getByLabel('Password').fill(PASSWORD)
      await page.getByRole('button', { name: 'Sign in', exact: true }).click()
      await page.waitForURL(url => url.origin !== central.issuer)
    },
    signOut: visit => visit.button('Sign out').click(),
    endSessions: username => central.usher(['sessions', 'end', username]).then(() => {}),
  }
})
