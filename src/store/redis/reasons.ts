// Why a Redis cannot be used, with what to write instead: usual mistakes in its
// URL and its settings.

/**
 * The meaning of an error of Redis or of its client, by its words. The first
 * that fits is used.
 */
const REASONS: [words: RegExp, meaning: string][] = [
  [
    /^(MOVED|ASK|CROSSSLOT|CLUSTERDOWN) /,
    'this is a server of a Cluster: write redis+cluster://HOST:PORT,HOST:PORT',
  ],
  [
    /unknown command '?sentinel/i,
    'this is no Sentinel: write redis://HOST:PORT',
  ],
  [/No such master/, 'the Sentinels know another NAME: the end of the URL'],
  [/ECONNREFUSED/, 'nothing listens at this address'],
  [/ENOTFOUND|EAI_AGAIN/, 'the name of the host is not found'],
  [
    /cluster support disabled/,
    'this is no server of a Cluster: write redis://HOST:PORT',
  ],
  [
    /WRONGPASS/,
    'the user name or the password is wrong: the URL, redis.username, redis.password_file',
  ],
  [
    /NOAUTH|without any password/,
    'the password of the URL, or redis.password_file, does not fit',
  ],
  [/NOPERM/, 'its user may not do this: docs/redis.md has the permissions'],
  [/DENIED/, 'Redis is in protected mode: it needs a password, docs/redis.md'],
  [
    /DB index|invalid DB/i,
    'it has no database of this number: redis.database, or the end of the URL',
  ],
  [
    /wrong version number|packet length too long|SSL routines|ssl3_get_record/i,
    'it does not speak TLS at this port: write redis:// in place of rediss://',
  ],
  [
    /Protocol error|unexpected.*\\u0015/i,
    'it speaks TLS at this port: write rediss:// in place of redis://',
  ],
  [
    /self.signed|unable to (verify|get)|UNABLE_TO_VERIFY/i,
    'its certificate is of another authority: redis.tls.ca',
  ],
  [/certificate has expired/i, 'its certificate has expired: renew it'],
  [
    /altnames|does not match certificate/i,
    'its certificate is for another name than that of the URL',
  ],
]

/**
 * Errors of a connection, which may be of the other kind: with TLS, or without.
 */
const OTHER_KIND = {
  rediss:
    'no TLS was answered: if it speaks none at this port, write redis:// in place of rediss://',
  redis:
    'it closed the connection: if it speaks TLS at this port, write rediss:// in place of redis://',
}

/**
 * Returns an error of Redis with its meaning, where it is one of the usual
 * mistakes.
 */
export function redisReason(url: string, error: string): string {
  const message = error.replace(/; if the root CA is installed locally.*/s, '')
  const [, meaning] = REASONS.find(([words]) => words.test(message)) ?? []
  if (meaning) return `${message}: ${meaning}`
  const hasTls = url.startsWith('rediss:')
  if (hasTls && /ETIMEDOUT|no answer/.test(message))
    return `${message}: ${OTHER_KIND.rediss}`
  const isClosed = /ECONNRESET|Connection is closed|EPIPE/.test(message)
  return isClosed && !hasTls ? `${message}: ${OTHER_KIND.redis}` : message
}

/**
 * Returns why servers do not fit to a URL, by `redis_mode` of their INFO;
 * undefined if they do.
 */
export function modeProblem(
  url: string,
  mode = 'standalone',
): string | undefined {
  const isCluster = url.startsWith('redis+cluster:')
  if (mode === 'cluster' && !isCluster) {
    return 'this is a server of a Cluster: write redis+cluster://HOST:PORT,HOST:PORT'
  }
  if (mode === 'sentinel')
    return 'this is a Sentinel: write redis+sentinel://HOST:PORT,HOST:PORT/NAME'
  return undefined
}
