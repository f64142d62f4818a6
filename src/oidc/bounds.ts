// Everything that a stranger can make or send has a bound of its own. This
// table has all of them, and the code takes its numbers from here. A stranger
// is anyone who has not signed in, and a client that anyone can make: by a
// metadata document, or by open registration.
//
// To add a bound:
//   1  add a row below, in the group of what it protects
//   2  take the number from it where it is enforced, such as `createQuota(BOUNDS.keySets)` or
//      `BOUNDS.bodies.max`
//   3  run `npm run reference`, which writes the table of docs/reference/limits.md
// Tests check that the document has this table, that `src` uses each row, and that each rate limiter has a row.
//
// Rules for a bound:
//   - A request is refused before anything is added to a map or to the store.
//   - Strangers never use up a bound of clients that the operator knows: those have a bound of their own.
//   - Networks are counted by `networkOf` (client-info.ts) alone.
//   - Nothing is counted by reading the contents of records.

/** The resource that a bound protects. */
type Protects =
  | 'memory'
  | 'store'
  | 'CPU'
  | 'other servers'
  | 'mailboxes'
  | 'log'

/**
 * The scope in which the number is counted. `request`: each request or document
 * alone. `all`: everybody together.
 */
type Per =
  | 'request'
  | 'network'
  | 'network and host'
  | 'network and name'
  | 'network and client'
  | 'account'
  | 'mailbox'
  | 'client'
  | 'code'
  | 'all'

interface Row {
  /** The thing that a stranger makes or sends, for the document. */
  what: string
  protects: Protects
  per: Per
}

/**
 * At most `max` in a time window of `seconds`, in the memory of each process.
 */
export interface Quota extends Row {
  max: number
  seconds: number
}

/** A size or a number. `unit`: of `max`, for the document. */
interface Size extends Row {
  max: number
  unit: string
}

/**
 * Attempts without a wait, and the longest wait for each further one. All
 * processes count together.
 */
interface Attempts extends Row {
  attempts: number
  maxWaitSeconds: number
}

/** A key of usher.yaml has the number. */
interface Configured extends Row {
  setting: string
  /** The number is this many times the one in usher.yaml. */
  factor?: number
  unit: string
}

/** A bound of one thing that a stranger makes or sends. */
export type Bound = Quota | Size | Attempts | Configured

/** The bounds, by name. */
export const BOUNDS = {
  connections: {
    what: 'Open connections of a process',
    protects: 'memory',
    per: 'all',
    max: 5000,
    unit: 'connections',
  },
  urls: {
    what: 'Path and query, or the parameters of a request without those below',
    protects: 'memory',
    per: 'request',
    max: 8 * 1024,
    unit: 'bytes',
  },
  texts: {
    what: '`state`, `nonce`, `scope`, `claims` and `authorization_details`, each',
    protects: 'memory',
    per: 'request',
    max: 4096,
    unit: 'characters',
  },
  // An ID token with 200 groups has 17 kB, and is a third longer within a
  // request object.
  idTokenHints: {
    what: '`id_token_hint`',
    protects: 'memory',
    per: 'request',
    max: 20 * 1024,
    unit: 'characters',
  },
  requestObjects: {
    what: '`request`, a request object',
    protects: 'memory',
    per: 'request',
    max: 28 * 1024,
    unit: 'characters',
  },
  // The limit of the library. The consent page has a field for each scope.
  bodies: {
    what: 'The body of a request',
    protects: 'memory',
    per: 'request',
    max: 56 * 1024,
    unit: 'bytes',
  },
  documentAddresses: {
    what: 'A `client_id` that is the address of a metadata document',
    protects: 'memory',
    per: 'request',
    max: 2048,
    unit: 'bytes',
  },
  // RFC 1035 §2.3.4
  documentHosts: {
    what: 'The host of that address',
    protects: 'memory',
    per: 'request',
    max: 253,
    unit: 'characters',
  },
  documents: {
    what: 'A metadata document',
    protects: 'memory',
    per: 'request',
    max: 5 * 1024,
    unit: 'bytes',
  },
  responses: {
    what: 'The answer of another server, such as a key set',
    protects: 'memory',
    per: 'request',
    max: 64 * 1024,
    unit: 'bytes',
  },
  countedKeys: {
    what: 'Networks, hosts and accounts that one limiter of a process counts. Further ones share one count',
    protects: 'memory',
    per: 'all',
    max: 100_000,
    unit: 'keys',
  },
  locales: {
    what: 'Languages with a region of `Accept-Language` whose dates and numbers are kept',
    protects: 'memory',
    per: 'all',
    max: 200,
    unit: 'languages',
  },
  recentAccounts: {
    what: 'Ids of users that `accounts.module` has looked up in the last second',
    protects: 'memory',
    per: 'all',
    max: 10_000,
    unit: 'ids',
  },
  details: {
    what: 'Authorization details of a request',
    protects: 'memory',
    per: 'request',
    max: 10,
    unit: 'details',
  },
  hashes: {
    what: 'The expected wait until a password is checked',
    protects: 'CPU',
    per: 'all',
    max: 5,
    unit: 'seconds',
  },
  passwords: {
    what: 'A password',
    protects: 'CPU',
    per: 'request',
    max: 1024,
    unit: 'bytes',
  },
  documentsOfNetwork: {
    what: 'Metadata documents that are fetched',
    protects: 'other servers',
    per: 'network',
    max: 60,
    seconds: 60,
  },
  documentsAtHost: {
    what: 'Metadata documents that are fetched from one host',
    protects: 'other servers',
    per: 'network and host',
    max: 30,
    seconds: 60,
  },
  // Key sets of clients in the config folder have no quota: each address is
  // requested twice a minute at most.
  keySetsOfNetwork: {
    what: 'Key sets that are fetched for clients with a metadata document',
    protects: 'other servers',
    per: 'network',
    max: 60,
    seconds: 60,
  },
  // Their answers stay in memory for 30 s.
  keySets: {
    what: 'The same of all networks',
    protects: 'memory',
    per: 'all',
    max: 600,
    seconds: 60,
  },
  keySetsOfClient: {
    what: 'Addresses of key sets that are fetched for a client that registered with an invitation',
    protects: 'other servers',
    per: 'client',
    max: 10,
    seconds: 60,
  },
  clientKeys: {
    what: 'Keys of a client without a file in `clients/`',
    protects: 'CPU',
    per: 'client',
    max: 10,
    unit: 'keys',
  },
  openMetadata: {
    what: 'The metadata of a client that registered without an invitation',
    protects: 'store',
    per: 'client',
    max: 4 * 1024,
    unit: 'bytes',
  },
  openClients: {
    what: 'Clients without an invitation to which no user has signed in',
    protects: 'store',
    per: 'all',
    max: 1000,
    unit: 'clients',
  },
  openRegistrations: {
    what: 'Registrations without an invitation',
    protects: 'store',
    per: 'network',
    max: 20,
    seconds: 3600,
  },
  failuresOfClient: {
    what: 'Failed requests that are kept for `config explain`. Clients without a registration are one client',
    protects: 'store',
    per: 'network and client',
    max: 60,
    seconds: 60,
  },
  failures: {
    what: 'The same of all clients in `clients/`',
    protects: 'store',
    per: 'all',
    max: 240,
    seconds: 60,
  },
  failuresOfStrangers: {
    what: 'The same of all other clients',
    protects: 'store',
    per: 'all',
    max: 120,
    seconds: 60,
  },
  failuresOfPages: {
    what: 'The same of all pages',
    protects: 'store',
    per: 'all',
    max: 120,
    seconds: 60,
  },
  ignoredPartsOfClient: {
    what: 'Requests with a part that has no effect that are kept for `config explain`',
    protects: 'store',
    per: 'network and client',
    max: 20,
    seconds: 60,
  },
  ignoredParts: {
    what: 'The same of all clients',
    protects: 'store',
    per: 'all',
    max: 120,
    seconds: 60,
  },
  storedRequests: {
    what: 'Requests that store something: authorization requests, sign-outs, registrations, wrong sign-ins, forms that send a mail, unknown links, and pushed requests, device authorizations, client assertions and DPoP proofs of clients that are public or have a metadata document',
    protects: 'store',
    per: 'network',
    setting: 'limits.anonymous',
    unit: 'a minute',
  },
  storedRequestsOfAccount: {
    what: 'The same of a signed-in user',
    protects: 'store',
    per: 'account',
    setting: 'limits.anonymous',
    factor: 4,
    unit: 'a minute',
  },
  storedMegabytes: {
    what: 'Records of all these requests. Networks that have more than an equal share are refused first',
    protects: 'store',
    per: 'all',
    setting: 'limits.anonymous_megabytes',
    unit: 'MB',
  },
  signInsOfAccount: {
    what: 'Wrong passwords and second factors. Each browser in which the user has signed in has its own count',
    protects: 'CPU',
    per: 'account',
    setting: 'security.account_attempts',
    unit: 'at once, then one after a wait of at most 15 min',
  },
  secondFactorsOfAccount: {
    what: 'Wrong second factors from all browsers together',
    protects: 'CPU',
    per: 'account',
    setting: 'security.account_attempts',
    factor: 4,
    unit: 'at once, then one after a wait of at most 15 min',
  },
  signInsOfNetwork: {
    what: 'Wrong passwords and second factors of all accounts and unknown names',
    protects: 'CPU',
    per: 'network',
    setting: 'security.network_attempts',
    unit: 'at once, then one each 6 s',
  },
  metadata: {
    what: 'Metadata of a client that registers with an invitation',
    protects: 'store',
    per: 'client',
    max: 16 * 1024,
    unit: 'bytes',
  },
  factors: {
    what: 'Second factors',
    protects: 'store',
    per: 'account',
    max: 20,
    unit: 'factors',
  },
  factorsSize: {
    what: 'Second factors together, as JSON',
    protects: 'store',
    per: 'account',
    max: 32 * 1024,
    unit: 'characters',
  },
  sessions: {
    what: 'Sessions. A further one ends the oldest',
    protects: 'store',
    per: 'account',
    max: 100,
    unit: 'sessions',
  },
  unknownLinks: {
    what: 'Unknown links that are opened',
    protects: 'store',
    per: 'network',
    attempts: 100,
    maxWaitSeconds: 6,
  },
  deviceCodesOfNetwork: {
    what: 'Wrong user codes of devices',
    protects: 'store',
    per: 'network',
    attempts: 100,
    maxWaitSeconds: 6,
  },
  deviceCodesOfAccount: {
    what: 'Wrong user codes of devices',
    protects: 'store',
    per: 'account',
    attempts: 5,
    maxWaitSeconds: 5 * 60,
  },
  passwordForms: {
    what: 'New passwords',
    protects: 'CPU',
    per: 'account',
    attempts: 60,
    maxWaitSeconds: 60,
  },
  accessRequests: {
    what: 'Backchannel authentication requests (CIBA)',
    protects: 'store',
    per: 'client',
    attempts: 1000,
    maxWaitSeconds: 1,
  },
  // A request may arrive a second early: networks and timers are not exact.
  polls: {
    what: 'Requests of a device or client that polls for its tokens',
    protects: 'store',
    per: 'code',
    attempts: 1,
    maxWaitSeconds: 4,
  },
  mailForms: {
    what: 'Forms that send a mail: forgotten passwords, sign-up',
    protects: 'mailboxes',
    per: 'network',
    attempts: 30,
    maxWaitSeconds: 60,
  },
  unaskedMails: {
    what: 'Mails that its owner may not have asked for. The wait doubles with each until a link is used',
    protects: 'mailboxes',
    per: 'mailbox',
    attempts: 1,
    maxWaitSeconds: 24 * 3600,
  },
  forgottenPasswords: {
    what: 'Links for a forgotten password. The wait doubles with each until one is used',
    protects: 'mailboxes',
    per: 'account',
    attempts: 1,
    maxWaitSeconds: 24 * 3600,
  },
  newAddresses: {
    what: 'New addresses that are to be confirmed',
    protects: 'mailboxes',
    per: 'account',
    attempts: 5,
    maxWaitSeconds: 15 * 60,
  },
  probes: {
    what: 'Writes of `/readyz` to the store',
    protects: 'store',
    per: 'all',
    max: 1,
    seconds: 1,
  },
  logLinesOfNetwork: {
    what: 'Log lines of failed requests, and as many of failed sign-ins',
    protects: 'log',
    per: 'network',
    max: 100,
    seconds: 1,
  },
  logLines: {
    what: 'The same of all networks',
    protects: 'log',
    per: 'all',
    max: 200,
    seconds: 1,
  },
} satisfies Record<string, Bound>
