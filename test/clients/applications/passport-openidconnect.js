import express from 'express'
import session from 'express-session'
import passport from 'passport'
import { Strategy } from 'passport-openidconnect'

const issuer = 'http://localhost:3000'
passport.use(
  new Strategy(
    {
      issuer,
      authorizationURL: `${issuer}/api/oauth/authorize`,
      tokenURL: `${issuer}/api/oauth/token`,
      userInfoURL: `${issuer}/api/oauth/userinfo`,
      clientID: 'application',
      clientSecret: 'a-secret-for-development',
      callbackURL: 'http://localhost:4000/callback',
      scope: ['profile', 'email'],
    },
    (_issuer, profile, done) => done(null, profile),
  ),
)
passport.serializeUser((user, done) => done(null, user))
passport.deserializeUser((user, done) => done(null, user))

const app = express()
app.use(session({ secret: 'of this application', resave: false, saveUninitialized: false }))
app.use(passport.session())
app.get('/sign-in', passport.authenticate('openidconnect'))
app.get('/callback', passport.authenticate('openidconnect', { successRedirect: '/me' }))
app.get('/me', ({ user }, res) => res.json({ sub: user.id, name: user.displayName }))
app.listen(4000)
