// Accounts of an external source: a directory, a database, another service.
// `accounts.module` in usher.yaml names a module of the operator that looks
// them up. Usher stores none of their passwords.
//
//   Subject id there → { id }                    written first, and never issued to another account
//   Outside usr_… → { external, since, ended }   the fields that Usher stores
//   OutsideName username folded → { id }         the account whose sign-ins are counted before the call
//
// A user whom the source disables or removes loses every session and token at
// the next use.

import type { Logger } from 'pino'
import { z } from 'zod'
import { revokeGrants } from '../oidc/adapter/grants.ts'
import type { Sessions } from '../oidc/adapter/sessions.ts'
import { BOUNDS } from '../oidc/bounds.ts'
import { tidy } from '../oidc/display-text.ts'
import { withTimeout } from '../operation/egress.ts'
import { importModule } from '../operation/external-keys.ts'
import {
  type Account,
  type Candidate,
  foldUsername,
  isUsername,
  newAccountId,
  profileSchema,
} from '../sign-in/account.ts'
import { findEnabledWith, type SourceAccounts } from '../sign-in/directory.ts'
import { isTooLong } from '../sign-in/password.ts'
import { PeerUnavailable, reasonOf } from '../store/reasons.ts'
import type { Records } from '../store/records.ts'
import { now } from '../store/store.ts'
import { mapOf } from '../store/values.ts'

/** Timeout of each call of the module. */
const SOURCE_TIMEOUT_MS = 1000
/** Lifetime of a looked-up account: one request needs it several times. */
const FRESH_MS = 1000
/** The kind of the records of accounts. */
const KIND = 'Outside'
const NAME_TTL_SECONDS = 400 * 24 * 3600

const absent = <T extends z.ZodType>(schema: T) =>
  schema.nullish().transform(value => value ?? undefined)

/** Attributes as JSON has them, without keys that are undefined. */
function asJson(
  attributes: object = {},
  ctx: z.RefinementCtx,
): Account['attributes'] {
  try {
    return JSON.parse(JSON.stringify(attributes))
  } catch {
    ctx.addIssue('is no JSON')
    return z.NEVER
  }
}

const sourceAccountSchema = z.object({
  id: z.string().min(1).max(256),
  username: z
    .string()
    .overwrite(tidy)
    .refine(isUsername)
    .regex(/^[^\p{DI}\u2800]*$/u),
  name: absent(profileSchema.shape.name),
  email: absent(profileSchema.shape.email),
  email_verified: z.boolean().nullish().transform(Boolean),
  attributes: absent(z.record(z.string(), z.unknown())).transform(asJson),
  enabled: z.boolean().default(true),
  updated: absent(z.int().min(0)),
})

/**
 * An account as the module returns it. `id` identifies the user permanently and
 * is never reused. `updated` is in epoch seconds. Without `enabled: false` the
 * user may sign in. Other keys are ignored.
 */
export type SourceAccount = z.input<typeof sourceAccountSchema>
type KnownAccount = z.output<typeof sourceAccountSchema>

/**
 * Returns an account by its `id`, at every use of a token and a session, or by
 * its `username`. Returns null if there is none: the access of that user ends.
 * Throws if it cannot know (a timeout, a refused connection, a 5xx): requests
 * that need the account are answered 503, and all tokens stay valid. Any other
 * value, such as undefined, is logged, and no access ends. `signal` aborts
 * after `SOURCE_TIMEOUT_MS`.
 */
export type Find = (
  query: { id: string } | { username: string },
  options: { signal: AbortSignal },
) => Promise<SourceAccount | null>

/**
 * Returns the account of these credentials, or null for a wrong password and
 * for an unknown name, after the same time for both. Throws and is aborted like
 * `Find`. Usher limits the rate of calls. `username` has 1 to 256 characters
 * without control characters, `password` 1 to 1024 bytes.
 */
export type Authenticate = (
  credentials: { username: string; password: string },
  options: { signal: AbortSignal },
) => Promise<SourceAccount | null>

/** Exports of the accounts module. */
export type AccountsSource = { find: Find; authenticate: Authenticate }

/**
 * Returns the accounts of `accounts.module`. Throws a `ConfigError` for a module
 * that cannot be used.
 */
export async function openSource(
  module: string,
  records: Records,
  sessions: Sessions,
  log?: Logger,
): Promise<SourceAccounts> {
  const functions = ['find', 'authenticate']
  const { exports } = await importModule(
    module,
    'accounts-module',
    ...functions,
  )
  return createSourceDirectory(records, sessions, exports, log)
}

interface Outside {
  external: string
  /** Epoch seconds. */
  since: number
  ended?: number
}

function createSourceDirectory(
  records: Records,
  sessions: Sessions,
  source: AccountsSource,
  log?: Logger,
): SourceAccounts {
  const recent = new Map<string, Promise<Account | undefined>>()
  const outsides = records.of<Outside>(KIND, { backup: true })
  const subjects = records.of<{ id: string }>('Subject', { backup: true })
  const names = records.of<{ id: string }>('OutsideName')
  const outsideOf = async (id: string) => (await outsides.read(id)).value

  /**
   * 'malformed': the account cannot sign in or be used, and its sessions and
   * tokens stay.
   */
  async function call(
    name: keyof AccountsSource,
    work: (options: { signal: AbortSignal }) => Promise<unknown>,
  ): Promise<KnownAccount | 'malformed' | undefined> {
    const found = await withTimeout(SOURCE_TIMEOUT_MS, work).catch(
      (error: unknown) => {
        const detail = `${name} of accounts.module: ${reasonOf(error)}`
        throw new PeerUnavailable(detail, { cause: error })
      },
    )
    if (found === null) return undefined
    const { success, data, error } = sourceAccountSchema.safeParse(found)
    if (success) return data
    // The log names the keys only, never the values.
    const wrong = error.issues.map(
      ({ path }) => path.join('.') || 'the whole value',
    )
    log?.error(
      { event: 'account_malformed', wrong },
      `${name} of accounts.module`,
    )
    const { email, ...others } = mapOf(found)
    return wrong.join() === 'email'
      ? sourceAccountSchema.parse(others)
      : 'malformed'
  }

  /** The first of two concurrent calls decides the id for both. */
  async function subjectOf(external: string): Promise<string> {
    const claimed = await subjects.read(external)
    if (claimed.value) return claimed.value.id
    const id = newAccountId()
    await outsides.save(id, { external, since: now() })
    if (await subjects.save(external, { id })) return id
    await outsides.remove(id)
    return subjectOf(external)
  }

  async function accountOf(id: string, found: KnownAccount): Promise<Account> {
    const { since = now(), ended } = (await outsideOf(id)) ?? {}
    return {
      ...found,
      id,
      created: since,
      updated: found.updated ?? since,
      ended,
    }
  }

  async function load(id: string): Promise<Account | undefined> {
    const outside = await outsideOf(id)
    if (!outside) return undefined
    const found = await call('find', options =>
      source.find({ id: outside.external }, options),
    )
    if (found === 'malformed') return undefined
    if (!found?.enabled) await endAccess(id)
    return found && accountOf(id, found)
  }

  function find(id: string): Promise<Account | undefined> {
    const known = recent.get(id)
    if (known) return known
    const account = load(id)
    // Ids come from requests, too: those of passkeys and of login_hint.
    if (recent.size >= BOUNDS.recentAccounts.max) return account
    recent.set(id, account)
    setTimeout(() => recent.delete(id), FRESH_MS).unref()
    account.catch(() => recent.delete(id))
    return account
  }

  async function findByUsername(
    username: string,
  ): Promise<Account | undefined> {
    if (!isUsername(username)) return undefined
    const found = await call('find', options =>
      source.find({ username }, options),
    )
    return found && found !== 'malformed'
      ? accountOf(await subjectOf(found.id), found)
      : undefined
  }

  /**
   * Reads the store only. The module is called after the attempt was counted.
   */
  async function candidate(username: string): Promise<Candidate> {
    const { value: remembered } = await names.read(foldUsername(username))
    const known = remembered && {
      id: remembered.id,
      ended: (await outsideOf(remembered.id))?.ended,
    }
    return {
      known,
      identify: known || !username ? undefined : () => identify(username),
      authenticate: password => authenticate(username, password),
    }
  }

  async function identify(username: string): Promise<Account | undefined> {
    const found = await findByUsername(username)
    if (found) await rememberName(username, found.id)
    return found
  }

  async function authenticate(
    username: string,
    password: string,
  ): ReturnType<Candidate['authenticate']> {
    if (!username) return { refusal: 'unknown' }
    if (!password || isTooLong(password)) return { refusal: 'wrong_password' }
    const credentials = { username, password }
    const found = await call('authenticate', options =>
      source.authenticate(credentials, options),
    )
    if (found === 'malformed') return { refusal: 'malformed' }
    if (!found) return { refusal: 'wrong_password' }
    if (!found.enabled) return { refusal: 'disabled' }
    const account = await accountOf(await subjectOf(found.id), found)
    await rememberName(username, account.id)
    return { account }
  }

  async function rememberName(username: string, id: string): Promise<void> {
    await names.change(foldUsername(username), () => ({ id }), {
      ttl: NAME_TTL_SECONDS,
    })
  }

  async function endAccess(id: string): Promise<void> {
    const end = (it: Outside) => ({
      ...it,
      ended: Math.max(now(), (it.ended ?? 0) + 1),
    })
    await outsides.change(id, ({ value }) => value && end(value))
    recent.delete(id)
    await sessions.endAll(id)
    await revokeGrants(records, id)
  }

  return {
    isOwn: false,
    find,
    recordName: id => [KIND, id],
    findEnabled: findEnabledWith(find),
    findByUsername,
    candidate,
  }
}
