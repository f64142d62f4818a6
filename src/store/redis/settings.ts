// How Usher connects to Redis: the URL in USHER_STORE, and the key `redis` of
// usher.yaml. The files that it names are read again at each connection.

import { readFileSync } from 'node:fs'
import { createSecureContext, type SecureContextOptions } from 'node:tls'
import type { RedisOptions } from 'ioredis'

/** Settings beside the URL. */
export interface RedisSettings {
  username?: string
  /** A file with the password, which is read again at each connection. */
  password_file?: string
  sentinel_password_file?: string
  database?: number
  /** The beginning of every key. */
  key_prefix: string
  /**
   * Files with the certificate authority and with the certificate of this
   * client, PEM.
   */
  tls?: { ca?: string; cert?: string; key?: string }
  /**
   * When a write is acknowledged: `replicated` waits for a replica, `auto`
   * waits where there is one.
   */
  durability: 'auto' | 'replicated' | 'primary'
}

/** The settings of a usher.yaml without the key `redis`. */
export const REDIS_DEFAULTS: RedisSettings = {
  key_prefix: 'usher:',
  durability: 'auto',
}

/**
 * Returns the parts of a URL that ioredis does not read: `redis+sentinel://`,
 * `redis+cluster://` and `redis+unix://`. `kind` is undefined for others.
 */
export function parseUrl(url: string) {
  const [, kind, userinfo = '', nodes = '', name] =
    /^redis\+(sentinel|cluster|unix):\/\/(?:(.*)@)?([^/@]*)\/?(.*)$/.exec(
      url,
    ) ?? []
  const [username, password] = userinfo.split(/:(.*)/s).map(decodeURIComponent)
  const hosts = nodes.split(/, */).map(node => {
    const { hostname, port } = new URL(`redis://${node}`)
    // ioredis knows the usual ports.
    return {
      host: hostname.replace(/^\[|\]$/g, ''),
      ...(port && { port: Number(port) }),
    }
  })
  return {
    kind,
    hosts,
    name,
    ...(username && { username }),
    ...(password && { password }),
  }
}

/**
 * Returns the options of a connection from the settings, and from the files
 * that they name. A file that cannot be read keeps its value in `last`.
 */
export function optionsOf(
  settings: RedisSettings,
  last: RedisOptions = {},
): RedisOptions {
  const {
    username,
    database: db,
    password_file,
    sentinel_password_file,
    tls,
  } = settings
  const secret = (name: 'password' | 'sentinelPassword', file?: string) =>
    file && { [name]: orLast(last[name], () => readPassword(file)) }
  const certificates = tls && orLast(last.tls, () => readCertificates(tls))
  return {
    ...(username && { username }),
    ...(db !== undefined && { db }),
    ...secret('password', password_file),
    ...secret('sentinelPassword', sentinel_password_file),
    ...(certificates && { tls: certificates, sentinelTLS: certificates }),
  }
}

/**
 * Returns what a file has, or the last value if it cannot be read. Throws if
 * there is no last value: at the start.
 */
function orLast<T>(last: T, readFile: () => T): T {
  try {
    return readFile()
  } catch (error) {
    if (last == null) throw error
    return last
  }
}

function readPassword(file: string): string {
  const secret = readFileSync(file, 'utf8').trim()
  if (!secret) throw new Error(`${file} is empty`)
  return secret
}

/**
 * Throws for a certificate without its key, which would end a connection for
 * good.
 */
function readCertificates(
  tls: NonNullable<RedisSettings['tls']>,
): SecureContextOptions {
  const files = Object.entries(tls).map(([name, file]) => [
    name,
    readFileSync(file),
  ])
  const options: SecureContextOptions = Object.fromEntries(files)
  createSecureContext(options)
  return options
}
