// Checks whether Redis servers are safe for an installation. Each finding from
// their INFO names the command that fixes it.

import type { Redis, RedisOptions } from 'ioredis'
import { type Check, ok, warning, wrong } from '../store.ts'

/** Seconds by which the clocks of a node and of Redis may differ. */
const CLOCK = { warning: 1, wrong: 5 }
/** From this share of maxmemory on, there is a warning. */
const FULL_SHARE = 0.8
const OLDEST_VERSION = '6.2'
const STATES = ['ok', 'warning', 'wrong']

type Info = Record<string, string>

/** Returns the lines of INFO, by name. */
export async function readInfo(redis: Redis): Promise<Info> {
  const text = await redis.info()
  const lines = text.split('\r\n').map(line => line.split(/:(.*)/))
  return Object.fromEntries(
    lines.filter(([name, value]) => name && value !== undefined),
  )
}

/**
 * The lines of INFO about replicas that are connected and have their first
 * copy.
 */
const replicasOf = (info: Info) =>
  Object.entries(info)
    .filter(
      ([name, value]) => /^slave\d+$/.test(name) && /state=online/.test(value),
    )
    .map(([, value]) => value)

/**
 * Whether a replica has confirmed a write. A replica is online while it still
 * loads its first copy.
 */
export const hasReplica = (info: Info) =>
  replicasOf(info).some(value => /offset=[1-9]/.test(value))

/** An error after the permissions were checked, such as MOVED of a Cluster. */
const PERMITTED = /^(?!NOAUTH|NOPERM|DENIED|ERR)[A-Z]+ /
/** No authentication, no database, and one attempt. */
const ANONYMOUS: RedisOptions = {
  username: undefined,
  password: undefined,
  db: 0,
  lazyConnect: true,
  enableReadyCheck: false,
  reconnectOnError: null,
  retryStrategy: () => null,
}

/**
 * Connects without a password, and returns what such a client can do. `prefix`:
 * that of all keys.
 */
async function anonymousAccess(redis: Redis, prefix: string): Promise<string> {
  const anonymous = redis.duplicate(ANONYMOUS).on('error', () => {})
  const can = async (ability: string, command: string, ...words: string[]) => {
    const isPermitted = (error: Error) => PERMITTED.test(error.message)
    const isAllowed = await anonymous
      .call(command, ...words)
      .then(() => true, isPermitted)
    return isAllowed ? [ability] : []
  }
  // No record has this name.
  const key = `${prefix}r:none`
  try {
    await anonymous.connect()
    const all = [
      can('read records', 'exists', key),
      can('change and delete records', 'unlink', key),
      can('read settings', 'config', 'get', 'maxmemory'),
    ]
    return (await Promise.all(all)).flat().join(', ')
  } catch {
    return ''
  } finally {
    anonymous.disconnect()
  }
}

/**
 * Checks servers with their INFO, and returns the worst of each name.
 * `isReplicated`: writes wait. `prefix`: that of all keys.
 */
export async function checkServers(
  servers: Redis[],
  infos: Info[],
  isReplicated: boolean,
  prefix: string,
): Promise<Check[]> {
  const perServer = servers.map(async (server, i) => {
    const info = infos[i] ?? {}
    const access = await anonymousAccess(server, prefix)
    const secondsApart = await clockDifference(server)
    return [
      checkRole(info),
      checkVersion(info),
      checkEviction(info),
      checkPersistence(info),
      checkMemory(info),
      checkReplicas(info, isReplicated),
      checkMinReplicas(info),
      checkAccess(access),
      checkClock(secondsApart),
    ]
  })
  const checks = (await Promise.all(perServer)).flat()
  // A later one replaces an earlier one of its name.
  const worstLast = STATES.flatMap(state =>
    checks.filter(check => check.state === state),
  )
  const byName = new Map(worstLast.map(check => [check.name, check]))
  return [...byName.values()]
}

/** The seconds by which the clocks of a server and of this process differ. */
async function clockDifference(server: Redis): Promise<number> {
  const asked = Date.now()
  const [seconds = 0, microseconds = 0] = (await server.time()).map(Number)
  const answered = Date.now()
  const ownSeconds = (asked + answered) / 2000
  return Math.abs(seconds + microseconds / 1e6 - ownSeconds)
}

function checkRole({ role }: Info): Check {
  if (role !== 'slave') return ok('role', 'primary')
  const fix = 'name the primary, or Sentinel (redis+sentinel://)'
  return wrong('role', 'a replica: nothing can be written here', fix)
}

function checkVersion({ redis_version = '0', valkey_version }: Info): Check {
  const version = valkey_version
    ? `Valkey ${valkey_version}`
    : `Redis ${redis_version}`
  const isOld =
    redis_version.localeCompare(OLDEST_VERSION, 'en', { numeric: true }) < 0
  return isOld
    ? wrong('version', version, 'use Redis 6.2 or later, or Valkey')
    : ok('version', version)
}

function checkEviction({
  maxmemory_policy: policy = 'noeviction',
}: Info): Check {
  if (policy === 'noeviction') return ok('eviction', policy)
  const found = `${policy}: it throws tokens and accounts away when memory is short`
  return wrong(
    'eviction',
    found,
    'redis-cli CONFIG SET maxmemory-policy noeviction',
  )
}

function checkPersistence(info: Info): Check {
  const isFailing = [
    info.aof_last_write_status,
    info.rdb_last_bgsave_status,
  ].includes('err')
  if (isFailing) {
    const fix = 'look at its log and the space on its disk'
    return warning('persistence', 'its last write to the disk failed', fix)
  }
  if (info.aof_enabled === '1') return ok('persistence', 'append-only file')
  const found =
    'no append-only file: a restart may take back minutes, or everything'
  return warning('persistence', found, 'redis-cli CONFIG SET appendonly yes')
}

function checkMemory({ maxmemory, used_memory }: Info): Check {
  const limit = Number(maxmemory)
  if (!limit) return ok('memory', 'no maxmemory is set')
  const share = Number(used_memory) / limit
  const found = `${Math.round(share * 100)} % of maxmemory`
  if (share < FULL_SHARE) return ok('memory', found)
  return warning(
    'memory',
    found,
    'raise maxmemory: when it is full, no user can sign in',
  )
}

function checkReplicas(info: Info, isReplicated: boolean): Check {
  const count = replicasOf(info).length
  if (!isReplicated)
    return ok('replicas', `${count}; writes do not wait for them`)
  if (count)
    return ok('replicas', `${count}; a write succeeds when one of them has it`)
  const found = 'none is connected: every write is refused until one is'
  return wrong(
    'replicas',
    found,
    'start a replica, or set redis.durability: primary',
  )
}

function checkMinReplicas(info: Info): Check {
  const hasReplicas = replicasOf(info).length > 0
  if (!hasReplicas) return ok('min-replicas', 'there are no replicas')
  // INFO has this count only if `min-replicas-to-write` is set.
  if (info.min_slaves_good_slaves)
    return ok('min-replicas', 'no write without a replica')
  const found =
    'cut off from its replicas, it takes writes that the next failover takes back'
  return warning(
    'min-replicas',
    found,
    'redis-cli CONFIG SET min-replicas-to-write 1',
  )
}

/**
 * `access`: what the user `default` can do without a password; empty: nothing.
 */
function checkAccess(access: string): Check {
  if (!access) return ok('access', 'a password is needed')
  const found = `without a password, every client that reaches it can: ${access}`
  const fix =
    'redis-cli CONFIG SET requirepass PASSWORD, and ACL SAVE where it has an aclfile: docs/redis.md'
  return warning('access', found, fix)
}

function checkClock(secondsApart: number): Check {
  const found = `${secondsApart.toFixed(1)} s apart from Redis`
  const fix =
    'keep the clocks of all machines right (chrony, systemd-timesyncd)'
  if (secondsApart >= CLOCK.wrong) return wrong('clock', found, fix)
  if (secondsApart >= CLOCK.warning) return warning('clock', found, fix)
  return ok('clock', found)
}
