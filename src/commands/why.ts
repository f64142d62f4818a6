// `usher accounts why`: what prevents an account from signing in. `config explain` has the same reasons.

import { isIP } from 'node:net'
import { type Account, foldUsername, tidy } from '../accounts/account.ts'
import { accountCounter, networkCounter, signInLimits } from '../accounts/authentication.ts'
import { createDirectory, isExpired, type Refusal } from '../accounts/directory.ts'
import { type Counter, createRateLimit } from '../accounts/rate-limit.ts'
import { readSettings } from '../config/load.ts'
import { openDirectory } from '../features/accounts-module.ts'
import { clientObstacles } from '../features/application-access.ts'
import { createFactors, describeFactors } from '../features/factors/factors.ts'
import { createLinks } from '../features/links.ts'
import { UPSTREAM_REFUSALS, type UpstreamRefusal } from '../features/upstream/identities.ts'
import { now } from '../storage/store.ts'
import { Failure, type Invocation, openState, print, requireEntry, secondOf } from './command.ts'
import { findAccount } from './directory.ts'

const EVERYWHERE = 'every network, except in browsers in which the user signed in before'

/** A problem, and its remedy. */
export type Said = { wrong: string; change: string }

const ACCOUNTS = 'npm run usher -- accounts'

/** Why a sign-in was refused, by the reason in the log. */
export const SIGN_IN: Record<Refusal | UpstreamRefusal | 'throttled' | 'wrong_code', Said> = {
  unknown: {
    wrong:
      'no account has this username or id. An address needs email in sign_in.by, and one account with it verified',
    change: `the spelling; the accounts: ${ACCOUNTS} list`,
  },
  disabled: { wrong: 'the account is disabled', change: `${ACCOUNTS} enable ACCOUNT` },
  no_password: {
    wrong: 'the account has no password',
    change: `${ACCOUNTS} link ACCOUNT, or accounts password`,
  },
  password_expired: {
    wrong: 'the temporary password has expired',
    change: `${ACCOUNTS} password ACCOUNT --must-change`,
  },
  wrong_password: {
    wrong: 'the password is wrong',
    change: `the user types it again; a new one: ${ACCOUNTS} password ACCOUNT`,
  },
  wrong_code: {
    wrong: 'the password was right; the one-time code or recovery code was wrong, or used before',
    change: `the clock of the phone, which must be right; lost factors: ${ACCOUNTS} factors ACCOUNT`,
  },
  malformed: {
    wrong: 'accounts.module returned an account that is not valid',
    change: 'the module: account_malformed in the log names the fields',
  },
  ...UPSTREAM_REFUSALS,
  throttled: {
    wrong: 'too many attempts for this account, or from its network; the password was not checked',
    change: `wait, because the limit expires by itself. Until when: ${ACCOUNTS} why ACCOUNT`,
  },
}

/** Errors outside the protocol, by the code that the page shows. */
export const PAGES: Record<string, Said[]> = {
  misdirected_request: [{ wrong: 'DETAIL', change: 'the proxy; issuer and proxy in usher.yaml' }],
  interaction_gone: [
    { wrong: 'the sign-in has ended or expired', change: 'the user starts again' },
  ],
  link_gone: [
    {
      wrong: 'the link was used, has expired, or was replaced by a newer one (DETAIL)',
      change: `a new one: ${ACCOUNTS} link NAME`,
    },
  ],
  not_found: [{ wrong: 'nothing has this address', change: 'the address' }],
  server_error: [{ wrong: 'a fault of Usher', change: 'the log: its line with this id' }],
}

/** `accounts why ACCOUNT [--client CLIENT_ID] [--ip ADDRESS]`: reads what prevents a sign-in, and changes nothing. */
export async function why({ values, args: [name = ''] }: Invocation) {
  const ip = String(values.ip ?? '')
  if (values.ip !== undefined && !isIP(ip)) {
    throw new Failure('--ip takes an IP address, as `ip` in the log: 192.0.2.7')
  }
  const settings = readSettings()
  const { records } = await openState()
  const directory = await openDirectory(settings, records)
  const account = await findAccount(directory, name, settings.sign_in.by)
  const { perAccount, perNetwork } = signInLimits(settings.security)
  const counter = account ? accountCounter(account.id) : `name ${foldUsername(tidy(name))}`
  const limits: [where: string, counter: Counter][] = [[EVERYWHERE, [counter, perAccount]]]
  if (ip) limits.push([`the network of ${ip}`, [networkCounter(ip), perNetwork]])
  const upstreams = Object.values(settings.upstreams)
    .filter(({ issuer }) => account?.links?.some(link => link.issuer === issuer))
    .map(({ name, issuer }) => `${name} (${issuer})`)
  const clients = new Map(settings.clients.map(client => [client.client_id, client]))
  const client = values.client ? requireEntry('Client', String(values.client), clients) : undefined
  const reasons: Obstacle[] = [
    ...obstaclesOf(account, upstreams, settings.accounts.module),
    ...(client ? clientObstacles(client, account) : []),
  ]
  for (const [where, counter] of limits) {
    const until = Math.ceil((await createRateLimit(records).dueTime(counter)) / 1000)
    const wrong = `throttled from ${where}, until ${secondOf(until)}`
    const change = 'wait; the limit expires by itself'
    if (until > now()) reasons.push({ reason: 'throttled', wrong, change, until })
  }
  const lines = reasons.flatMap(({ wrong, change }) => [wrong, `  → ${change}`])
  const due = account?.change_password_by
  const temporary = due ? ` The user must change it by ${secondOf(due)}.` : ''
  const links = createLinks(records, createDirectory(records))
  const link_until = account && (await links.openOf(account))?.until
  const factors = describeFactors(await createFactors(records).read(account?.id ?? ''))
  const places = upstreams.map(place => `at ${place}`)
  if (settings.accounts.module || account?.password) places.unshift('with the right password')
  const none = `Nothing prevents a sign-in ${places.join(' or ')}.${temporary}${factors}`
  const open = link_until ? [`The link for a password is open until ${secondOf(link_until)}.`] : []
  const all = [lines.join('\n') || none, ...open]
  print(values, { account: account?.id, upstreams, link_until, reasons }, all)
  const where = values.client === undefined ? '' : ` to ${values.client}`
  if (reasons.length) throw new Failure(`The account cannot sign in${where} at the moment.`)
}

/** `until`: epoch seconds. */
type Obstacle = Said & { reason: Reason; until?: number }
type Reason = keyof typeof SIGN_IN | ReturnType<typeof clientObstacles>[number]['reason']

/** `upstreams`: where the account can sign in without a password. `module` keeps those of its accounts. */
function obstaclesOf(account?: Account, upstreams: string[] = [], module?: string): Obstacle[] {
  const obstacle = (reason: keyof typeof SIGN_IN) => {
    const { wrong, change } = SIGN_IN[reason]
    const elsewhere = account && module && `change it where ${module} reads it`
    return { reason, wrong, change: elsewhere || change.replace('ACCOUNT', account?.id ?? '') }
  }
  if (!account) return [obstacle('unknown')]
  return [
    ...(account.enabled ? [] : [obstacle('disabled')]),
    ...(module || account.password || upstreams.length ? [] : [obstacle('no_password')]),
    ...(isExpired(account) ? [obstacle('password_expired')] : []),
  ]
}
