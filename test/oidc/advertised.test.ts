// Discovery against the behaviour: of all existing values, exactly the advertised ones work. A new key
// of discovery needs a row here.

import { decodeJwt, decodeProtectedHeader } from 'jose'
import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { read } from '../support/config-folder.ts'
import { startAnother, usher, usherTest } from '../support/fixtures.ts'
import {
  authorizationRequest,
  authorize,
  post,
  redeem,
  tokens,
  userinfo,
} from '../support/journey.ts'
import { ALGORITHMS, assertion, dpopProof, PUBLIC_JWKS, requestObject } from '../support/signers.ts'
import { ADA, CLIENTS, WEB } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const BACKCHANNEL = {
  backchannel_logout_uri: 'https://app.example.org/signed-out',
  backchannel_logout_session_required: true,
}
const ASSERTION = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
const KEYED = {
  client_id: 'keyed',
  client_name: 'Application with keys',
  redirect_uris: ['https://keyed.example.org/callback'],
  token_endpoint_auth_method: 'private_key_jwt',
  grant_types: ['authorization_code', 'refresh_token', 'client_credentials'],
  jwks: PUBLIC_JWKS,
}

const MODES = [
  'query',
  'form_post',
  'jwt',
  'query.jwt',
  'form_post.jwt',
  'fragment',
  'fragment.jwt',
  'web_message',
]
type Own = { client_id: string; redirect_uri: string }

/** Values that a client chooses: all existing ones, the metadata for it, and whether the client gets it. */
const CHOSEN: Record<
  string,
  [all: string[], metadata: (value: string) => object, works: (own: Own, value: string) => unknown]
> = {
  response_modes_supported: [
    MODES,
    mode => ({ response_modes: [mode] }),
    (own, response_mode) => isTaken({ ...own, response_mode }),
  ],
  id_token_signing_alg_values_supported: [
    ALGORITHMS,
    alg => ({ id_token_signed_response_alg: alg }),
    async (own, alg) => isSignedBy((await tokensOf(own)).id_token, alg),
  ],
  userinfo_signing_alg_values_supported: [
    ALGORITHMS,
    alg => ({ userinfo_signed_response_alg: alg }),
    async (own, alg) => isSignedBy(await textOfUserinfo(own), alg),
  ],
  authorization_signing_alg_values_supported: [
    ALGORITHMS,
    alg => ({ authorization_signed_response_alg: alg, response_modes: ['query', 'jwt'] }),
    async (own, alg) => {
      const { params } = await browser.open(
        authorizationRequest(usher, { ...own, prompt: 'none', response_mode: 'jwt' }).url,
      )
      return isSignedBy(params.get('response'), alg)
    },
  ],
  subject_types_supported: [
    ['public', 'pairwise'],
    subject_type => ({ subject_type }),
    async own => /^usr_/.test(String(decodeJwt((await tokensOf(own)).id_token).sub)),
  ],
}
const isSignedBy = (jwt: unknown, alg: string) => decodeProtectedHeader(String(jwt)).alg === alg
const tokensOf = (own: Own) => tokens(usher, { ...own, browser, scope: 'openid' })

/** A client for each value that the configuration accepts, by the key of discovery and the value. */
const own = new Map<string, string>()
async function clientsOfValues(): Promise<Record<string, object>> {
  const clients: Record<string, object> = {}
  for (const [key, [all, metadata]] of Object.entries(CHOSEN)) {
    for (const [i, value] of all.entries()) {
      const client_id = `${key.replaceAll('_', '-')}-${i}`
      const file = { ...CLIENTS.first, client_id, redirect_uris: [WEB], ...metadata(value) }
      const { findings } = await read({ 'clients/own.yaml': file })
      if (findings.length) continue
      clients[client_id] = file
      own.set(`${key} ${value}`, client_id)
    }
  }
  return clients
}

let browser: Browser
let metadata: Record<string, unknown>
const test = usherTest(async () => {
  const web = { ...CLIENTS.web, ...BACKCHANNEL, require_auth_time: true }
  return { clients: { ...(await clientsOfValues()), ...CLIENTS, web, keyed: KEYED } }
})
test.beforeAll(async () => {
  metadata = (await send(usher, '/.well-known/openid-configuration')).json
  browser = (await tokens(usher)).browser
})

/** Whether the request leads to the sign-in page, and not to an error. */
async function isTaken(params: Record<string, string>): Promise<boolean> {
  const { location } = await send(usher, authorizationRequest(usher, params).url)
  return location?.pathname.startsWith('/interaction/') ?? false
}

/** Whether the client authenticates: the token endpoint then refuses only the unknown code. */
async function isKnown(client_id: string, form: Record<string, string> = {}): Promise<boolean> {
  const asked = { grant_type: 'authorization_code', code: 'unknown', redirect_uri: 'https://x.org' }
  if (client_id !== 'keyed') {
    const own = { ...asked, code_verifier: 'v'.repeat(43), client_id }
    return (await post(usher, '/api/oauth/token', own)).body.error === 'invalid_grant'
  }
  const body = { ...asked, client_id, client_assertion_type: ASSERTION, ...form }
  return (await send(usher, '/api/oauth/token', { body })).json.error === 'invalid_grant'
}

const asserted = async (alg: string) =>
  isKnown('keyed', { client_assertion: await assertion(alg, 'keyed', usher.issuer) })

/** A request by each authentication method. A method that is missing here counts as not working. */
const METHODS: Record<string, () => Promise<boolean>> = {
  none: () => isKnown('spa'),
  client_secret_basic: () => isKnown('web'),
  client_secret_post: () => isKnown('post'),
  private_key_jwt: () => asserted('ES256'),
  client_secret_jwt: () => asserted('HS256'),
}

async function isBound(alg: string): Promise<boolean> {
  const url = `${usher.issuer}/api/oauth/token`
  const ask = async (nonce?: string) => {
    const client_assertion = await assertion('ES256', 'keyed', usher.issuer)
    const own = { client_id: 'keyed', client_assertion, client_assertion_type: ASSERTION }
    const headers = { dpop: await dpopProof(alg, url, nonce) }
    return send(usher, url, { body: { grant_type: 'client_credentials', ...own }, headers })
  }
  const first = await ask()
  const nonce = first.headers.get('dpop-nonce') ?? undefined
  const { json } = first.json.error === 'use_dpop_nonce' ? await ask(nonce) : first
  return json.token_type === 'DPoP'
}

async function isGranted(scope: string): Promise<boolean> {
  const asked = `openid ${scope}`
  const { code, request } = await authorize(usher, { client_id: 'first', browser, scope: asked })
  const { body } = await redeem(usher, code, request)
  return String(body.scope).split(' ').includes(scope)
}

async function isReached(acr_values: string): Promise<boolean> {
  return decodeJwt((await tokens(usher, { browser, acr_values })).id_token).acr === acr_values
}

async function isPrompt(prompt: string): Promise<boolean> {
  const { location } = await send(usher, authorizationRequest(usher, { prompt }).url)
  return location?.searchParams.get('error') !== 'invalid_request'
}

const isGrantType = async (grant_type: string) =>
  (await post(usher, '/api/oauth/token', { grant_type })).body.error !== 'unsupported_grant_type'

async function isLanguage(ui_locales: string): Promise<boolean> {
  const { html } = await new Browser(usher.issuer).open(
    authorizationRequest(usher, { ui_locales }).url,
  )
  return html.querySelector('html')?.getAttribute('lang') === ui_locales
}

const GRANTS = ['authorization_code', 'refresh_token', 'client_credentials', 'password', 'implicit']
const URNS = ['device_code', 'token-exchange', 'jwt-bearer', 'saml2-bearer']

/** For each list: existing values besides the advertised ones, and whether a value works. */
// biome-ignore format: a table
const LISTS: Record<string, [all: string[], works: (value: string) => Promise<boolean>]> = {
  response_types_supported: [['code', 'token', 'id_token', 'none', 'code id_token', 'code token', 'id_token token', 'code id_token token'], response_type => isTaken({ response_type })],
  code_challenge_methods_supported: [['S256', 'plain', 'S512'], code_challenge_method => isTaken({ code_challenge_method })],
  scopes_supported: [['address', 'phone', 'groups'], isGranted],
  grant_types_supported: [[...GRANTS, ...URNS.map(name => `urn:ietf:params:oauth:grant-type:${name}`), 'urn:openid:params:grant-type:ciba'], isGrantType],
  token_endpoint_auth_methods_supported: [['client_secret_jwt', 'tls_client_auth', 'self_signed_tls_client_auth'], async method => (await METHODS[method]?.()) ?? false],
  token_endpoint_auth_signing_alg_values_supported: [ALGORITHMS, asserted],
  request_object_signing_alg_values_supported: [ALGORITHMS, async alg => isTaken({ client_id: 'keyed', redirect_uri: 'https://keyed.example.org/callback', request: await requestObject(alg, 'keyed', usher.issuer) })],
  dpop_signing_alg_values_supported: [ALGORITHMS, isBound],
  acr_values_supported: [['1', '2', 'urn:mace:incommon:iap:silver', 'phr', 'phrh'], isReached],
  prompt_values_supported: [['none', 'login', 'consent', 'select_account', 'create', 'admin'], isPrompt],
  ui_locales_supported: [['sv', 'it', 'nl', 'zh'], isLanguage],
}

async function textOfUserinfo(client: Own): Promise<string> {
  const { access_token } = await tokensOf(client)
  const headers = { authorization: `Bearer ${access_token}` }
  return (await send(usher, '/api/oauth/userinfo', { headers })).text
}

const isNotified = async () => 'sid' in decodeJwt((await tokens(usher, { browser })).id_token)
const CLAIMS = JSON.stringify({ id_token: { name: { essential: true } } })

const SWITCHES: Record<string, () => Promise<boolean>> = {
  async claims_parameter_supported() {
    const minimal = await startAnother({ usher: { id_token: { claims: 'minimal' } } })
    await minimal.addAccount(ADA)
    return 'name' in decodeJwt((await tokens(minimal, { claims: CLAIMS })).id_token)
  },
  request_parameter_supported: async () =>
    isTaken({ client_id: 'keyed', request: await requestObject('ES256', 'keyed', usher.issuer) }),
  request_uri_parameter_supported: () =>
    isTaken({ request_uri: 'https://app.example.org/request' }),
  authorization_response_iss_parameter_supported: async () =>
    (await authorize(usher, { browser })).page.params.get('iss') === usher.issuer,
  backchannel_logout_supported: isNotified,
  backchannel_logout_session_supported: isNotified,
}

test.each(Object.entries(LISTS))(
  'exactly the advertised values of %s work',
  async (key, [all, works]) => {
    const advertised = (metadata[key] ?? []) as string[]
    const working: string[] = []
    for (const value of new Set([...advertised, ...all])) {
      if (await works(value)) working.push(value)
    }
    expect(working.toSorted()).toEqual(advertised.toSorted())
  },
)

test.each(Object.entries(CHOSEN))(
  'exactly the advertised values of %s work for a client that chooses them',
  async (key, [all, , works]) => {
    const working: string[] = []
    for (const value of all) {
      const client_id = own.get(`${key} ${value}`)
      if (client_id && (await works({ client_id, redirect_uri: WEB }, value))) working.push(value)
    }
    expect(working.toSorted()).toEqual((metadata[key] as string[]).toSorted())
  },
)

test.each(Object.entries(SWITCHES))('%s is true', async (key, works) => {
  expect(await works()).toBe(metadata[key] ?? false)
})

test('exactly the claims of claims_supported are returned', async () => {
  const [acr_values] = metadata.acr_values_supported as string[]
  const { access_token, id_token } = await tokens(usher, { acr_values })
  const { body } = await userinfo(usher, access_token)
  const ofTheToken = ['aud', 'exp', 'iat', 'nonce', 'at_hash', 'azp', 'jti']
  const given = Object.keys({ ...decodeJwt(id_token), ...body })
  const claims = new Set(given.filter(name => !ofTheToken.includes(name)))
  expect([...claims].toSorted()).toEqual((metadata.claims_supported as string[]).toSorted())
})

test('every key of discovery is tested here, or is a URL', () => {
  // discovery.test.ts checks the URLs. There is one type of claim.
  const ELSEWHERE = /^issuer$|_endpoint$|^jwks_uri$|^claim_types_supported$|^op_(policy|tos)_uri$/
  const lists = Object.keys({ ...LISTS, ...CHOSEN })
  const walked = new Set([...lists, ...Object.keys(SWITCHES), 'claims_supported'])
  const unknown = Object.keys(metadata).filter(key => !walked.has(key) && !ELSEWHERE.test(key))
  expect(unknown).toEqual([])
})
