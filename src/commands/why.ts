// `usher accounts why`: what prevents an account from signing in.
// `config explain` has the same reasons.

import { isIP } from 'node:net'
import { readSettings, type Settings } from '../config/load.ts'
import { fill } from '../config/report/wording.ts'
import type { ClientMetadata } from '../config/schema/client.ts'
import type { FactorRefusal } from '../features/factors/attempts.ts'
import {
  describeFactors,
  type Factors,
  isPasskey,
} from '../features/factors/factors.ts'
import { createRules } from '../features/factors/rules.ts'
import {
  domainOf,
  type UpstreamRefusal,
} from '../features/upstream/identities.ts'
import {
  missingAttributes,
  NOT_ALLOWED,
  SWITCHED_OFF,
  type UseRefusal,
} from '../oidc/clients.ts'
import { PASSKEY, PASSWORD } from '../oidc/vocabulary.ts'
import {
  type Account,
  foldUsername,
  type Refusal,
  typedName,
} from '../sign-in/account.ts'
import {
  accountCounter,
  networkCounter,
  signInLimits,
} from '../sign-in/authentication.ts'
import { isExpired } from '../sign-in/directory.ts'
import type { Counter } from '../sign-in/rate-limit.ts'
import { now } from '../store/store.ts'
import { Failure, type Invocation, requireOne } from './command.ts'
import { folderNotes, printWithNotes } from './folder-notes.ts'
import { findAccount, openAccountStore } from './open-account.ts'
import { openState, type State } from './open-store.ts'
import { secondOf, shellWord } from './output.ts'
import texts from './refusals.json' with { type: 'json' }

const EVERYWHERE =
  'every network, except in browsers in which the user signed in before'

/** A problem, and its remedy. */
export type Said = { wrong: string; change: string }

/** Why a sign-in was refused, by the reason in the log. */
export const SIGN_IN: Record<Refusal | UpstreamRefusal | FactorRefusal, Said> =
  texts.sign_in

/**
 * Why the users or the tokens of a client are refused, by the beginning of the
 * reason in the log.
 */
export const CLIENT_REFUSALS: Record<UseRefusal, Said> = {
  [NOT_ALLOWED]: texts.client.not_allowed,
  [SWITCHED_OFF]: texts.client.switched_off,
}

/** `until`: epoch seconds. */
type Obstacle = Said & { reason: string; until?: number }

/**
 * `accounts why ACCOUNT [--client CLIENT_ID] [--ip ADDRESS]`: reads what
 * prevents a sign-in, and changes nothing.
 */
export async function explainSignIn({
  values,
  flags,
  args: [name = ''],
}: Invocation) {
  const { ip } = values
  if (ip !== undefined && !isIP(ip)) {
    throw new Failure('--ip takes an IP address, as `ip` in the log: 192.0.2.7')
  }
  const settings = await readSettings()
  const client = clientNamed(values.client, settings)
  const methods = methodsFor(client, settings)
  const state = await openState()
  const accounts = await openAccountStore(state)
  const account = await findAccount(accounts, name, settings.sign_in.by)
  const factors = await state.factors.read(account?.id ?? '')
  const upstreams = upstreamsOf(account, settings).map(describeUpstream)
  const usable = createRules(settings).usable(factors)
  const ways = waysToSignIn(account, usable, settings).filter(({ method }) =>
    methods.includes(method),
  )
  const counter = account
    ? accountCounter(account.id)
    : `name ${foldUsername(typedName(name))}`
  const reasons = [
    ...accountObstacles(account, ways, methods, settings.accounts.module),
    ...methodObstacles(account, ways, methods, client),
    ...clientObstacles(client, account),
    ...(await rateLimits(state, settings, counter, ip)),
  ]
  const link = account && (await openLinkOf(state, account))

  const lines = reasons.flatMap(({ wrong, change }) => [wrong, `  → ${change}`])
  if (!reasons.length) {
    const phrases = ways.map(({ phrase }) => phrase)
    const none = `Nothing prevents a sign-in ${phrases.join(' or ')}.`
    const missing = isFactorMissing(account, usable, ways, client, settings)
      ? FACTOR_MISSING
      : ''
    lines.push(
      none +
        describeTemporary(account, ways) +
        describeFactors(factors) +
        missing,
    )
  }
  if (link)
    lines.push(`The link for a password is open until ${secondOf(link.until)}.`)
  const record = {
    account: account?.id,
    upstreams,
    link_until: link?.until,
    reasons,
  }
  printWithNotes(flags, await folderNotes(), record, lines)
  const where = client ? ` to ${client.client_id}` : ''
  if (reasons.length)
    throw new Failure(`The account cannot sign in${where} at the moment.`)
}

/** Returns the client of the folder with an id. Throws a `Failure` if none has. */
const clientNamed = (id: string | undefined, { clients }: Settings) =>
  id === undefined ? undefined : requireOne('Client', id, clients, 'client_id')

/**
 * Returns the methods by which users sign in: to the client, or without one, to
 * those that require none.
 */
export function methodsFor(
  client: Pick<ClientMetadata, 'require_sign_in'> | undefined,
  { sign_in, upstreams }: Pick<Settings, 'sign_in' | 'upstreams'>,
): string[] {
  if (client?.require_sign_in) return [client.require_sign_in]
  return sign_in.methods ?? [PASSWORD, ...Object.keys(upstreams)]
}

/** A way in which an account can sign in. */
interface Way {
  /** Its name in `sign_in.methods`. */
  method: string
  /** The end of a sentence. */
  phrase: string
}

/** Returns the upstream issuers that the account has a link to. */
function upstreamsOf(account: Account | undefined, { upstreams }: Settings) {
  const linked = account?.links?.map(({ issuer }) => issuer) ?? []
  return Object.values(upstreams).filter(({ issuer }) =>
    linked.includes(issuer),
  )
}

const describeUpstream = ({ name, issuer }: Settings['upstreams'][string]) =>
  `${name} (${issuer})`

/** Returns the ways that an account has, whether they are in use or not. */
function waysToSignIn(
  account: Account | undefined,
  usable: Factors,
  settings: Settings,
): Way[] {
  const ways: Way[] = []
  if (settings.accounts.module || account?.password)
    ways.push({ method: PASSWORD, phrase: 'with the right password' })
  if (usable.factors.some(isPasskey))
    ways.push({ method: PASSKEY, phrase: 'with a passkey' })
  for (const upstream of upstreamsOf(account, settings))
    ways.push({
      method: upstream.name,
      phrase: `at ${describeUpstream(upstream)}`,
    })
  for (const upstream of Object.values(settings.upstreams)) {
    if (!isLinkedByEmail(account, upstream)) continue
    const phrase = `at ${describeUpstream(upstream)}, which links the account by its address`
    ways.push({ method: upstream.name, phrase })
  }
  return ways
}

/** Whether a sign-in at the upstream adds a link to the account. */
function isLinkedByEmail(
  account: Account | undefined,
  { link_by_verified_email, allow }: Settings['upstreams'][string],
): boolean {
  const isOpen = account?.email_verified && !account.links?.length
  if (!isOpen || !link_by_verified_email) return false
  return allow.email_domains?.includes(domainOf(account.email)) ?? false
}

const FACTOR_MISSING =
  ' A second factor is required, and the account has none: the user adds one at the sign-in.'

/**
 * Whether the account, or the client, needs a second factor that the account
 * does not have. An upstream can be exempt.
 */
function isFactorMissing(
  account: Account | undefined,
  usable: Factors,
  ways: Way[],
  client: Pick<ClientMetadata, 'second_factor'> | undefined,
  settings: Settings,
): boolean {
  if (!account || usable.factors.length) return false
  const rules = createRules(settings)
  const isRequired =
    client?.second_factor === 'required' || rules.isRequired(account)
  return isRequired && !ways.every(({ method }) => rules.isExempt([method]))
}

/**
 * Returns what prevents every sign-in of an account. `module`:
 * `accounts.module`, which keeps the accounts.
 */
function accountObstacles(
  account: Account | undefined,
  ways: Way[],
  methods: string[],
  module: string | undefined,
): Obstacle[] {
  if (!account) return [obstacle('unknown')]
  const found: Obstacle[] = []
  if (account.enabled === false) found.push(obstacle('disabled', account.id))
  const hasPassword = methods.includes(PASSWORD)
  if (hasPassword && !ways.length)
    found.push(obstacle('no_password', account.id))
  if (hasPassword && isExpired(account))
    found.push(obstacle('password_expired', account.id))
  if (!module) return found
  return found.map(each => ({
    ...each,
    change: `change it where ${module} reads it`,
  }))
}

/**
 * Returns the obstacle of an account that has none of the methods in use, and
 * `password` is not one of them.
 */
function methodObstacles(
  account: Account | undefined,
  ways: Way[],
  methods: string[],
  client: ClientMetadata | undefined,
): Obstacle[] {
  if (!account || ways.length || methods.includes(PASSWORD)) return []
  const place = client?.require_sign_in
    ? `require_sign_in in the file of ${client.client_id}`
    : 'sign_in.methods in usher.yaml'
  const upstream = methods.find(name => name !== PASSKEY)
  const link = `npm run usher -- accounts link ${account.id} --upstream ${upstream} --subject SUB`
  return [
    {
      reason: 'method_missing',
      wrong: `the account cannot sign in by a method that is allowed here: ${methods.join(', ')}`,
      change: upstream ? `${link}; or ${place}` : place,
    },
  ]
}

function obstacle(reason: Refusal, account = 'ACCOUNT'): Obstacle {
  const { wrong, change } = SIGN_IN[reason]
  return { reason, wrong, change: fill(change, { account }) }
}

/**
 * Returns the rate limits that a sign-in meets: that of the account, and with
 * `ip` that of its network.
 */
async function rateLimits(
  { attempts }: State,
  { security }: Settings,
  counter: string,
  ip: string | undefined,
): Promise<Obstacle[]> {
  const { perAccount, perNetwork } = signInLimits(security)
  const limits: [where: string, counter: Counter][] = [
    [EVERYWHERE, [counter, perAccount]],
  ]
  if (ip)
    limits.push([`the network of ${ip}`, [networkCounter(ip), perNetwork]])
  const found: Obstacle[] = []
  for (const [where, counter] of limits) {
    const until = Math.ceil((await attempts.dueTime(counter)) / 1000)
    if (until <= now()) continue
    const wrong = `throttled from ${where}, until ${secondOf(until)}`
    const change = 'wait; the limit expires by itself'
    found.push({ reason: 'throttled', wrong, change, until })
  }
  return found
}

/**
 * Returns the link with which the user can choose a password: of an operator,
 * or of a forgotten password.
 */
async function openLinkOf({ links }: State, account: Account) {
  return (
    (await links.openOf(account)) ?? (await links.openOf(account, 'forgot'))
  )
}

function describeTemporary(account: Account | undefined, ways: Way[]): string {
  const hasPassword = ways.some(({ method }) => method === PASSWORD)
  const due = hasPassword && account?.change_password_by
  return due ? ` The user must change it by ${secondOf(due)}.` : ''
}

/**
 * Returns what prevents an account from using a client. None without a client.
 */
function clientObstacles(
  client: ClientMetadata | undefined,
  account: Account | undefined,
): Obstacle[] {
  if (!client) return []
  const { client_id, allow = {}, enabled } = client
  const found: Obstacle[] = []
  if (enabled === false) {
    const { wrong, change } = CLIENT_REFUSALS[SWITCHED_OFF]
    found.push({
      reason: 'client_off',
      wrong: fill(wrong, { client: client_id }),
      change,
    })
  }
  if (!account) return found
  for (const name of missingAttributes(account, allow)) {
    const values = allow[name] ?? []
    const username = shellWord(account.username)
    const attribute = shellWord(`${name}+=${values[0] ?? ''}`)
    found.push({
      reason: 'attribute_missing',
      wrong: `${client_id} needs one of these values of ${name}, and the account has none: ${values.join(', ')}`,
      change: `npm run usher -- accounts set ${username} ${attribute}; or allow in the file of ${client_id}`,
    })
  }
  return found
}
