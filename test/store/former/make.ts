// `npm run former-stores` writes a small store of this version into a folder of its name, once for each release,
// or into the folder of its argument:
//
//   usher.db       a SQLite file
//   redis.jsonl    the keys of the same store in Redis
//   backup.jsonl   its backup
//   facts.jsonl    what its users and clients know
//
// former.test.ts reads each folder with the version of today.

import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import packageJson from '../../../package.json' with { type: 'json' }
import { copyStore } from '../../../src/commands/store.ts'
import { openStore } from '../../../src/store/open.ts'
import { now } from '../../../src/store/store.ts'
import { runUsher } from '../../support/command.ts'
import { addApp } from '../../support/factors.ts'
import { authorizationRequest, authorize, tokens } from '../../support/journey.ts'
import { Authenticator, addPasskey } from '../../support/passkeys.ts'
import { signedIn } from '../../support/people.ts'
import { startRedis } from '../../support/redis.ts'
import { registerNew } from '../../support/registration.ts'
import { ADA, ALAN, GRACE, startUsher } from '../../support/usher.ts'
import { type Facts, type RedisKey, USHER_OPTIONS, USHER_SECRET } from './facts.ts'

const [target = join(import.meta.dirname, packageJson.version)] = process.argv.slice(2)
const folder = mkdtempSync(join(tmpdir(), 'usher-former-'))
const file = join(folder, 'usher.db')
const location = `sqlite:${file}`

const facts = await fill()
rmSync(target, { recursive: true, force: true })
mkdirSync(target, { recursive: true })
const backup = join(target, 'backup.jsonl')
const { code, stderr } = await runUsher(['store', 'backup', backup], {
  USHER_SECRET,
  USHER_STORE: location,
})
if (code !== 0) throw new Error(stderr)
const keys = await keysInRedis()
const lines = keys.map(key => `${JSON.stringify(key)}\n`)
writeFileSync(join(target, 'redis.jsonl'), lines.join(''))
copyFileSync(file, join(target, 'usher.db'))
writeFileSync(join(target, 'facts.jsonl'), `${JSON.stringify(facts)}\n`)
rmSync(folder, { recursive: true })
console.log(`${target}: ${keys.length} keys`)
process.exit(0)

/** Fills the store through HTTP, as users and clients do. */
async function fill(): Promise<Facts> {
  const usher = await startUsher({ ...USHER_OPTIONS, store: location, env: { USHER_SECRET } })
  const ada = await usher.addAccount(ADA)
  const { secret, codes } = await addApp(usher)
  const grace = await usher.addAccount(GRACE)
  await addPasskey(await signedIn(usher, GRACE.username), new Authenticator(usher.issuer))
  const alan = await usher.addAccount(ALAN)
  const held = await tokens(usher, { username: ALAN.username })
  // A code that is not redeemed, and an interaction that is not answered.
  await authorize(usher, { browser: held.browser })
  await fetch(authorizationRequest(usher).url, { redirect: 'manual' })
  const client = await registerNew(usher)
  const { keys } = (await (await fetch(`${usher.issuer}/api/oauth/jwks`)).json()) as {
    keys: { kid: string }[]
  }
  await usher.close()
  return {
    made: now(),
    accounts: { ada: ada.id, grace: grace.id, alan: alan.id },
    app: secret,
    recovery: codes[0] ?? '',
    refresh_token: held.refresh_token,
    access_token: held.access_token,
    client,
    keys: keys.map(({ kid }) => kid),
  }
}

/** Copies the store to Redis, and reads its keys there. */
async function keysInRedis(): Promise<RedisKey[]> {
  const server = await startRedis()
  const source = await openStore(location)
  const copy = await openStore(server.url)
  await copyStore(source, copy)
  await Promise.all([source.close(), copy.close()])
  const redis = new Redis(server.url)
  const names = (await redis.keys('*')).toSorted()
  const keys = await Promise.all(names.map(name => readKey(redis, name)))
  redis.disconnect()
  await server.stop()
  return keys
}

async function readKey(redis: Redis, name: string): Promise<RedisKey> {
  const ttl = await redis.ttl(name)
  const type = await redis.type(name)
  if (type === 'string') {
    const value = await redis.getBuffer(name)
    return { name, ttl, value: value?.toString('base64') ?? '' }
  }
  if (type !== 'zset') throw new Error(`${name} is a ${type}`)
  return { name, ttl, members: await redis.zrange(name, '0', '-1', 'WITHSCORES') }
}
