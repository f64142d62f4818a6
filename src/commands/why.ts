// `usher accounts why`: what prevents an account from signing in.

import { isIP } from 'node:net'
import { type Account, foldUsername } from '../accounts/account.ts'
import { accountCounter, networkCounter, signInLimits } from '../accounts/authentication.ts'
import { isExpired } from '../accounts/directory.ts'
import { type Counter, createRateLimit } from '../accounts/rate-limit.ts'
import { readSettings } from '../config/load.ts'
import { openDirectory } from '../features/accounts-module.ts'
import { now } from '../storage/store.ts'
import { Failure, type Invocation, openState, print, secondOf } from './command.ts'
import { findAccount } from './directory.ts'
import { SIGN_IN } from './failure.ts'

const EVERYWHERE = 'every network, except in browsers in which the user signed in before'

/** `accounts why ACCOUNT [--ip ADDRESS]`: reads what prevents a sign-in, and changes nothing. */
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
  const counter = account ? accountCounter(account.id) : `name ${foldUsername(name)}`
  const limits: [where: string, counter: Counter][] = [[EVERYWHERE, [counter, perAccount]]]
  if (ip) limits.push([`the network of ${ip}`, [networkCounter(ip), perNetwork]])
  const reasons = obstaclesOf(account, settings.accounts.module)
  for (const [where, counter] of limits) {
    const until = Math.ceil((await createRateLimit(records).dueTime(counter)) / 1000)
    const wrong = `throttled from ${where}, until ${secondOf(until)}`
    const change = 'wait; the limit expires by itself'
    if (until > now()) reasons.push({ reason: 'throttled', wrong, change, until })
  }
  const lines = reasons.flatMap(({ wrong, change }) => [wrong, `  → ${change}`])
  const due = account?.change_password_by
  const temporary = due ? ` The user must change it by ${secondOf(due)}.` : ''
  const none = `Nothing prevents a sign-in with the right password.${temporary}`
  print(values, { account: account?.id, reasons }, lines, none)
}

/** `until`: epoch seconds. */
type Obstacle = { reason: keyof typeof SIGN_IN; wrong: string; change: string; until?: number }

/** `module` keeps the passwords of its accounts. */
function obstaclesOf(account: Account | undefined, module?: string): Obstacle[] {
  const obstacle = (reason: keyof typeof SIGN_IN) => {
    const [wrong, change] = SIGN_IN[reason]
    const elsewhere = account && module && `change it where ${module} reads it`
    return { reason, wrong, change: elsewhere || change.replace('ACCOUNT', account?.id ?? '') }
  }
  if (!account) return [obstacle('unknown')]
  return [
    ...(account.enabled ? [] : [obstacle('disabled')]),
    ...(module || account.password ? [] : [obstacle('no_password')]),
    ...(isExpired(account) ? [obstacle('password_expired')] : []),
  ]
}
