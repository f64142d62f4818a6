// `usher accounts why`: what prevents an account from signing in. `config explain` has the same reasons.

import { isIP } from 'node:net'
import { readSettings } from '../config/load.ts'
import { fill } from '../config/report/wording.ts'
import type { ClientMetadata } from '../config/schema/client.ts'
import { openDirectory } from '../features/accounts-module.ts'
import { createFactors, describeFactors, isPasskey } from '../features/factors/factors.ts'
import { createRules } from '../features/factors/rules.ts'
import { createLinks } from '../features/links.ts'
import type { UpstreamRefusal } from '../features/upstream/identities.ts'
import { missingAttributes, NOT_ALLOWED, SWITCHED_OFF } from '../oidc/clients.ts'
import { type Account, foldUsername, type Refusal, typedName } from '../sign-in/account.ts'
import { accountCounter, networkCounter, signInLimits } from '../sign-in/authentication.ts'
import { createDirectory, isExpired } from '../sign-in/directory.ts'
import { type Counter, createRateLimit } from '../sign-in/rate-limit.ts'
import { now } from '../store/store.ts'
import { Failure, type Invocation, requireOne } from './command.ts'
import { folderNotes, printWithNotes } from './folder-notes.ts'
import { findAccount } from './open-account.ts'
import { openState } from './open-store.ts'
import { secondOf, shellWord } from './output.ts'
import texts from './refusals.json' with { type: 'json' }

const EVERYWHERE = 'every network, except in browsers in which the user signed in before'

/** A problem, and its remedy. */
export type Said = { wrong: string; change: string }

/** Why a sign-in was refused, by the reason in the log. */
export const SIGN_IN: Record<Refusal | UpstreamRefusal | 'throttled' | 'wrong_code', Said> =
  texts.sign_in

/** Why the users or the tokens of a client are refused, by the beginning of the reason in the log. */
export const CLIENT_REFUSALS = {
  [NOT_ALLOWED]: texts.client.not_allowed,
  [SWITCHED_OFF]: texts.client.switched_off,
}

/** `until`: epoch seconds. */
type Obstacle = Said & { reason: string; until?: number }

/** `accounts why ACCOUNT [--client CLIENT_ID] [--ip ADDRESS]`: reads what prevents a sign-in, and changes nothing. */
export async function explainSignIn({ values, flags, args: [name = ''] }: Invocation) {
  const { client, ip } = values
  if (ip !== undefined && !isIP(String(ip))) {
    throw new Failure('--ip takes an IP address, as `ip` in the log: 192.0.2.7')
  }
  const settings = await readSettings()
  const { module } = settings.accounts
  const { records } = await openState()
  const directory = await openDirectory(settings, records)
  const account = await findAccount(directory, name, settings.sign_in.by)
  const upstreams = Object.values(settings.upstreams)
    .filter(({ issuer }) => account?.links?.some(link => link.issuer === issuer))
    .map(({ name, issuer }) => `${name} (${issuer})`)
  const factors = await createFactors(records).read(account?.id ?? '')
  const ways = [
    ...(module || account?.password ? ['with the right password'] : []),
    ...(createRules(settings).usable(factors).factors.some(isPasskey) ? ['with a passkey'] : []),
    ...upstreams.map(place => `at ${place}`),
  ]
  const checks: [isPrevented: boolean | undefined, reason: keyof typeof SIGN_IN][] = [
    [!account, 'unknown'],
    [account?.enabled === false, 'disabled'],
    [account && !ways.length, 'no_password'],
    [account && isExpired(account), 'password_expired'],
  ]
  const elsewhere = account && module && `change it where ${module} reads it`
  const reasons = checks.flatMap(([isPrevented, reason]): Obstacle[] => {
    const { wrong, change } = SIGN_IN[reason]
    const remedy = elsewhere || fill(change, { account: account?.id ?? 'ACCOUNT' })
    return isPrevented ? [{ reason, wrong, change: remedy }] : []
  })
  if (client !== undefined) {
    const found = requireOne('Client', String(client), settings.clients, 'client_id')
    reasons.push(...clientObstacles(found, account))
  }
  const { perAccount, perNetwork } = signInLimits(settings.security)
  const counter = account ? accountCounter(account.id) : `name ${foldUsername(typedName(name))}`
  const limits: [where: string, counter: Counter][] = [[EVERYWHERE, [counter, perAccount]]]
  if (ip) limits.push([`the network of ${ip}`, [networkCounter(String(ip)), perNetwork]])
  for (const [where, counter] of limits) {
    const until = Math.ceil((await createRateLimit(records).dueTime(counter)) / 1000)
    const wrong = `throttled from ${where}, until ${secondOf(until)}`
    const change = 'wait; the limit expires by itself'
    if (until > now()) reasons.push({ reason: 'throttled', wrong, change, until })
  }
  const links = createLinks(records, createDirectory(records))
  const link = account && ((await links.openOf(account)) ?? (await links.openOf(account, 'forgot')))
  const due = account?.change_password_by
  const temporary = due ? ` The user must change it by ${secondOf(due)}.` : ''
  const none = `Nothing prevents a sign-in ${ways.join(' or ')}.${temporary}${describeFactors(factors)}`
  const lines = reasons.flatMap(({ wrong, change }) => [wrong, `  → ${change}`])
  if (!lines.length) lines.push(none)
  if (link) lines.push(`The link for a password is open until ${secondOf(link.until)}.`)
  const notes = await folderNotes()
  const about = { account: account?.id, upstreams, link_until: link?.until, reasons }
  printWithNotes(flags, notes, about, lines)
  const where = client === undefined ? '' : ` to ${client}`
  if (reasons.length) throw new Failure(`The account cannot sign in${where} at the moment.`)
}

/** Returns what prevents an account from using a client, each with its remedy. */
function clientObstacles({ client_id, allow = {}, enabled }: ClientMetadata, account?: Account) {
  const missing = account ? missingAttributes(account, allow) : []
  const attributes = missing.map(name => {
    const [value = ''] = allow[name] ?? []
    const words = [account?.username ?? 'ACCOUNT', `${name}+=${value}`].map(shellWord)
    return {
      reason: 'attribute_missing',
      wrong: `${client_id} needs one of these values of ${name}, and the account has none: ${allow[name]?.join(', ')}`,
      change: `npm run usher -- accounts set ${words.join(' ')}; or allow in the file of ${client_id}`,
    }
  })
  const { wrong, change } = CLIENT_REFUSALS[SWITCHED_OFF]
  const off = { reason: 'client_off', wrong: fill(wrong, { client: client_id }), change }
  return enabled === false ? [off, ...attributes] : attributes
}
