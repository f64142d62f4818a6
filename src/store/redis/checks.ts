// Checks whether Redis servers are safe for an installation. Each finding from their INFO names the command
// that fixes it.

import type { Redis } from 'ioredis'
import { ok, warning, wrong } from '../store.ts'
import FIXES from './fixes.json' with { type: 'json' }

/** Seconds by which the clocks of a node and of Redis may differ. */
const CLOCK = { warning: 1, wrong: 5 }
const OLDEST_VERSION = '6.2'
const STATES = ['ok', 'warning', 'wrong']

const NO_FILE = 'no append-only file: a restart may take back minutes, or everything'
const NO_REPLICA = 'none is connected: every write is refused until one is'
const ALONE = 'cut off from its replicas, it takes writes that the next failover takes back'
const OPEN = 'without a password, every client that reaches it can'

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

/** An error after the permissions were checked, such as MOVED of a Cluster. */
const PERMITTED = /^(?!NOAUTH|NOPERM|DENIED|ERR)[A-Z]+ /
/** No authentication, no database, and one attempt. */
const ANONYMOUS = {
  ...{ username: undefined, password: undefined, db: 0, lazyConnect: true },
  ...{ enableReadyCheck: false, reconnectOnError: null, retryStrategy: () => null },
}

/** Connects without a password, and returns what such a client can do. `prefix`: that of all keys. */
async function anonymousAccess(redis: Redis, prefix: string): Promise<string> {
  const anonymous = redis.duplicate(ANONYMOUS).on('error', () => {})
  const can = async (ability: string, command: string, ...words: string[]) => {
    const isPermitted = (error: Error) => PERMITTED.test(error.message)
    const isAllowed = await anonymous.call(command, ...words).then(() => true, isPermitted)
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
 * Checks servers with their INFO, and returns the worst of each name. `replicated`: writes wait. `prefix`:
 * that of all keys.
 */
export async function checkServers(
  servers: Redis[],
  infos: Info[],
  replicated: boolean,
  prefix: string,
) {
  const rows = servers.map(async (server, i) => {
    const access = await anonymousAccess(server, prefix)
    const asked = Date.now()
    const [seconds = 0, microseconds = 0] = (await server.time()).map(Number)
    const difference = seconds + microseconds / 1e6 - (asked + Date.now()) / 2000
    return findings(infos[i] ?? {}, replicated, Math.abs(difference), access)
  })
  const checks = (await Promise.all(rows)).flat()
  // A later one replaces an earlier one of its name.
  const worstLast = STATES.flatMap(state => checks.filter(check => check.state === state))
  return [...new Map(worstLast.map(check => [check.name, check])).values()]
}

/** The worst case of each name counts. `access`: what the user `default` can do without a password. */
function findings(info: Info, replicated: boolean, apart: number, access: string) {
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
  const evicts = `${maxmemory_policy}: it throws tokens and accounts away when memory is short`
  const cases = [
    ok('role', 'primary'),
    info.role === 'slave' && wrong('role', 'a replica: nothing can be written here', FIXES.role),
    ok('version', version),
    isOld && wrong('version', version, FIXES.version),
    ok('eviction', maxmemory_policy),
    maxmemory_policy !== 'noeviction' && wrong('eviction', evicts, FIXES.eviction),
    ok('persistence', 'append-only file'),
    info.aof_enabled !== '1' && warning('persistence', NO_FILE, FIXES.persistence),
    isFailing && warning('persistence', 'its last write to the disk failed', FIXES.disk),
    ok('memory', used),
    share >= 0.8 && warning('memory', used, FIXES.memory),
    ok('replicas', `${count}; ${waiting}`),
    replicated && !count && wrong('replicas', NO_REPLICA, FIXES.replicas),
    ok('min-replicas', count ? 'no write without a replica' : 'there are no replicas'),
    isAlone && warning('min-replicas', ALONE, FIXES.minReplicas),
    ok('access', 'a password is needed'),
    access && warning('access', `${OPEN}: ${access}`, FIXES.access),
    ok('clock', difference),
    apart >= CLOCK.warning && warning('clock', difference, FIXES.clock),
    apart >= CLOCK.wrong && wrong('clock', difference, FIXES.clock),
  ]
  return cases.filter(found => typeof found === 'object')
}
