// Changes of what protects an account, and the proof that each needs.
// docs/reference/account-changes.md has CHANGES as a table, which
// `npm run reference` writes.
//
// Proof: the user has signed in with the strongest factor of the account in the
// last 15 minutes. An account without a factor has its password instead, which
// the user types for the change: a browser that is open, or a cookie that was
// copied, is not enough (ASVS 5.0 6.2.3, 7.5.1). A user without a password
// signs in again at the upstream issuer.
//
//   Proof SESSION-UID → { account, method, at }    the user of this session has signed in for a change

import type { Settings } from '../config/load.ts'
import type { Login } from '../oidc/interactions.ts'
import { isMethodUsed, methodOf, PASSWORD } from '../oidc/vocabulary.ts'
import type { Records } from '../store/records.ts'
import { now } from '../store/store.ts'
import type { Account } from './account.ts'
import type { ProvenSession, SecondFactors } from './flow.ts'

/** A change, in words of the table in docs/reference/account-changes.md. */
interface Change {
  what: string
  proof:
    | 'recent sign-in'
    | 'proof'
    | 'current password, and proof'
    | 'link, and proof'
    | 'operator'
  /** The mailbox that gets a notice. */
  notice: 'none' | 'address' | 'former address'
  ends: string
}

/** Every change of what protects an account, by its audit event. */
export const CHANGES = {
  name_changed: {
    what: 'another name',
    proof: 'recent sign-in',
    notice: 'none',
    ends: 'nothing',
  },
  email_change_requested: {
    what: 'another address, at the request',
    proof: 'proof',
    notice: 'address',
    ends: 'the link to an address that was requested before',
  },
  email_changed: {
    what: 'another address, by its link',
    proof: 'link, and proof',
    notice: 'former address',
    ends: 'links for a password that went to the former address',
  },
  password_changed: {
    what: 'another password',
    proof: 'current password, and proof',
    notice: 'address',
    ends: 'all sessions but a new one here, all access of applications, all links',
  },
  second_factor_added: {
    what: 'a factor is added',
    proof: 'proof',
    notice: 'address',
    ends: 'what other browsers remember; the other sessions if the user wants it',
  },
  second_factor_removed: {
    what: 'a factor is removed',
    proof: 'proof',
    notice: 'address',
    ends: 'the factor; the other sessions if the user wants it',
  },
  recovery_codes_created: {
    what: 'new recovery codes',
    proof: 'proof',
    notice: 'address',
    ends: 'the former recovery codes',
  },
  account_linked: {
    what: 'a sign-in method is added',
    proof: 'proof',
    notice: 'address',
    ends: 'nothing',
  },
  account_unlinked: {
    what: 'a sign-in method is removed',
    proof: 'proof',
    notice: 'address',
    ends: 'sessions that began with the method, and their access',
  },
  password_set: {
    what: 'an operator sets a password',
    proof: 'operator',
    notice: 'address',
    ends: 'all sessions, access and links',
  },
  account_changed: {
    what: 'an operator changes the account',
    proof: 'operator',
    notice: 'former address',
    ends: 'nothing',
  },
  second_factors_reset: {
    what: 'an operator or their link removes the factors',
    proof: 'operator',
    notice: 'address',
    ends: 'all factors',
  },
} as const satisfies Record<string, Change>

/** The audit event of a change. */
export type ChangeEvent = keyof typeof CHANGES

/** Maximum age of the sign-in for a change of the account. */
export const RECENT_SECONDS = 15 * 60

/** The record of a sign-in for a change. */
interface Proof {
  account: string
  /** See `methodOf`. */
  method: string
  /** Epoch seconds. */
  at: number
}

/**
 * Parameter of the authorization requests of the account pages: the sign-in is
 * for a change.
 */
export const FOR_CHANGE = { second_factor: 'strongest' } as const

/** The sign-ins for a change. */
export type Proofs = ReturnType<typeof createProofs>

/** Returns the sign-ins for a change: it remembers and finds them. */
export function createProofs(
  records: Records,
  { sign_in }: Pick<Settings, 'sign_in'>,
) {
  const isPasswordUsed = isMethodUsed(sign_in, PASSWORD)
  const hasPassword = ({ password }: Account) =>
    isPasswordUsed && password !== undefined
  const signIns = records.of<Proof>('Proof')

  return {
    /** Whether the account has a password that users can sign in with. */
    hasPassword,

    /**
     * Remembers the sign-in of a request with `FOR_CHANGE`. `uid`: of the
     * session.
     */
    async remember(uid: string, { accountId, ts, amr }: Login) {
      const proof: Proof = { account: accountId, method: methodOf(amr), at: ts }
      await signIns.change(uid, () => proof, { ttl: RECENT_SECONDS })
    },

    /**
     * Whether the user has signed in for a change in this session: with the
     * password, if there is one.
     */
    async has(account: Account, uid: string): Promise<boolean> {
      const { value: proof } = await signIns.read(uid)
      if (proof?.account !== account.id || !isRecent(proof.at)) return false
      return proof.method === PASSWORD || !hasPassword(account)
    },
  }
}

/** Whether a time (epoch seconds) is one of the last 15 minutes. */
export const isRecent = (at: number) => now() - at <= RECENT_SECONDS

/** Parameters of an authorization request of the account pages. */
export type SignInParameters = Record<string, string>

/**
 * The guard of every change that a signed-in user can make. Returns the
 * parameters of the sign-in that a session needs before the change; undefined if
 * it needs none.
 */
export async function missingProof(
  change: ChangeEvent,
  account: Account,
  session: ProvenSession,
  proofs: Proofs,
  factors?: SecondFactors,
): Promise<SignInParameters | undefined> {
  const isStrongest = await factors?.isStrongest(account, session)
  if (isStrongest !== undefined) {
    const isProven = isStrongest && isRecent(session.signedInAt)
    if (isProven) return undefined
    return { ...FOR_CHANGE, max_age: String(RECENT_SECONDS) }
  }
  // The form for a new password has the current one: the proof of an account
  // without a factor.
  if (CHANGES[change].proof === 'current password, and proof') return undefined
  if (await proofs.has(account, session.uid)) return undefined
  const again = { ...FOR_CHANGE, prompt: 'login' }
  return proofs.hasPassword(account)
    ? { ...again, require_sign_in: PASSWORD }
    : again
}
