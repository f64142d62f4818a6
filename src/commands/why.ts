// `usher accounts why`: what prevents an account from signing in.
// `config explain` has the same reasons.

import { isIP } from 'node:net'
import { readSettings, type Settings } from '../config/load.ts'
import { fill } from '../config/report/wording.ts'
import {
  describeFactors,
  type Factors,
  isPasskey,
} from '../features/factors/factors.ts'
import { createRules } from '../features/factors/rules.ts'
import type { UpstreamRefusal } from '../features/upstream/identities.ts'
import {
  missingAttributes,
  NOT_ALLOWED,
  SWITCHED_OFF,
} from '../oidc/clients.ts'
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
export const SIGN_IN: Record<
  Refusal | UpstreamRefusal | 'throttled' | 'wrong_code',
  Said
> = texts.sign_in

/**
 * Why the users or the tokens of a client are refused, by the beginning of the
 * reason in the log.
 */
export const CLIENT_REFUSALS = {
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
  const { client, ip } = values
  if (ip !== undefined && !isIP(ip)) {
    throw new Failure('--ip takes an IP address, as `ip` in the log: 192.0.2.7')
  }
  const settings = await readSettings()
  const state = await openState()
  const accounts = await openAccountStore(state)
  const account = await findAccount(accounts, name, settings.sign_in.by)
  const factors = await state.factors.read(account?.id ?? '')
  const upstreams = upstreamsOf(account, settings)
  const ways = waysToSignIn(account, factors, upstreams, settings)
  const counter = account
    ? accountCounter(account.id)
    : `name ${foldUsername(typedName(name))}`
  const reasons = [
    ...accountObstacles(account, ways, settings.accounts.module),
    ...clientObstacles(client, account, settings),
    ...(await rateLimits(state, settings, counter, ip)),
  ]
  const link = account && (await openLinkOf(state, account))

  const lines = reasons.flatMap(({ wrong, change }) => [wrong, `  → ${change}`])
  if (!reasons.length) {
    const none = `Nothing prevents a sign-in ${ways.join(' or ')}.`
    lines.push(none + describeTemporary(account) + describeFactors(factors))
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
  const where = client === undefined ? '' : ` to ${client}`
  if (reasons.length)
    throw new Failure(`The account cannot sign in${where} at the moment.`)
}

/**
 * Returns the upstream issuers that the account has a link to: `NAME (ISSUER)`.
 */
function upstreamsOf(
  account: Account | undefined,
  { upstreams }: Settings,
): string[] {
  const linked = account?.links?.map(({ issuer }) => issuer) ?? []
  return Object.values(upstreams)
    .filter(({ issuer }) => linked.includes(issuer))
    .map(({ name, issuer }) => `${name} (${issuer})`)
}

/**
 * Returns the ways in which an account can sign in, as the end of a sentence.
 */
function waysToSignIn(
  account: Account | undefined,
  factors: Factors,
  upstreams: string[],
  settings: Settings,
): string[] {
  const ways: string[] = []
  if (settings.accounts.module || account?.password)
    ways.push('with the right password')
  const usable = createRules(settings).usable(factors).factors
  if (usable.some(isPasskey)) ways.push('with a passkey')
  return [...ways, ...upstreams.map(place => `at ${place}`)]
}

/**
 * Returns what prevents every sign-in of an account. `module`:
 * `accounts.module`, which keeps the accounts.
 */
function accountObstacles(
  account: Account | undefined,
  ways: string[],
  module: string | undefined,
): Obstacle[] {
  if (!account) return [obstacle('unknown')]
  const found: Obstacle[] = []
  if (account.enabled === false) found.push(obstacle('disabled', account.id))
  if (!ways.length) found.push(obstacle('no_password', account.id))
  if (isExpired(account)) found.push(obstacle('password_expired', account.id))
  if (!module) return found
  return found.map(each => ({
    ...each,
    change: `change it where ${module} reads it`,
  }))
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

function describeTemporary(account: Account | undefined): string {
  const due = account?.change_password_by
  return due ? ` The user must change it by ${secondOf(due)}.` : ''
}

/**
 * Returns what prevents an account from using a client. None without the id of
 * one.
 */
function clientObstacles(
  id: string | undefined,
  account: Account | undefined,
  { clients }: Settings,
): Obstacle[] {
  if (id === undefined) return []
  const client = requireOne('Client', id, clients, 'client_id')
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
