// Checks whether Redis servers are safe for an installation. Each finding from their INFO names the command
// that fixes it.

import type { Redis } from 'ioredis'
import type { Check } from '../store.ts'

/** Seconds by which the clocks of a node and of Redis may differ. */
const CLOCK = { warning: 1, wrong: 5 }
const CLOCK_FIX = 'keep the clocks of all machines right (chrony, systemd-timesyncd)'
const OLDEST_VERSION = '6.2'
const STATES = ['ok', 'warning', 'wrong']

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

/** Checks servers with their INFO, and returns the worst of each name. `replicated`: writes wait. */
export async function checkServers(servers: Redis[], infos: Info[], replicated: boolean) {
  const rows = infos.map(async (info, i) => {
    const asked = Date.now()
    const [seconds = 0, microseconds = 0] = ((await servers[i]?.time()) ?? []).map(Number)
    const difference = seconds + microseconds / 1e6 - (asked + Date.now()) / 2000
    return findings(info, replicated, Math.abs(difference), servers[i]?.options.password)
  })
  const found = (await Promise.all(rows)).flat().filter(([, isCase]) => isCase)
  const checks = found.map(([name, , state, found, fix]): Check => ({ name, state, found, fix }))
  // A later one replaces an earlier one of its name.
  const worstLast = STATES.flatMap(state => checks.filter(check => check.state === state))
  return [...new Map(worstLast.map(check => [check.name, check])).values()]
}

type Row = [name: string, isCase: unknown, state: Check['state'], found: string, fix?: string]

/** The worst case of each name counts. A client that connects without a password is the user `default`. */
function findings(info: Info, replicated: boolean, apart: number, password?: string | null): Row[] {
  const { redis_version = '0', valkey_version, maxmemory_policy = 'noeviction' } = info
  const version = valkey_version ? `Valkey ${valkey_version}` : `Redis ${redis_version}`
  const isOld = redis_version.localeCompare(OLDEST_VERSION, 'en', { numeric: true }) < 0
  const isFailing = [info.aof_last_write_status, info.rdb_last_bgsave_status].includes('err')
  const share = Number(info.maxmemory) && Number(info.used_memory) / Number(info.maxmemory)
  const used = share ? `${Math.round(share * 100)} % of maxmemory` : 'no maxmemory is set'
  const count = replicasOf(info).length
  const waiting = replicated
    ? 'a write succeeds when one of them has it'
    : 'writes do not wait for them'
  // INFO has this count only if `min-replicas-to-write` is set.
  const isAlone = count && !info.min_slaves_good_slaves
  const difference = `${apart.toFixed(1)} s apart from Redis`
  // biome-ignore format: a table
  return [
    ['role', true, 'ok', 'primary'],
    ['role', info.role === 'slave', 'wrong', 'a replica: nothing can be written here',
      'name the primary, or Sentinel (redis+sentinel://)'],
    ['version', true, 'ok', version],
    ['version', isOld, 'wrong', version, 'use Redis 6.2 or later, or Valkey'],
    ['eviction', true, 'ok', maxmemory_policy],
    ['eviction', maxmemory_policy !== 'noeviction', 'wrong',
      `${maxmemory_policy}: it throws tokens and accounts away when memory is short`,
      'redis-cli CONFIG SET maxmemory-policy noeviction'],
    ['persistence', true, 'ok', 'append-only file'],
    ['persistence', info.aof_enabled !== '1', 'warning',
      'no append-only file: a restart may take back minutes, or everything',
      'redis-cli CONFIG SET appendonly yes'],
    ['persistence', isFailing, 'warning', 'its last write to the disk failed',
      'look at its log and the space on its disk'],
    ['memory', true, 'ok', used],
    ['memory', share >= 0.8, 'warning', used,
      'raise maxmemory: when it is full, no user can sign in'],
    ['replicas', true, 'ok', `${count}; ${waiting}`],
    ['replicas', replicated && !count, 'wrong',
      'none is connected: every write is refused until one is',
      'start a replica, or set redis.durability: primary'],
    ['min-replicas', true, 'ok', count ? 'no write without a replica' : 'there are no replicas'],
    ['min-replicas', isAlone, 'warning',
      'cut off from its replicas, it takes writes that the next failover takes back',
      'redis-cli CONFIG SET min-replicas-to-write 1'],
    ['access', true, 'ok', 'a password is needed'],
    ['access', !password, 'warning',
      'no password: every client that reaches it can read, change and delete everything',
      'redis-cli CONFIG SET requirepass PASSWORD, and a file with it: redis.password_file'],
    ['clock', true, 'ok', difference],
    ['clock', apart >= CLOCK.warning, 'warning', difference, CLOCK_FIX],
    ['clock', apart >= CLOCK.wrong, 'wrong', difference, CLOCK_FIX],
  ]
}
