// config explain REQUEST_ID compares the parameters of a failed request with the registered ones.

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, vi } from 'vitest'
import { type Explanation, explainFailure } from '../../src/commands/failure.ts'
import { readFolder } from '../../src/config/load.ts'
import { BOUNDS } from '../../src/oidc/bounds.ts'
import { CLOCK_TOLERANCE_SECONDS } from '../../src/oidc/client-jwts.ts'
import { findFailure } from '../../src/operation/failures.ts'
import { now } from '../../src/store/store.ts'
import { required } from '../../src/store/values.ts'
import { APIS, FILES } from '../support/apis.ts'
import { runUsher } from '../support/command.ts'
import { BANKING, PAYMENT } from '../support/details.ts'
import { block } from '../support/documents.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import { temporaryFolder } from '../support/folder.ts'
import { authorizationRequest, authorize, redeem, tokens } from '../support/journey.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { afterSignIn } from '../support/people.ts'
import { claimsFor, PUBLIC_JWKS, signed } from '../support/signers.ts'
import { ADA, CLIENTS, SECRET } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const folder = temporaryFolder()
const store = `sqlite:${join(folder, 'usher.db')}`
const USHER_SECRET = Buffer.alloc(32, 'failures').toString('base64url')
/** A client like `web` with these changes. */
const like = (client_id: string, changes: object) => ({ ...CLIENTS.web, client_id, ...changes })
const scope = 'openid profile'
const WITHOUT_HASHES = { scope, client_secret_hashes: undefined }
const OWN = [
  like('pushing', { require_pushed_authorization_requests: true }),
  like('hybrid', { response_types: ['code id_token'] }),
  like('named', { token_endpoint_auth_method: 'client_secret_basic' }),
  like('narrow', { scope }),
  like('plain', { ...WITHOUT_HASHES, client_secret: SECRET }),
  like('keyed', {
    ...WITHOUT_HASHES,
    token_endpoint_auth_method: 'private_key_jwt',
    jwks: PUBLIC_JWKS,
  }),
]
const test = usherTest({
  ...BANKING,
  usher: { ...BANKING.usher, compatibility: { hybrid: true } },
  store,
  clients: {
    ...APIS.clients,
    ...BANKING.clients,
    ...Object.fromEntries(OWN.map(client => [client.client_id, client])),
    web: { ...BANKING.clients.web, scope: undefined },
  },
  resources: { ...APIS.resources, ...BANKING.resources },
  env: { USHER_SECRET },
})
/** The environment of the commands. */
const env = () => ({ USHER_CONFIG: usher.settings.folder, USHER_STORE: store, USHER_SECRET })

const TOKEN = '/api/oauth/token'
const BASIC = `Basic ${Buffer.from(`web:${SECRET}`).toString('base64')}`
type Sent = Record<string, string | undefined>
type Answer = Pick<Response, 'headers'>

const asking = (params: Sent) =>
  fetch(authorizationRequest(usher, params).url, { redirect: 'manual' })
function posting(form: Record<string, string>, authorization = '', path = TOKEN) {
  const body = new URLSearchParams(form)
  const headers = authorization ? { authorization } : undefined
  return fetch(new URL(path, usher.issuer), { method: 'POST', body, headers })
}

/** A token request with a client assertion. `changes` overrides the claims of a valid one. */
async function asserting(changes: object) {
  const aud = usher.issuer
  const client_assertion = await signed('ES256', { ...claimsFor('keyed', aud), ...changes })
  const client_assertion_type = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
  return posting({ ...code, client_assertion_type, client_assertion })
}

const idOf = ({ headers }: Answer) => headers.get('x-request-id') ?? ''

/** Waits for the record of the failed request, which is written after the response. */
const remembered = (answer: Answer) =>
  vi.waitFor(async () => required(await findFailure(usher.records, idOf(answer))), PATIENCE_MS)

async function explained(answer: Answer): Promise<Explanation> {
  const failure = await remembered(answer)
  const { clients } = await readFolder({ USHER_SECRET }, usher.settings.folder)
  const client = clients.find(({ value }) => value?.client_id === failure.client_id)
  return explainFailure({ failure, client, settings: usher.settings })
}

const callback = 'https://app.example.org/callback'
const code = { grant_type: 'authorization_code', code: 'none-of-ours', redirect_uri: callback }
const CASES: Record<string, [() => Promise<Response>, Partial<Explanation>]> = {
  'a client_id with a slip': [
    () => asking({ client_id: 'pushin' }),
    { wrong: 'no client has this client_id; did you mean pushing?', sent: 'pushin' },
  ],
  'a slash too many': [
    () => asking({ redirect_uri: `${callback}/` }),
    {
      sent: `${callback}/`,
      registered: [callback],
      difference: `${callback} is nearest; the / at the end differs`,
      change: expect.stringMatching(/^redirect_uris in \S+web\.yaml:1, or/),
    },
  ],
  'another host and scheme': [
    () => asking({ redirect_uri: 'http://www.example.org/callback' }),
    {
      difference: expect.stringContaining(
        'the scheme: http: for https:, the host: www.example.org',
      ),
    },
  ],
  'a scope that is not registered': [
    () => asking({ client_id: 'narrow', scope: 'openid email', redirect_uri: callback }),
    {
      wrong: 'the scope is none of those registered for narrow: email',
      registered: ['openid profile'],
    },
  ],
  'an invalid resource': [
    () => asking({ scope: 'openid files:read', resource: `${FILES}/mcp` }),
    {
      wrong: expect.stringContaining('web may not use this resource'),
      sent: `${FILES}/mcp`,
      difference: `${FILES} is nearest; the path: /mcp for / differs`,
      registered: expect.arrayContaining([FILES]),
    },
  ],
  'a resource without a scope of it': [
    () => asking({ scope: 'openid', resource: FILES }),
    { wrong: expect.stringContaining('scope must have a scope of the resource') },
  ],
  'authorization details that are none': [
    () => asking({ client_id: 'spa', authorization_details: '[{"type":"x"}]' }),
    { wrong: expect.stringContaining('unsupported') },
  ],
  'authorization details that have to be pushed': [
    () => asking({ authorization_details: JSON.stringify([PAYMENT]) }),
    { wrong: expect.stringContaining('pushed') },
  ],
  'another response_type': [
    () => asking({ response_type: 'id_token' }),
    { sent: 'id_token', registered: ['code'] },
  ],
  'a response_type of others': [
    () => asking({ response_type: 'id_token code' }),
    { sent: 'code id_token', registered: ['code'] },
  ],
  'tokens by the query': [
    () =>
      asking({
        client_id: 'hybrid',
        response_type: 'code id_token',
        response_mode: 'query',
        redirect_uri: callback,
      }),
    { wrong: expect.stringContaining('response_mode is not allowed') },
  ],
  'no PKCE': [
    () => asking({ code_challenge: undefined, code_challenge_method: undefined }),
    { change: expect.stringContaining('code_challenge is required: this client must use PKCE') },
  ],
  'PKCE in plain': [
    () => asking({ code_challenge_method: 'plain' }),
    { change: expect.stringContaining('code_challenge_method must be S256') },
  ],
  'a request that has to be pushed': [
    () => asking({ client_id: 'pushing', redirect_uri: callback }),
    { wrong: expect.stringContaining('Pushed Authorization Request') },
  ],
  'a secret that is wrong': [
    () => posting(code, `Basic ${Buffer.from('web:wrong').toString('base64')}`),
    {
      wrong: 'the secret is not one that web has',
      change: expect.stringContaining('clients secret web'),
    },
  ],
  'a secret in the body': [
    () => posting({ ...code, client_id: 'named', client_secret: SECRET }),
    { sent: 'client_secret_post', registered: ['client_secret_basic'] },
  ],
  'no secret at all': [
    () => posting({ ...code, client_id: 'web' }),
    { sent: 'none', registered: ['client_secret_basic or client_secret_post'] },
  ],
  'a secret that is wrong, of a client with a plain one': [
    () => posting(code, `Basic ${Buffer.from('plain:wrong').toString('base64')}`),
    { wrong: 'the secret is not one that plain has', registered: ['secrets: 1 for good'] },
  ],
  'an assertion that has expired': [
    () => asserting({ exp: now() - 20 }),
    { wrong: expect.stringMatching(/jwt expired.*Clocks may differ by 15 s/) },
  ],
  'an assertion for another provider': [
    () => asserting({ aud: 'https://other.example.org' }),
    { change: expect.stringContaining('the issuer, the token endpoint') },
  ],
  'a parameter that is too much': [
    () => asking({ scope: 'profile', nonce: 'x', prompt: 'sometimes' }),
    { change: expect.stringMatching(/^prompt must be none, .*; http\S+\/errors#invalid_/) },
  ],
  'no client': [
    () => posting(code),
    { wrong: expect.stringContaining('no client authentication') },
  ],
  'an invalid code': [
    () => posting(code, BASIC),
    { wrong: expect.stringContaining('the code expired') },
  ],
  'a grant_type there is not': [
    () => posting({ grant_type: 'password' }, BASIC),
    { sent: 'password', registered: ['authorization_code', 'refresh_token'] },
  ],
  'a grant_type that the client does not have': [
    () => posting({ grant_type: 'client_credentials' }, BASIC),
    { sent: 'client_credentials', registered: ['authorization_code', 'refresh_token'] },
  ],
  'no redirect_uri with the code': [
    () => posting({ grant_type: 'authorization_code', code: 'none-of-ours' }, BASIC),
    { wrong: expect.stringContaining("'redirect_uri'"), sent: 'grant_type, code' },
  ],
  'an invalid refresh token': [
    () => posting({ grant_type: 'refresh_token', refresh_token: 'none-of-ours' }, BASIC),
    { wrong: expect.stringContaining('it expired (lifetimes.refresh_token') },
  ],
  'an invalid access token': [
    () => posting({}, 'Bearer none-of-ours', '/api/oauth/userinfo'),
    { change: expect.stringContaining('the access token is unknown, expired, revoked') },
  ],
  'an unknown client, after the sign-out': [
    () => fetch(`${usher.issuer}/api/oauth/logout/success?client_id=nowhere`),
    { wrong: expect.stringContaining('no client has this client_id'), sent: 'nowhere' },
  ],
  'a way back that is not registered': [
    () =>
      fetch(
        `${usher.issuer}/api/oauth/logout?client_id=web&post_logout_redirect_uri=https://app.example.org`,
      ),
    { difference: expect.stringContaining('the path: / for /bye differs') },
  ],
}

test.each(Object.entries(CASES))('%s', async (_, [send, explanation]) => {
  expect(await explained(await send())).toMatchObject(explanation)
})

test('the clock tolerance is the one of the documentation', async () => {
  const accepted = await asserting({ exp: now() - CLOCK_TOLERANCE_SECONDS + 5 })
  expect(await accepted.json()).toMatchObject({ error: 'invalid_grant' })
  const refused = await asserting({ exp: now() - CLOCK_TOLERANCE_SECONDS - 1 })
  expect(await refused.json()).toMatchObject({ error: 'invalid_client' })
})

test('a code with a wrong verifier, with another redirect_uri, and a reused code are explained', async () => {
  const { code, request } = await authorize(usher)
  const form = (changes: Record<string, string>) => {
    const { redirect_uri, code_verifier } = request
    return { grant_type: 'authorization_code', code, redirect_uri, code_verifier, ...changes }
  }
  const other = await posting(form({ code_verifier: 'another'.repeat(8) }), BASIC)
  expect((await explained(other)).change).toContain('code_verifier must be the one whose S256')
  const elsewhere = await posting(form({ redirect_uri: `${callback}2` }), BASIC)
  expect((await explained(elsewhere)).change).toContain(
    'redirect_uri must be the one of the authorization request',
  )
  expect((await redeem(usher, code, request)).status).toBe(200)
  expect((await explained(await posting(form({}), BASIC))).wrong).toContain('used before')
})

test('every error page with a reference is explained: expired, misdirected, not found', async () => {
  const get = (path: string, headers = {}) =>
    fetch(new URL(path, usher.issuer), { headers: { accept: 'text/html', ...headers } })
  const expired = await get(`/api/oauth/authorize/${'x'.repeat(21)}`)
  expect(expired.status).toBe(400)
  expect(await expired.text()).toContain(expired.headers.get('x-request-id'))
  expect((await explained(expired)).change).toContain('the user starts again')
  const page = await get(`/interaction/${'x'.repeat(21)}`)
  expect((await explained(page)).change).toContain('the user starts again')
  const lost = await get('/nowhere')
  expect((await explained(lost)).wrong).toBe('nothing has this address')
  expect((await explained(await get('/api/oauth/authorize'))).wrong).toContain('client_id')
  for (const path of ['/', '/api/oauth/token', '/account']) {
    const misdirected = await send(usher, path, { headers: { host: 'other.example' } })
    expect(misdirected.status).toBe(421)
    const { wrong, change } = await explained(misdirected)
    expect(wrong).toBe(
      `the issuer is ${usher.issuer}, and the request is for the host "other.example"`,
    )
    expect(change).toContain('issuer and proxy in usher.yaml')
  }
})

test('a refresh token of another client is explained', async () => {
  const { refresh_token } = await tokens(usher, { client_id: 'web' })
  const form = { grant_type: 'refresh_token', refresh_token }
  const other = await posting(form, `Basic ${Buffer.from(`narrow:${SECRET}`).toString('base64')}`)
  expect(await explained(other)).toMatchObject({ wrong: 'it was issued to another client' })
})

test('no credential of a request is stored', async () => {
  const { access_token } = await tokens(usher)
  const secret = 'canaryX9canaryX9canaryX9'
  const names =
    'state nonce code code_verifier code_challenge client_secret client_assertion refresh_token token request_uri id_token_hint login_hint username password x'
  const values = Object.fromEntries(names.split(' ').map(name => [name, secret]))
  const redirect_uri = `https://me:${secret}@app.example.org/${secret}?key=${secret}`
  const answers = [
    await posting({ ...values, redirect_uri, client_id: secret, scope: secret }),
    await posting({ ...values, token: access_token }, `Basic ${btoa(`${secret}:${secret}`)}`),
    await posting({ grant_type: secret }, `Bearer ${secret}`),
    // A truncated secret would still reveal its beginning.
    ...(await Promise.all(
      [975, 985, 995].map(length => posting({ grant_type: `?x=${'y'.repeat(length)}#${secret}` })),
    )),
    await asking({ ...values, redirect_uri, prompt: secret, resource: `a\u001b[31m${secret}` }),
  ]
  for (const answer of answers) {
    const text = JSON.stringify(await remembered(answer))
    expect(text).not.toContain(secret.slice(0, 4))
    expect(text).not.toContain(access_token)
    expect(text).not.toContain('\\u001b')
    expect(text.length).toBeLessThan(1500)
  }
})

test('the command explains a request by its id, and by its log line', async () => {
  const answer = await asking({ redirect_uri: `${callback}/` })
  await remembered(answer)
  const id = idOf(answer)
  const options = { env: { ...process.env, ...env() } }
  const sh = async (script: string) =>
    (await promisify(execFile)('bash', ['-c', block('usher') + script, '', id], options)).stdout
  expect(await sh(block('explain').replace('f3b07d1c94e2a865', '$1'))).toMatch(
    /^wrong .*\nsent .*callback\/\nregistered .*callback\n/,
  )
  const line = usher.output.find(text => text.includes(id))?.replace(id, 'x')
  const quoted = `usher-1 | ${line?.trim()}`.replaceAll("'", `'\\''`)
  expect(await sh(`echo '${quoted}' | usher config explain -`)).toMatch(
    /^wrong .*\nsent +not known\nregistered .*callback\n/,
  )
})

/** Runs `config explain ID`, or `config explain -` with these lines of a log. */
async function explain(id: string, ...lines: object[]): Promise<string> {
  const input = lines.map(line => JSON.stringify(line)).join('\n')
  return (await runUsher(['config', 'explain', id], env(), input)).stdout
}
const explainLog = (...lines: object[]) => explain('-', ...lines)
/** The lines of the log about a request. */
const logOf = (id: string) =>
  usher.output.filter(text => text.includes(`"${id}"`)).map(text => JSON.parse(text))

test('a failed sign-in is explained by its id, or by its log lines', async () => {
  const ada = await usher.directory.findByUsername(ADA.username)
  const browser = await afterSignIn(usher, ADA.username, 'not her password')
  const id = browser.page.headers.get('x-request-id') ?? ''
  await expect.poll(() => logOf(id)).toHaveLength(2)
  const wrong = await explainLog(...logOf(id))
  expect(wrong).toMatch(/^wrong +the password is wrong\n/)
  expect(wrong).toContain(`accounts password ${ada?.id}\n`)
  const failure = await findFailure(usher.records, id)
  expect(failure).toMatchObject({ endpoint: 'sign-in', status: 400, detail: 'wrong_password' })
  expect(await explain(id)).toBe(wrong)
  const [request, audit] = logOf(id).map(line => ({ ...line, id: 'another' }))
  const reasons: [object, string, string][] = [
    [{ reason: 'unknown', account: undefined }, 'no account has this username', 'accounts list'],
    [{ reason: 'disabled' }, 'the account is disabled', `accounts enable ${ada?.id}`],
    [{ reason: 'no_password' }, 'the account has no password', `accounts password-link ${ada?.id}`],
    [{ reason: 'throttled' }, 'too many attempts', `accounts why ${ada?.id}`],
  ]
  for (const [changes, why, change] of reasons) {
    const text = await explainLog({ ...audit, ...changes }, request)
    expect(text).toContain(why)
    expect(text).toContain(change)
  }
})

test('ignored parts of a request are explained by its id, and by its log line', async () => {
  const answer = await asking({
    scope: 'openid profle files:read',
    audience: 'x',
    acr_values: 'urn:gold',
    claims: JSON.stringify({
      id_token: { shoe_size: null, email: null, acr: null, 'name#de': null },
    }),
  })
  const id = idOf(answer)
  await expect.poll(() => logOf(id)).toHaveLength(1)
  expect(logOf(id)[0]).toMatchObject({
    ignored: 'audience, scope profle, scope files:read, acr_values urn:gold, claim shoe_size',
    scope_ignored: 'profle files:read',
  })
  await expect.poll(() => findFailure(usher.records, id)).toMatchObject({ error: 'ignored' })
  const text = await explainLog(...logOf(id))
  expect(text).toContain('acr_values urn:gold is the acr of no sign-in')
  expect(text).toContain('claim shoe_size is in no claims.yaml')
  expect(text).toMatch(/^wrong +the request succeeded, and a part of it was ignored\n/)
  expect(text).toContain('audience is not supported: send resource (RFC 8707)')
  expect(text).toContain('scope profle is in no file of the folder; did you mean profile?')
  expect(text).toContain(`scope files:read belongs to an API: send resource=${FILES} with it`)
})

test('a client that fails in a loop leaves room for others, and its own requests are explained by the log', async () => {
  const { max } = BOUNDS.failuresOfClient
  const spa = 'https://spa.example.org/callback/'
  const wrong = (client_id: string) => asking({ client_id, redirect_uri: `${callback}/` })
  const isKept = async (answer: Response) => Boolean(await findFailure(usher.records, idOf(answer)))
  const broken = await Promise.all(Array.from({ length: 2 * max }, () => wrong('narrow')))
  const invented = await Promise.all(Array.from({ length: 2 * max }, (_, i) => wrong(`no-${i}`)))
  // Failed requests of earlier tests in the same minute count, too.
  const other = await asking({ client_id: 'spa', redirect_uri: spa })
  expect(await explained(other)).toMatchObject({ sent: spa })
  for (const answers of [broken, invented]) {
    const kept = await Promise.all(answers.map(isKept))
    expect(kept.filter(Boolean).length).toBeLessThanOrEqual(max)
  }
  // The log, too, has a limit for each second: the latest of those that have a line.
  const last = broken.map(idOf).findLast(id => logOf(id).some(line => line.not_kept)) ?? ''
  const [line] = logOf(last)
  expect(line?.not_kept).toMatchObject({ sent: { redirect_uri: `${callback}/` } })
  const text = await explainLog(...logOf(last))
  expect(text).toMatch(/^wrong .*\nsent .*callback\/\n/)
  const minute = /some were not kept, at .*\b\d{4}-\d\d-\d\d \d\d:\d\d.* \(UTC\)/
  const { stderr } = await runUsher(['config', 'explain', last], env())
  expect(stderr).toMatch(minute)
  expect(stderr).toContain(`'"id":"${last}"'`)
})
