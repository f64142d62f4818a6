// Usher on a Redis with many entries: live tokens of other users, and one user with 200 connected applications.

import { pino } from 'pino'
import { createApp } from '../../../../src/app.ts'
import { readSettings } from '../../../../src/config/load.ts'
import { newGrantId } from '../../../../src/oidc/adapter/grants.ts'
import { hashSecret } from '../../../../src/oidc/clients.ts'
import { Consents } from '../../../../src/oidc/consents.ts'
import { createMetrics } from '../../../../src/operation/metrics.ts'
import { openSigningKeys } from '../../../../src/operation/signing-keys.ts'
import { openInstallation } from '../../../../src/store/open.ts'
import { directoryIn } from '../../../support/directory.ts'
import { CLIENT, LIFETIME_SECONDS, ONLINE, SECRET } from './client.ts'
import { type Connection, openConnection } from './connection.ts'
import {
  expectAnswer,
  type MeasuredRequest,
  signIn,
  type Token,
  tokenOf,
  type User,
} from './requests.ts'
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
  const popular = await signIn(connection, POPULAR)
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
  const finalRequests = { ...variant.finalRequests, withdrawal: withdraw }
  return { ...variant, tokens, requests, finalRequests }
}

/** Opens the page that removes an application, and submits it. */
async function withdraw(_line: Connection, { browser }: User): Promise<void> {
  await browser.open(`${PAGE}/remove?client_id=${CLIENT.client_id}`)
  const { status, text } = await browser.submit()
  const isRemoved = status === 200 && !text.includes(`client_id=${CLIENT.client_id}`)
  expectAnswer({ status, text }, isRemoved)
}

/** Writes access tokens with Usher's own code, as copies of `template` with other users and grants. */
async function fill({ service }: Variant, live: number, template: string): Promise<Token[]> {
  const settings = await readSettings(service?.env)
  const { store: location, redis } = settings
  const { records, store, secrets } = await openInstallation(location, settings.secrets, redis)
  const keys = await (await openSigningKeys(records, settings)).load()
  const log = pino({ enabled: false })
  const environment = {
    settings,
    secrets,
    records,
    keys,
    log,
    audit: log,
    metrics: createMetrics(),
  }
  const { provider: app } = await createApp(environment, {
    state: 'ready',
    probe: async () => true,
    checks: [],
  })

  const directory = directoryIn(records)
  const consents = new Consents(records)
  const account = await directory.findByUsername(POPULAR)
  for (const client_id of APPLICATIONS) {
    const decision = { scopes: ['profile', 'email'], declined: [], version: 0 }
    await consents.decide(account?.id ?? '', client_id, decision)
  }
  const holders: string[] = []
  for (let i = 0; i < HOLDERS; i++) {
    const { id } = await directory.add({ username: `holder-${i}` })
    const decision = { scopes: ONLINE.split(' '), declined: [], version: 0 }
    await consents.decide(id, CLIENT.client_id, decision)
    holders.push(id)
  }
  const copied = await app.AccessToken.adapter.find(template)
  /** The library's own method, which its types do not declare. */
  const generateTokenId: (this: object) => string = Reflect.get(
    app.AccessToken.prototype,
    'generateTokenId',
  )
  const tokens: Token[] = []
  let grants = 0
  async function write() {
    for (let i = grants++; i * TOKENS_PER_GRANT < live; i = grants++) {
      const accountId = holders[i % HOLDERS] ?? ''
      const grant = new app.Grant({ accountId, clientId: CLIENT.client_id })
      // A token begins with the tag of its grant.
      Object.assign(grant, { jti: newGrantId() })
      grant.addOIDCScope(ONLINE)
      const grantId = await grant.save()
      const one = async () => {
        const id = generateTokenId.call({ ...copied, grantId })
        const payload = { ...copied, jti: id, accountId, grantId }
        await app.AccessToken.adapter.upsert(id, payload, LIFETIME_SECONDS)
        tokens.push({ token: id, sub: accountId })
      }
      await Promise.all(Array.from({ length: TOKENS_PER_GRANT }, one))
    }
  }
  await Promise.all(Array.from({ length: WRITERS }, write))
  await store.close()
  return tokens
}
