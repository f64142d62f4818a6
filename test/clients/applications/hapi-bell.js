import bell from '@hapi/bell'
import hapi from '@hapi/hapi'

const issuer = 'http://localhost:3000'
const server = hapi.server({ port: 4000, host: 'localhost' })
await server.register(bell)
server.auth.strategy('usher', 'bell', {
  provider: {
    name: 'usher',
    protocol: 'oauth2',
    useParamsAuth: false,
    auth: `${issuer}/api/oauth/authorize`,
    token: `${issuer}/api/oauth/token`,
    scope: ['openid', 'profile', 'email'],
    scopeSeparator: ' ',
    pkce: 'S256',
    async profile(credentials, _params, get) {
      credentials.profile = await get(`${issuer}/api/oauth/userinfo`)
    },
  },
  password: 'seals the cookies of this application',
  clientId: 'application',
  clientSecret: 'a-secret-for-development',
  isSecure: false,
  location: 'http://localhost:4000',
})
server.route({
  method: 'GET',
  path: '/sign-in',
  options: { auth: 'usher', handler: ({ auth }) => auth.credentials.profile },
})
await server.start()
