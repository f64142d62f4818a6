// Which factors an account has to use: the rules of `sign_in` in usher.yaml,
// and the strength of factors.

import { join } from 'node:path'
import type { Settings } from '../../config/load.ts'
import { ConfigError } from '../../config/report/finding.ts'
import { hasPasskeys, type Upstream } from '../../config/schema/upstream.ts'
import { valuesOf } from '../../oidc/clients.ts'
import {
  methodOf,
  PHISHING_RESISTANT_ACR,
  satisfies,
  TWO_FACTOR_ACR,
} from '../../oidc/vocabulary.ts'
import type { Account } from '../../sign-in/account.ts'
import {
  type Factor,
  type FactorStore,
  type Factors,
  isPasskey,
  type Passkey,
} from './factors.ts'

/** The reason of a prompt that only a passkey answers. */
export const PHISHING_RESISTANT = 'phishing_resistant'

/** The value of Usher in `amr` for a recovery code: RFC 8176 has none. */
export const RECOVERY_AMR = 'recovery_code'

/**
 * The `acr` of a sign-in with the strongest factor of an account; undefined
 * without factors.
 */
export function strongestOf({ factors }: Factors): string | undefined {
  if (factors.some(isPasskey)) return PHISHING_RESISTANT_ACR
  return factors.length ? TWO_FACTOR_ACR : undefined
}

/**
 * Whether a session began with the strongest factor of the account, or with a
 * recovery code in its place: only then it may change factors.
 */
export function isStrongest(
  { acr, amr = [] }: { acr?: string; amr?: string[] },
  own: Factors,
) {
  const strongest = strongestOf(own)
  const isRecovered =
    amr.includes(RECOVERY_AMR) && satisfies(acr, TWO_FACTOR_ACR)
  return !strongest || isRecovered || satisfies(acr, strongest)
}

/** The host of an issuer: the RP ID of its passkeys. */
export const passkeyHostOf = ({ issuer }: Pick<Settings, 'issuer'>) =>
  new URL(issuer).hostname

/**
 * Throws a `ConfigError` if passkeys of the store are for another host than
 * that of the issuer: no browser offers them there, and users whose only factor
 * they are would sign in without.
 */
export async function requireHost(
  settings: Settings,
  factors: FactorStore,
): Promise<void> {
  if (!hasPasskeys(settings.sign_in)) return
  const known = [passkeyHostOf(settings), ...settings.sign_in.former_hosts]
  const hosts = await factors.passkeyHosts()
  const lost = hosts
    .map(({ host }) => host)
    .filter(host => !known.includes(host))
  if (!lost.length) return
  const message = `users have passkeys for the host ${lost.join(', ')}, which work at no other. If it has changed, add it to sign_in.former_hosts: those passkeys are then not used`
  const file = join(settings.folder, 'usher.yaml')
  throw new ConfigError([
    { file, key: 'issuer', rule: 'passkey-host', message },
  ])
}

/**
 * Whether sign-ins by this method need no second factor here: the upstream has
 * its own.
 */
export const isExempt = (upstreams: Record<string, Upstream>, amr?: string[]) =>
  upstreams[methodOf(amr)]?.second_factor === 'exempt'

/** Whether an account needs a second factor for each sign-in. */
export function isFactorRequired(
  { second_factor, second_factor_required_for = {} }: Settings['sign_in'],
  { attributes }: Account,
): boolean {
  if (second_factor === 'required') return true
  return Object.entries(second_factor_required_for).some(([name, values]) =>
    valuesOf(attributes, name).some(value => values.includes(value)),
  )
}

/**
 * Returns whether a passkey can be used: passkeys are on, and it is for the
 * host of the issuer.
 */
export function passkeyRule(
  settings: Pick<Settings, 'issuer' | 'sign_in'>,
): (passkey: Passkey) => boolean {
  const isOn = hasPasskeys(settings.sign_in)
  const host = passkeyHostOf(settings)
  return passkey => isOn && passkey.host === host
}

/** See `createRules`. */
export type Rules = ReturnType<typeof createRules>

/** Returns the rules of `sign_in`. */
export function createRules(
  settings: Pick<Settings, 'issuer' | 'sign_in' | 'upstreams'>,
) {
  const { sign_in, upstreams } = settings
  const isOff = sign_in.second_factor === 'off'
  const isUsablePasskey = passkeyRule(settings)

  function isUsable(factor: Factor): boolean {
    return isPasskey(factor) ? isUsablePasskey(factor) : !isOff
  }

  return {
    /**
     * Whether a password is followed by a second factor. Otherwise passkeys
     * replace the password only.
     */
    isOff,
    /**
     * Leaves out the factors whose type is off, and passkeys for a former host.
     */
    usable: (found: Factors): Factors => ({
      ...found,
      factors: found.factors.filter(isUsable),
    }),
    isRequired: (account: Account) => isFactorRequired(sign_in, account),
    /** Whether sign-ins with these methods need none here. */
    isExempt: (amr: string[]) => isExempt(upstreams, amr),
  }
}
