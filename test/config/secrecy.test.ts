// A report shows the invalid key with its value, but no secret: no value of a key for secrets, of an
// unknown key, or of a file that is not YAML, and no value that looks random.

import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { differences } from '../../src/config/diff.ts'
import { COMPLETE, client, type Files, read } from '../support/config-folder.ts'

const CANARY = 'CANARY1815'

/** Formats in which a secret may be in a file by mistake. Most are errors for the YAML parser. */
const VALUES = [
  CANARY,
  `"${CANARY}"`,
  `"${CANARY}`,
  `'${CANARY}`,
  `"${CANARY}\\q"`,
  `!${CANARY}`,
  `!!${CANARY} x`,
  `!<${CANARY}>`,
  `!x!${CANARY} x`,
  `|${CANARY}`,
  `>-${CANARY}`,
  `*${CANARY}`,
  `&${CANARY} x`,
  `%${CANARY}`,
  `@${CANARY}`,
  `\`${CANARY}`,
  `[${CANARY}`,
  `]${CANARY}`,
  `{${CANARY}`,
  `}${CANARY}`,
  `, ${CANARY}`,
  `- ${CANARY}`,
  `? ${CANARY}`,
  `"x" ${CANARY}`,
  `x: ${CANARY}`,
  `|\n${CANARY}`,
  `x\n${CANARY}`,
  `[${CANARY}, [${CANARY}]]`,
  `{ x: ${CANARY} }`,
]

const shown = async (files: Files, env: Record<string, string> = {}) => {
  const { findings, text } = await read(files, env)
  expect(findings).not.toEqual([])
  return text
}

test.each(VALUES)('client_secret: %s is refused and not shown', async value => {
  const text = `client_id: web\nclient_secret: ${value}\nclient_name: Web\nextra: 1\n`
  expect(await shown({ 'clients/web.yaml': text })).not.toContain(CANARY)
})

test.each(VALUES)('store: %s is refused and not shown', async value => {
  expect(await shown({ 'usher.yaml': `store: ${value}\n` })).not.toContain(CANARY)
})

test.each([`%${CANARY}\n---\n`, `${CANARY}\n`, `--- ${CANARY}\n`, `%YAML ${CANARY}\n---\n`])(
  'a file that holds nothing but %j is refused and not shown',
  async text => {
    expect(await shown({ 'usher.yaml': text, 'clients/web.yaml': text })).not.toContain(CANARY)
  },
)

const RANDOM = ['hex', 'base64', 'base64url'] as const

test.each(RANDOM)('a secret in %s, in place of any value, is not shown', async encoding => {
  const secret = createHash('sha256').update(CANARY).digest(encoding)
  for (const [name, text] of Object.entries({
    'usher.yaml': COMPLETE.usher,
    'clients/web.yaml': COMPLETE.client.replace(/^scope:.*\n/m, ''),
  })) {
    const marked = text.replaceAll(/^( *(?:- |[a-z_]+: )).+$/gm, `$1"\\u0000 ${secret}"`)
    expect(marked.split(secret).length).toBeGreaterThan(14)
    for (const part of secret.match(/.{8}/g) ?? []) {
      expect(await shown({ [name]: marked })).not.toContain(part)
    }
  }
})

test('only the names of environment variables are shown', async () => {
  const env = {
    USHER_SECRET: CANARY,
    USHER_STORE: `redis://:${CANARY}@localhost`,
    USHER_ISSUER: `https://ada:${CANARY}@id.example.org`,
    PORT: CANARY,
  }
  expect(await shown({}, env)).not.toContain(CANARY)
})

test.each([
  'proxy: ["http://ada:VALUE@10.0.0.1"]',
  'proxy: ["//ada:VALUE@10.0.0.1"]',
  'issuer: //ada:VALUE@id.example.org',
])('the name and password of an address are not shown: %s', async text => {
  expect(await shown({ 'usher.yaml': `${text.replace('VALUE', CANARY)}\n` })).not.toContain(CANARY)
})

test('the name, password, query and fragment of a redirect URI are not shown', async () => {
  for (const uri of [
    `https://ada:${CANARY}@app.example.org/callback`,
    `https://app.example.org/callback#${CANARY}`,
    `http://app.example.org/?token=${CANARY}`,
  ]) {
    const text = await shown({ 'clients/web.yaml': client({ redirect_uris: [uri] }) })
    expect(text).not.toContain(CANARY)
  }
})

test('a private key in a client file is not shown', async () => {
  const jwks = { keys: [{ kty: 'OKP', crv: 'Ed25519', x: 'A', d: CANARY }], d: CANARY }
  expect(await shown({ 'clients/web.yaml': client({ jwks }) })).not.toContain(CANARY)
})

test('a reload does not log the value of a changed secret', async () => {
  const keys = [{ kty: 'RSA', n: CANARY.repeat(40), e: 'AQAB' }]
  const webWith = (changes: object) => read({ 'clients/web.yaml': client(changes) })
  const before = (await webWith({ client_secret: 'ada', token_endpoint_auth_method: undefined }))
    .settings
  const after = (await webWith({ token_endpoint_auth_method: 'private_key_jwt', jwks: { keys } }))
    .settings
  const lines =
    before && after ? await differences(before, { ...after, folder: before.folder }) : []
  expect(lines).toEqual([
    '- clients.web.client_secret_hashes',
    '+ clients.web.jwks',
    '+ clients.web.token_endpoint_auth_method: "private_key_jwt"',
  ])
})

test('a reload does not log the secret of an upstream issuer that was added or changed', async () => {
  const upstream = { issuer: 'https://acme.example', client_id: 'usher', label: 'Acme' }
  const withSecret = async (secret: string) =>
    (
      await read({
        'upstreams/acme.yaml': { ...upstream, client_secret_file: 'acme.secret' },
        'acme.secret': secret,
      })
    ).settings
  const [none, before, after] = [
    (await read({})).settings,
    await withSecret('ada'),
    await withSecret(CANARY),
  ]
  if (!none || !before || !after) throw new Error('the folder is right')
  expect(await differences({ ...before, folder: after.folder }, after)).toEqual([
    'upstreams.acme.clientSecret: (not shown) → (not shown)',
  ])
  expect((await differences(none, after)).join()).not.toContain(CANARY)
})

test('a change of the logo is logged without the image', async () => {
  const before = (await read({})).settings
  if (!before) throw new Error('the folder is right')
  const logo = (base64: string) => ({ ...before, pictures: { 'logo.svg': base64 } })
  expect(await differences(logo('AAAA'), logo(CANARY))).toEqual([
    'pictures.logo.svg: (not shown) → (not shown)',
  ])
})
