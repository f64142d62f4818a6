// The contract of a store on Redis. Behind Sentinel the commands are the same: redis-connection.test.ts connects there.

import { afterAll, beforeAll, describe } from 'vitest'
import { openRedisStore } from '../../src/store/redis/store.ts'
import { startRedis } from '../support/redis.ts'
import { startCluster } from '../support/redis-together.ts'
import { raceSuite } from './race-suite.ts'
import { storeSuite } from './store-suite.ts'

type Start = () => Promise<{ url: string; stop(): Promise<void> }>

describe.each<[string, Start]>([
  ['Redis alone', startRedis],
  ['Redis Cluster', startCluster],
])('%s', (_, start) => {
  let server: Awaited<ReturnType<Start>>
  beforeAll(async () => {
    server = await start()
  })
  afterAll(() => server?.stop())

  storeSuite('one connection', () => openRedisStore(server.url))
  raceSuite('three connections', () => Promise.all([1, 2, 3].map(() => openRedisStore(server.url))))
})
