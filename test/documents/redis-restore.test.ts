// Backup and restore of Redis with the commands of docs/operate.md, and the failures without them.

import { execFile } from 'node:child_process'
import { copyFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import { afterEach, expect, test } from 'vitest'
import { openInstallation } from '../../src/store/open.ts'
import { directoryIn } from '../support/directory.ts'
import { block } from '../support/documents.ts'
import { temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/ports.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { startService } from '../support/service.ts'

const SECRET = Buffer.alloc(32, 'restore')
const folder = temporaryFolder()
const servers: RedisServer[] = []
afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop()
})

async function start() {
  const port = await freePort()
  const redis = await startRedis({ port, settings: ['--maxmemory-policy', 'noeviction'] })
  servers.push(redis)
  return { redis, port }
}

/** Runs the commands of a page with the Redis of this test. */
async function run(
  commands: string,
  { port, redis }: Awaited<ReturnType<typeof start>>,
  cwd: string,
) {
  const script = commands
    .replaceAll('redis-cli', `redis-cli -p ${port}`)
    .replace(
      '/etc/redis/redis.conf',
      `--port ${port} --bind 127.0.0.1 --save '' --dir ${redis.folder}`,
    )
  const env = { ...process.env, PASSWORD: 'engines' }
  return (await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script], { cwd, env }))
    .stdout
}

/** Adds an account. Returns the usernames of all accounts. */
async function addAccount(url: string, username?: string): Promise<string[]> {
  const { store, records } = await openInstallation(url, [SECRET])
  const directory = directoryIn(records)
  if (username) await directory.add({ username })
  const accounts = await Array.fromAsync(directory.all())
  await store.close()
  return accounts.map(({ username }) => username).toSorted()
}

async function countKeys(url: string): Promise<number> {
  const client = new Redis(url)
  return await client.dbsize().finally(() => client.disconnect())
}

test('a copy made by docs/operate.md is restored by its commands, and Usher starts with it', async () => {
  const server = await start()
  const { redis } = server
  await addAccount(redis.url, 'ada')
  await run(block('redis-backup'), server, folder)
  expect(await addAccount(redis.url, 'grace')).toEqual(['ada', 'grace'])
  await redis.kill('SIGTERM')
  copyFileSync(join(folder, 'backup.rdb'), join(redis.folder, 'backup.rdb'))
  expect(await run(block('redis-restore'), server, redis.folder)).toMatch(/^[1-9]\d*$/m)

  await redis.start()
  expect(await addAccount(redis.url)).toEqual(['ada'])
  // The restored data are in the append-only file, so that a restart after a crash keeps them.
  await redis.kill('SIGKILL')
  await redis.start()
  expect(await addAccount(redis.url)).toEqual(['ada'])
  const USHER_SECRET = SECRET.toString('base64url')
  const service = await startService({ USHER_STORE: redis.url, USHER_SECRET })
  expect((await fetch(`${service.issuer}/readyz`)).status).toBe(200)
  expect(await service.stop()).toBe(0)
})

test('Redis ignores a copy that only replaces dump.rdb, and the store is empty', async () => {
  const server = await start()
  const { redis } = server
  await addAccount(redis.url, 'ada')
  await run(block('redis-backup'), server, folder)
  await redis.kill('SIGTERM')
  rmSync(join(redis.folder, 'appendonlydir'), { recursive: true })
  copyFileSync(join(folder, 'backup.rdb'), join(redis.folder, 'dump.rdb'))
  await redis.start()
  expect(await countKeys(redis.url)).toBe(0)
})

test('without aclfile the commands report it, and the user does not exist after a restart', async () => {
  const server = await start()
  const { redis, port } = server
  expect(await run(block('acl'), server, folder)).toContain('not configured to use an ACL file')
  const url = `redis://usher:engines@127.0.0.1:${port}`
  expect(await addAccount(url, 'ada')).toEqual(['ada'])
  await redis.kill('SIGKILL')
  await redis.start()
  await expect(addAccount(url)).rejects.toThrow(/WRONGPASS|cannot be opened/)
})
