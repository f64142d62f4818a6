// Checks whether a Redis server is safe for an installation. Each finding from its INFO names the command
// that fixes it.

import type { Redis } from 'ioredis'
import type { Check } from '../store.ts'

/** Seconds by which the clocks of a node and of Redis may differ. */
const CLOCK = { warning: 1, wrong: 5 }
const OLDEST = [6, 2]

type Info = Record<string, string>

/** Returns the lines of INFO, by name. */
export async function readInfo(redis: Redis): Promise<Info> {
  const text = await redis.info()
  const lines = text.split('\r\n').map(line => line.split(/:(.*)/))
  return Object.fromEntries(lines.filter(([name, value]) => name && value !== undefined))
}

/** The lines of INFO about replicas that are connected and have their first copy. */
const replicasOf = (info: Info) =>
  Object.entries(info)
    .filter(([name, value]) => /^slave\d+$/.test(name) && /state=online/.test(value))
    .map(([, value]) => value)

/** Whether a replica has confirmed a write. A replica is online while it still loads its first copy. */
export const hasReplica = (info: Info) => replicasOf(info).some(value => /offset=[1-9]/.test(value))

/** The result of one check; its state is `ok` unless it names another. */
type Verdict = Pick<Check, 'found' | 'fix'> & Partial<Pick<Check, 'state'>>

/** Checks one server. `replicated`: writes wait for a replica. */
export async function checkServer(redis: Redis, replicated: boolean): Promise<Check[]> {
  const asked = Date.now()
  const [seconds = 0, microseconds = 0] = (await redis.time()).map(Number)
  const difference = seconds + microseconds / 1e6 - (asked + Date.now()) / 2000
  const info = await readInfo(redis)
  const verdicts: Record<string, Verdict> = {
    role: role(info),
    version: version(info),
    eviction: eviction(info),
    persistence: persistence(info),
    memory: memory(info),
    replicas: replicas(info, replicated),
    'min-replicas': minReplicas(info),
    access: access(redis.options.password),
    clock: clock(difference),
  }
  return Object.entries(verdicts).map(([name, verdict]) => ({ name, state: 'ok', ...verdict }))
}

/** Returns one check of each name: the worst of all servers. */
export function merge(servers: Check[][]): Check[] {
  const byName = Map.groupBy(servers.flat(), ({ name }) => name)
  const order = ['wrong', 'warning', 'ok']
  return [...byName.values()].flatMap(
    checks => checks.toSorted((a, b) => order.indexOf(a.state) - order.indexOf(b.state))[0] ?? [],
  )
}

function role({ role }: Info): Verdict {
  if (role !== 'slave') return { found: 'primary' }
  const found = 'a replica: nothing can be written here'
  return { state: 'wrong', found, fix: 'name the primary, or Sentinel (redis+sentinel://)' }
}

function version({ redis_version = '0', valkey_version }: Info): Verdict {
  const [major = 0, minor = 0] = redis_version.split('.').map(Number)
  const [oldestMajor = 0, oldestMinor = 0] = OLDEST
  const isOld = major < oldestMajor || (major === oldestMajor && minor < oldestMinor)
  const found = valkey_version ? `Valkey ${valkey_version}` : `Redis ${redis_version}`
  return isOld ? { state: 'wrong', found, fix: 'use Redis 6.2 or later, or Valkey' } : { found }
}

function eviction({ maxmemory_policy = 'noeviction' }: Info): Verdict {
  if (maxmemory_policy === 'noeviction') return { found: maxmemory_policy }
  const found = `${maxmemory_policy}: it throws tokens and accounts away when memory is short`
  return { state: 'wrong', found, fix: 'redis-cli CONFIG SET maxmemory-policy noeviction' }
}

function persistence({
  aof_enabled,
  aof_last_write_status,
  rdb_last_bgsave_status,
}: Info): Verdict {
  if (aof_enabled !== '1') {
    const found = 'no append-only file: a restart may take back minutes, or everything'
    return { state: 'warning', found, fix: 'redis-cli CONFIG SET appendonly yes' }
  }
  if (aof_last_write_status === 'err' || rdb_last_bgsave_status === 'err') {
    const found = 'its last write to the disk failed'
    return { state: 'warning', found, fix: 'look at its log and the space on its disk' }
  }
  return { found: 'append-only file' }
}

function memory({ used_memory = '0', maxmemory = '0' }: Info): Verdict {
  const share = Number(maxmemory) && Number(used_memory) / Number(maxmemory)
  const found = share ? `${Math.round(share * 100)} % of maxmemory` : 'no maxmemory is set'
  if (share < 0.8) return { found }
  return { state: 'warning', found, fix: 'raise maxmemory: when it is full, no user can sign in' }
}

function replicas(info: Info, replicated: boolean): Verdict {
  const count = replicasOf(info).length
  if (!replicated) return { found: `${count}; writes do not wait for them` }
  if (count) return { found: `${count}; a write succeeds when one of them has it` }
  const found = 'none is connected: every write is refused until one is'
  return { state: 'wrong', found, fix: 'start a replica, or set redis.durability: primary' }
}

/** INFO counts the good ones only where a number of them is asked for. */
function minReplicas(info: Info): Verdict {
  if (!replicasOf(info).length) return { found: 'there are no replicas' }
  if (info.min_slaves_good_slaves) return { found: 'no write without a replica' }
  const found = 'cut off from its replicas, it takes writes that the next failover takes back'
  return { state: 'warning', found, fix: 'redis-cli CONFIG SET min-replicas-to-write 1' }
}

/** A client that connects without a password is the user `default`. */
function access(password: string | null | undefined): Verdict {
  if (password) return { found: 'a password is needed' }
  const found = 'no password: every client that reaches it can read, change and delete everything'
  const fix = 'redis-cli CONFIG SET requirepass PASSWORD, and a file with it: redis.password_file'
  return { state: 'warning', found, fix }
}

function clock(difference: number): Verdict {
  const apart = Math.abs(difference)
  const found = `${apart.toFixed(1)} s apart from Redis`
  if (apart < CLOCK.warning) return { found }
  const state = apart < CLOCK.wrong ? 'warning' : 'wrong'
  return { state, found, fix: 'keep the clocks of all machines right (chrony, systemd-timesyncd)' }
}
