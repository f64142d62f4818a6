import * as arctic from 'arctic'
import express from 'express'

const issuer = 'http://localhost:3000'
const token = `${issuer}/api/oauth/token`
const client = new arctic.OAuth2Client(
  'application',
  'a-secret-for-development',
  'http://localhost:4000/callback',
)
const scopes = ['openid', 'profile', 'offline_access']
const verifier = arctic.generateCodeVerifier()

const app = express()
app.get('/sign-in', (_req, res) => {
  const { S256 } = arctic.CodeChallengeMethod
  const endpoint = `${issuer}/api/oauth/authorize`
  const state = arctic.generateState()
  res.redirect(client.createAuthorizationURLWithPKCE(endpoint, state, S256, verifier, scopes).href)
})
app.get('/callback', async (req, res) => {
  const first = await client.validateAuthorizationCode(token, req.query.code, verifier)
  const { sub, name } = arctic.decodeIdToken(first.idToken())
  const renewed = await client.refreshAccessToken(token, first.refreshToken(), scopes)
  await client.revokeToken(`${issuer}/api/oauth/revoke`, renewed.refreshToken())
  const headers = { authorization: `Bearer ${renewed.accessToken()}` }
  const { status } = await fetch(`${issuer}/api/oauth/userinfo`, { headers })
  res.json({ sub, name, afterwards: status })
})
app.listen(4000)
