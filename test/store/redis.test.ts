// The contract of a store on Redis. Behind Sentinel the commands are the same: redis-connection.test.ts connects there.

import { afterAll, beforeAll, describe } from 'vitest'
import { openPatientStore, startRedis } from '../support/redis.ts'
import { startCluster } from '../support/redis-together.ts'
import { raceSuite } from './race-suite.ts'
import { storeSuite } from './store-suite.ts'

type Start = () => Promise<{ url: string; stop(): Promise<void> }>

describe.each<[string, Start]>([
  ['Redis alone', startRedis],
  ['Redis Cluster', () => startCluster()],
])('%s', (_, start) => {
  let server: Awaited<ReturnType<Start>>
  beforeAll(async () => {
    server = await start()
  })
  afterAll(() => server?.stop())

  storeSuite('one connection', () => openPatientStore(server.url))
  raceSuite('three connections', () =>
    Promise.all([1, 2, 3].map(() => openPatientStore(server.url))),
  )
})
