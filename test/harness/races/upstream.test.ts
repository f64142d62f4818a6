import { afterAll, beforeAll, expect, test } from 'vitest'
import { Browser } from '../../support/browser.ts'
import { type HostileIssuer, startHostileIssuer } from '../../support/hostile-issuer.ts'
import { authorizationRequest } from '../../support/journey.ts'
import { startRedis } from '../../support/redis.ts'
import { freePorts } from '../../support/redis-together.ts'
import { withUpstreams } from '../../support/upstream.ts'
import { startUsher } from '../../support/usher.ts'

const ROUNDS = 200
const USHER_SECRET = Buffer.alloc(32, 'upstream').toString('base64url')

let issuer: HostileIssuer
beforeAll(async () => {
  issuer = await startHostileIssuer()
  issuer.state.behaviour = { response: { state: undefined } }
})
afterAll(() => issuer.close())

test.each(['SQLite', 'Redis'])(
  'one of two concurrent equal callbacks succeeds, on %s',
  { timeout: 300_000 },
  async kind => {
    const [port = 0] = await freePorts(1)
    const redis = kind === 'Redis' ? await startRedis({ port }) : undefined
    const usher = await startUsher({
      ...withUpstreams({ example: { issuer: issuer.issuer } }),
      ...(redis && { store: redis.url, env: { USHER_SECRET } }),
    })
    for (let round = 0; round < ROUNDS; round++) {
      const browser = new Browser(usher.issuer, fetch, [issuer.issuer])
      await browser.open(authorizationRequest(usher).url)
      await browser.submit({ decision: 'example' })
      const { searchParams } = issuer.state.requests.at(-1) as URL
      const query = new URLSearchParams({
        code: `code-${issuer.state.requests.length}`,
        state: searchParams.get('state') ?? '',
        iss: issuer.issuer,
      })
      const url = `${usher.issuer}/sign-in/example/callback?${query}`
      const headers = { cookie: await browser.cookies() }
      const send = () => fetch(url, { headers, redirect: 'manual' })
      const answers = await Promise.all([send(), send()])
      expect(answers.map(({ status }) => status).toSorted()).toEqual([302, 400])
    }
    await usher.close()
    await redis?.stop()
  },
)
