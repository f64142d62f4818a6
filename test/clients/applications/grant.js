import express from 'express'
import session from 'express-session'
import grant from 'grant'

const issuer = 'http://localhost:3000'
const app = express()
app.use(session({ secret: 'of this application', resave: false, saveUninitialized: true }))
app.use(
  grant.express({
    defaults: { origin: 'http://localhost:4000', transport: 'session' },
    usher: {
      oauth: 2,
      authorize_url: `${issuer}/api/oauth/authorize`,
      access_url: `${issuer}/api/oauth/token`,
      profile_url: `${issuer}/api/oauth/userinfo`,
      key: 'application',
      secret: 'a-secret-for-development',
      token_endpoint_auth_method: 'client_secret_basic',
      scope: ['openid', 'profile', 'email'],
      scope_delimiter: ' ',
      state: true,
      nonce: true,
      pkce: true,
      response: ['tokens', 'jwt', 'profile'],
      redirect_uri: 'http://localhost:4000/connect/usher/callback',
      callback: '/me',
    },
  }),
)
app.get('/sign-in', (_req, res) => res.redirect('/connect/usher'))
app.get('/me', (req, res) => {
  const { profile, jwt } = req.session.grant.response
  res.json({ ...profile, sub: jwt.id_token.payload.sub })
})
app.listen(4000)
