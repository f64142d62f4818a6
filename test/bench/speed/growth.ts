// Usher on a Redis that holds a great deal already: live tokens of other people, and somebody who has
// allowed as many applications as a page has ever shown.

import { pino } from 'pino'
import { createConsents } from '../../../src/accounts/consents.ts'
import { createDirectory } from '../../../src/accounts/directory.ts'
import { createApp } from '../../../src/app.ts'
import { hashSecret } from '../../../src/config/client-secret.ts'
import { readSettings } from '../../../src/config/load.ts'
import { createMetrics } from '../../../src/http/metrics.ts'
import { openSigningKeys } from '../../../src/keys/signing-keys.ts'
import { openInstallation } from '../../../src/storage/open.ts'
import { CLIENT, LIFETIME, ONLINE, SECRET } from './client.ts'
import { type Line, openLine } from './line.ts'
import { type Ask, hold, type Person, signIn, type Token, tokenOf } from './requests.ts'
import { type Options, startOnSocket, startUsher, type Variant } from './variants.ts'

/** That hold the tokens, and grants of so many tokens each. */
const HOLDERS = 16
const OF_A_GRANT = 10
/** Written at once. */
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
  const people = [...options.people, POPULAR]
  const variant = await startUsher(name, { ...options, people }, redis, Object.fromEntries(others))
  const line = await openLine(variant.issuer, variant.client, 1)
  const popular = await signIn(line, POPULAR)
  const { token } = await tokenOf(line, popular)
  await line.close()
  const tokens = await fill(variant, live, token)
  const { cookie } = popular
  const page: Ask = async ({ line }) => {
    const reply = await line.get(new URL(PAGE, line.issuer), { cookie })
    const count = reply.text.match(/client_id=application-/g)?.length
    hold(reply, reply.status === 200 && count === APPLICATIONS.length)
  }
  const asks = { ...variant.asks, [`page of ${APPLICATIONS.length} applications`]: page }
  return { ...variant, tokens, asks, ends: { ...variant.ends, withdrawal: withdraw } }
}

/** The page that asks, and the answer. */
async function withdraw(_line: Line, { browser }: Person): Promise<void> {
  await browser.open(`${PAGE}/remove?client_id=${CLIENT.client_id}`)
  const { status, text } = await browser.submit()
  hold({ status, text }, status === 200 && !text.includes(`client_id=${CLIENT.client_id}`))
}

/** As the service itself writes them: like this one, of other people and grants. */
async function fill({ service }: Variant, live: number, like: string): Promise<Token[]> {
  const settings = readSettings(service?.env)
  const { store: location, redis } = settings
  const { records, store, secrets } = await openInstallation(location, settings.secrets, redis)
  const keys = await (await openSigningKeys(records, settings)).load()
  const log = pino({ enabled: false })
  const environment = { settings, secrets, records, keys, log, metrics: createMetrics() }
  const { provider: app } = await createApp(environment, {
    state: 'ready',
    probe: async () => {},
    checks: [],
  })

  const directory = createDirectory(records)
  const consents = createConsents(records)
  const account = await directory.findByUsername(POPULAR)
  for (const client_id of APPLICATIONS) {
    const decision = { scopes: ['profile', 'email'], declined: [], version: 0 }
    await consents.decide(account?.id ?? '', client_id, decision)
  }
  const holders: string[] = []
  for (let i = 0; i < HOLDERS; i++) {
    holders.push((await directory.add({ username: `holder-${i}` })).id)
  }
  const given = await app.AccessToken.adapter.find(like)
  const { generateTokenId } = Object(app.AccessToken.prototype)
  const tokens: Token[] = []
  let begun = 0
  async function write() {
    for (let i = begun++; i * OF_A_GRANT < live; i = begun++) {
      const accountId = holders[i % HOLDERS] ?? ''
      const grant = new app.Grant({ accountId, clientId: CLIENT.client_id })
      grant.addOIDCScope(ONLINE)
      const grantId = await grant.save()
      const one = async () => {
        const id = generateTokenId.call({ ...given, grantId })
        const payload = { ...given, jti: id, accountId, grantId }
        await app.AccessToken.adapter.upsert(id, payload, LIFETIME)
        tokens.push({ token: id, sub: accountId })
      }
      await Promise.all(Array.from({ length: OF_A_GRANT }, one))
    }
  }
  await Promise.all(Array.from({ length: WRITERS }, write))
  await store.close()
  return tokens
}
