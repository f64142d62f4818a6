import { createHash, randomBytes } from 'node:crypto'
import express from 'express'
import { AuthorizationCode } from 'simple-oauth2'

const issuer = 'http://localhost:3000'
const client = new AuthorizationCode({
  client: { id: 'application', secret: 'a-secret-for-development' },
  auth: {
    tokenHost: issuer,
    tokenPath: '/api/oauth/token',
    revokePath: '/api/oauth/revoke',
    authorizePath: '/api/oauth/authorize',
  },
})
const redirect_uri = 'http://localhost:4000/callback'
const code_verifier = randomBytes(32).toString('base64url')

const app = express()
app.get('/sign-in', (_req, res) =>
  res.redirect(
    client.authorizeURL({
      redirect_uri,
      scope: 'openid profile offline_access',
      state: 'state',
      code_challenge: createHash('sha256').update(code_verifier).digest('base64url'),
      code_challenge_method: 'S256',
    }),
  ),
)
app.get('/callback', async (req, res) => {
  const first = await client.getToken({ code: req.query.code, redirect_uri, code_verifier })
  const renewed = await first.refresh()
  const claims = await (await userinfo(renewed)).json()
  await renewed.revokeAll()
  res.json({ ...claims, afterwards: (await userinfo(renewed)).status })
})
app.listen(4000)

const userinfo = ({ token }) =>
  fetch(`${issuer}/api/oauth/userinfo`, {
    headers: { authorization: `Bearer ${token.access_token}` },
  })
