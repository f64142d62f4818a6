// Usher on a Redis with many entries: live tokens of other users, and one user with 200 connected applications.

import { readSettings } from '../../../../src/config/load.ts'
import { createState } from '../../../../src/oidc/adapter/adapter.ts'
import { newGrantId } from '../../../../src/oidc/adapter/grants.ts'
import { createSessions } from '../../../../src/oidc/adapter/sessions.ts'
import { hashSecret } from '../../../../src/oidc/clients.ts'
import { Consents } from '../../../../src/oidc/consents.ts'
import { stateLifetimes } from '../../../../src/oidc/tokens.ts'
import { openInstallation } from '../../../../src/store/open.ts'
import { directoryIn } from '../../../support/directory.ts'
import { CLIENT, LIFETIME_SECONDS, ONLINE, SECRET } from './client.ts'
import { openConnection } from './connection.ts'
import { expectAnswer, type MeasuredRequest, signIn, type Token, tokenOf } from './requests.ts'
import { type Options, startOnSocket, startUsher, type Variant } from './variants.ts'

/** Accounts that own the tokens. */
const HOLDERS = 16
const TOKENS_PER_GRANT = 10
/** Concurrent writes. */
const WRITERS = 64
const APPLICATIONS = Array.from({ length: 200 }, (_, i) => `application-${i}`)

const POPULAR = 'popular'
const PAGE = '/account/applications'

export async function startFull(live: number, options: Options): Promise<Variant> {
  const others = APPLICATIONS.map(client_id => {
    const redirect_uris = [`https://${client_id}.example.org/callback`]
    const client_secret_hashes = [hashSecret(SECRET)]
    return [client_id, { client_id, client_name: client_id, redirect_uris, client_secret_hashes }]
  })
  const redis = await startOnSocket()
  const name = `${live} live tokens`
  const usernames = [...options.usernames, POPULAR]
  const clients = Object.fromEntries(others)
  const variant = await startUsher(name, { ...options, usernames }, redis, clients)
  const connection = await openConnection(variant.issuer, variant.client, 1)
  const popular = await signIn(connection, POPULAR, 1)
  const { token } = await tokenOf(connection, popular)
  await connection.close()
  const tokens = await fill(variant, live, token)
  const [cookie = ''] = popular.cookies
  const page: MeasuredRequest = async ({ connection }) => {
    const reply = await connection.get(new URL(PAGE, connection.issuer), { cookie })
    const count = reply.text.match(/client_id=application-/g)?.length
    expectAnswer(reply, reply.status === 200 && count === APPLICATIONS.length)
  }
  const requests = { ...variant.requests, [`page of ${APPLICATIONS.length} applications`]: page }
  return { ...variant, base: undefined, tokens, requests }
}

/** Writes access tokens with Usher's own adapter, as copies of `template` with other users and grants. */
async function fill({ service }: Variant, live: number, template: string): Promise<Token[]> {
  const settings = await readSettings(service?.env)
  const { store: location, secrets, redis } = settings
  const { records, store } = await openInstallation(location, secrets, redis)
  const directory = directoryIn(records)
  const consents = new Consents(records)
  const sessions = createSessions(records)
  const { adapter, tokenIds } = createState(
    records,
    stateLifetimes(settings),
    {},
    sessions,
    directory.recordName,
  )
  const accessTokens = adapter('AccessToken')
  const grants = adapter('Grant')

  const popular = await directory.findByUsername(POPULAR)
  for (const client_id of APPLICATIONS) {
    const decision = { scopes: ['profile', 'email'], declined: [], version: 0 }
    await consents.decide(popular?.id ?? '', client_id, decision)
  }
  const holders: string[] = []
  for (let i = 0; i < HOLDERS; i++) {
    const { id } = await directory.add({ username: `holder-${i}` })
    const decision = { scopes: ONLINE.split(' '), declined: [], version: 0 }
    await consents.decide(id, CLIENT.client_id, decision)
    holders.push(id)
  }
  const token = await accessTokens.find(template)
  const grant = await grants.find(token?.grantId ?? '')
  const tokens: Token[] = []
  let made = 0
  async function write() {
    for (let i = made++; i * TOKENS_PER_GRANT < live; i = made++) {
      const accountId = holders[i % HOLDERS] ?? ''
      const grantId = newGrantId()
      await grants.upsert(grantId, { ...grant, jti: grantId, accountId }, LIFETIME_SECONDS)
      const one = async () => {
        const jti = tokenIds.AccessToken({ grantId }, '')
        const payload = { ...token, jti, accountId, grantId }
        await accessTokens.upsert(jti, payload, LIFETIME_SECONDS)
        tokens.push({ token: jti, sub: accountId })
      }
      await Promise.all(Array.from({ length: TOKENS_PER_GRANT }, one))
    }
  }
  await Promise.all(Array.from({ length: WRITERS }, write))
  await store.close()
  return tokens
}
