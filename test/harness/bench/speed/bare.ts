// The library alone, as a process, with PORT and ISSUER in the environment. `node bare.ts` stores in a map,
// `node bare.ts REDIS` in Redis. The user in login_hint is signed in and allows everything, without a page.

import { createServer } from 'node:http'
import { Redis } from 'ioredis'
import { type AccountClaims, Provider } from 'oidc-provider'
import { makeKey } from '../../../../src/operation/signing-keys.ts'
import { createClassicAdapter, createMapAdapter } from './adapters.ts'
import { CLIENT, LIFETIME_SECONDS, OFFLINE, SECRET } from './client.ts'

const { PORT, ISSUER = '' } = process.env
const [, , redis] = process.argv

const claims = (sub: string): AccountClaims => ({
  sub,
  preferred_username: sub,
  name: sub,
  email: `${sub}@example.org`,
  email_verified: true,
})

const provider = new Provider(ISSUER, {
  adapter: redis
    ? createClassicAdapter(new Redis(redis, { keyPrefix: 'oidc:' }))
    : createMapAdapter(),
  clients: [{ ...CLIENT, client_secret: SECRET }],
  jwks: { keys: [await makeKey('RS256')] },
  cookies: { keys: ['keys-of-the-bare-library'] },
  scopes: ['openid', 'offline_access'],
  claims: { profile: ['preferred_username', 'name'], email: ['email', 'email_verified'] },
  conformIdTokenClaims: false,
  findAccount: (_ctx, accountId) => ({ accountId, claims: () => claims(accountId) }),
  rotateRefreshToken: true,
  interactions: { url: (_ctx, { uid }) => `/interaction/${uid}` },
  ttl: {
    AccessToken: LIFETIME_SECONDS,
    AuthorizationCode: 60,
    ClientCredentials: LIFETIME_SECONDS,
    Grant: 86_400,
    IdToken: LIFETIME_SECONDS,
    Interaction: 900,
    RefreshToken: 86_400,
    Session: 86_400,
  },
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    introspection: { enabled: true },
  },
})

provider.use(async (ctx, next) => {
  if (!ctx.path.startsWith('/interaction/')) return next()
  const { params } = await provider.interactionDetails(ctx.req, ctx.res)
  const accountId = String(params.login_hint)
  const grant = new provider.Grant({ accountId, clientId: CLIENT.client_id })
  grant.addOIDCScope(OFFLINE)
  const result = { login: { accountId }, consent: { grantId: await grant.save() } }
  ctx.redirect(await provider.interactionResult(ctx.req, ctx.res, result))
})

createServer(provider.callback()).listen(Number(PORT), '127.0.0.1', () =>
  process.stderr.write(`The library is ready at ${ISSUER}\n`),
)
process.on('SIGTERM', () => process.exit(0))
