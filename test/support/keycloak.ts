// Starts Keycloak, from the folder KEYCLOAK or from Maven, on loopback, with a realm for the tests.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { vi } from 'vitest'
import { freePort } from './ports.ts'
import { type IssuerUnderTest, type Surroundings, USERS } from './upstream-suite.ts'
import { PASSWORD, SECRET } from './usher.ts'

const VERSION = '26.0.8'
const ARTIFACT = `org.keycloak:keycloak-quarkus-dist:${VERSION}:zip`
const NEEDED =
  'This test needs Keycloak: mvn and Java 17 or later, or KEYCLOAK=FOLDER with an unpacked Keycloak 26'
const CACHE = join(import.meta.dirname, '../../node_modules/.cache/keycloak')
/** Sufficient for a busy machine. */
const START_TIMEOUT_MS = 480_000
const REALM = 'example'
const OTP_SECRET = 'a secret for one-time codes'
const ADMIN = { username: 'admin', password: PASSWORD }

/** Keycloak starts Java, which must end with the test process. */
const alive = new Set<ChildProcess>()
process.once('exit', () => alive.forEach(endGroup))

function endGroup({ pid }: ChildProcess) {
  if (pid) process.kill(-pid, 'SIGKILL')
}

/** Returns the folder of Keycloak. The folder from Maven is kept, because its first start takes long. */
function findKeycloak(): string {
  const named = process.env.KEYCLOAK
  const folder = named ?? join(CACHE, `keycloak-${VERSION}`)
  if (existsSync(join(folder, 'bin/kc.sh'))) return folder
  if (named) throw new Error(`${named}/bin/kc.sh was not found. ${NEEDED}`)
  mkdirSync(CACHE, { recursive: true })
  const words = ['-q', 'dependency:unpack', `-Dartifact=${ARTIFACT}`, `-DoutputDirectory=${CACHE}`]
  try {
    execFileSync('mvn', words, { cwd: CACHE, stdio: 'pipe' })
  } catch (error) {
    throw new Error(NEEDED, { cause: error })
  }
  return folder
}

/** Starts Keycloak with TLS and `USERS`. Level 1 is a password, level 2 a one-time code as well. */
export async function startKeycloak(surroundings: Surroundings): Promise<IssuerUnderTest> {
  const { certificate, authority, closing } = surroundings
  const port = await freePort()
  const origin = `https://localhost:${port}`
  const words = [
    ...['start-dev', '--db=dev-mem', '--http-host=127.0.0.1', '--http-enabled=false'],
    ...[`--https-port=${port}`, `--hostname=${origin}`, `--truststore-paths=${authority.cert}`],
    `--https-certificate-file=${certificate.cert}`,
    `--https-certificate-key-file=${certificate.key}`,
  ]
  const child = spawn('sh', [join(findKeycloak(), 'bin/kc.sh'), ...words], {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      // Starts faster with the first compiler only.
      JAVA_OPTS_APPEND: '-XX:TieredStopAtLevel=1',
      KC_BOOTSTRAP_ADMIN_USERNAME: ADMIN.username,
      KC_BOOTSTRAP_ADMIN_PASSWORD: ADMIN.password,
    },
  })
  alive.add(child)
  const exited = once(child, 'exit').finally(() => alive.delete(child))
  closing.defer(() => {
    endGroup(child)
    return exited.then(() => {})
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', data => (output += data))
  const isDecided = () => /Listening on/.test(output) || child.exitCode !== null
  await vi.waitUntil(isDecided, { timeout: START_TIMEOUT_MS }).catch(() => {})
  if (!/Listening on/.test(output)) throw new Error(`Keycloak did not start. ${NEEDED}: ${output}`)

  const admin = administrator(origin)
  await admin('POST', '/realms', realm(surroundings))
  return {
    issuer: `${origin}/realms/${REALM}`,
    acr: '2',
    async signIn({ page }, username) {
      await page.locator('#password').waitFor()
      // A user who signs in again cannot change the name.
      if (await page.locator('#username').isVisible()) await page.fill('#username', username)
      await page.fill('#password', PASSWORD)
      await page.click('#kc-login')
      await page.waitForFunction('!document.querySelector("#kc-form-login")')
      await page.waitForLoadState()
      if (!(await page.locator('#kc-otp-login-form').isVisible())) return
      await page.fill('#otp', oneTimeCode())
      await page.click('#kc-login')
      await page.waitForURL(url => url.origin !== origin)
    },
    signOut: ({ page }) => page.click('#kc-logout'),
    async endSessions(username) {
      const found = await admin('GET', `/realms/${REALM}/users?exact=true&username=${username}`)
      const [user] = (await found.json()) as { id: string }[]
      const path = `/realms/${REALM}/users/${user?.id}/sessions`
      const sessions = (await (await admin('GET', path)).json()) as { id: string }[]
      // The sign-out of a user sends one logout token, with one sid, for several sessions.
      for (const { id } of sessions) await admin('DELETE', `/realms/${REALM}/sessions/${id}`)
    },
  }
}

/** Returns a function that sends requests to the REST API of the administrator. */
const administrator = (origin: string) => async (method: string, path: string, body?: object) => {
  const send = async (url: string, options: RequestInit) => {
    const response = await fetch(`${origin}${url}`, options)
    if (!response.ok) throw new Error(`${url}: ${await response.text()}`)
    return response
  }
  // An access token expires after a minute.
  const granted = await send('/realms/master/protocol/openid-connect/token', {
    method: 'POST',
    body: new URLSearchParams({ grant_type: 'password', client_id: 'admin-cli', ...ADMIN }),
  })
  const { access_token } = (await granted.json()) as { access_token: string }
  return send(`/admin${path}`, {
    method,
    headers: { authorization: `Bearer ${access_token}`, 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  })
}

const realm = ({ redirectUri, signedOutUri, backchannelLogoutUri }: Surroundings) => ({
  realm: REALM,
  enabled: true,
  clients: [
    {
      clientId: 'usher',
      secret: SECRET,
      redirectUris: [redirectUri],
      directAccessGrantsEnabled: false,
      attributes: {
        'post.logout.redirect.uris': signedOutUri,
        'backchannel.logout.url': backchannelLogoutUri,
        'backchannel.logout.session.required': 'true',
      },
      protocolMappers: [
        {
          name: 'groups',
          protocol: 'openid-connect',
          protocolMapper: 'oidc-group-membership-mapper',
          config: { 'claim.name': 'groups', 'full.path': 'false', 'id.token.claim': 'true' },
        },
      ],
    },
  ],
  groups: [{ name: 'staff' }],
  users: USERS.map(({ username, name, email, email_verified }) => ({
    username,
    firstName: name.split(' ')[0],
    lastName: name.split(' ')[1] ?? 'of the example',
    email,
    emailVerified: email_verified,
    enabled: true,
    groups: ['staff'],
    credentials: [
      { type: 'password', value: PASSWORD },
      {
        type: 'otp',
        secretData: JSON.stringify({ value: OTP_SECRET }),
        credentialData: JSON.stringify({
          subType: 'totp',
          digits: 6,
          period: 30,
          algorithm: 'HmacSHA1',
        }),
      },
    ],
  })),
  browserFlow: 'levels',
  authenticationFlows: [
    {
      ...flow('levels', [
        { authenticator: 'auth-cookie', requirement: 'ALTERNATIVE' },
        { flowAlias: 'each level', authenticatorFlow: true, requirement: 'ALTERNATIVE' },
      ]),
      topLevel: true,
    },
    flow('each level', [
      { flowAlias: 'level 1', authenticatorFlow: true, requirement: 'CONDITIONAL' },
      { flowAlias: 'level 2', authenticatorFlow: true, requirement: 'CONDITIONAL' },
    ]),
    level(1, 'auth-username-password-form'),
    level(2, 'auth-otp-form'),
  ],
  authenticatorConfig: [1, 2].map(number => ({
    alias: `level ${number}`,
    config: { 'loa-condition-level': String(number), 'loa-max-age': '36000' },
  })),
})

const flow = (alias: string, authenticationExecutions: object[]) => ({
  alias,
  providerId: 'basic-flow',
  topLevel: false,
  authenticationExecutions: authenticationExecutions.map((execution, priority) => {
    return { ...execution, priority }
  }),
})

const level = (number: number, authenticator: string) =>
  flow(`level ${number}`, [
    {
      authenticator: 'conditional-level-of-authentication',
      authenticatorConfig: `level ${number}`,
      requirement: 'REQUIRED',
    },
    { authenticator, requirement: 'REQUIRED' },
  ])

/** Returns the current TOTP code (RFC 6238). */
function oneTimeCode(): string {
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000)))
  const mac = createHmac('sha1', OTP_SECRET).update(counter).digest()
  const code = mac.readUInt32BE((mac.at(-1) ?? 0) & 15) & 0x7fffffff
  return String(code).slice(-6).padStart(6, '0')
}
