// How Usher connects to Redis: the key `redis` of usher.yaml.

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
