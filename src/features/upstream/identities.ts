// The account of a user who signed in at an upstream issuer. Accounts are found
// by (issuer, sub), never by an e-mail address alone.

import { hash } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { IDToken } from 'openid-client'
import { plainWords } from '../../config/report/wording.ts'
import type { Upstream } from '../../config/schema/upstream.ts'
import { isDeeper } from '../../oidc/claims.ts'
import { tidy } from '../../oidc/display-text.ts'
import type { Account, Link } from '../../sign-in/account.ts'
import {
  foldUsername,
  InvalidAccount,
  profileSchema,
} from '../../sign-in/account.ts'
import type { OwnAccounts } from '../../sign-in/directory.ts'

/** Reason for a refused sign-in at an upstream issuer, for the log only. */
export type UpstreamRefusal = 'not_allowed' | 'not_linked' | 'username_taken'

const MAX_ATTRIBUTE_DEPTH = 16

/** Returns the `acr` that the file maps; undefined if it maps none. */
export function acrOf(
  { acr: known }: Pick<Upstream, 'acr'>,
  { acr }: Record<string, unknown>,
) {
  return typeof acr === 'string' && Object.hasOwn(known, acr)
    ? known[acr]
    : undefined
}

/** The link of an account to a user of the issuer. */
export const linkOf = ({ issuer }: Upstream, subject: string): Link => ({
  issuer,
  subject,
})

const linksBut = (links: Link[] = [], issuer: string) =>
  links.filter(link => link.issuer !== issuer)

/**
 * Lets a user of an upstream issuer sign in to the account. Throws
 * `InvalidAccount`, also for a second user of the issuer: the account page
 * could not tell them apart, and a hijacker could stay unnoticed.
 */
export function addLink(directory: OwnAccounts, id: string, link: Link) {
  return directory.change(id, account => {
    const { links = [] } = account
    if (links.some(other => isDeepStrictEqual(other, link))) return account
    const others = linksBut(links, link.issuer)
    if (others.length === links.length)
      return { ...account, links: [...links, link] }
    throw new InvalidAccount(
      'The account has a link to another user of this issuer: unlink it first.',
    )
  })
}

/**
 * Returns the account without any link to the issuer; undefined if that is its
 * only way to sign in. With its last link it loses an address that is not
 * verified: it came from an issuer, and would keep its owner from an account.
 */
export function withoutIssuer(
  account: Account,
  { issuer, claims }: Pick<Upstream, 'issuer' | 'claims'>,
): Account | undefined {
  const links = linksBut(account.links, issuer)
  if (!links.length && account.password === undefined) return undefined
  const isOfIssuer = claims.email !== undefined && !account.email_verified
  const email = !links.length && isOfIssuer ? undefined : account.email
  return { ...account, links, email }
}

/** The outcome of a sign-in at an upstream issuer. */
export interface Outcome {
  account?: Account
  /** Why there is no account. */
  refusal?: UpstreamRefusal | 'disabled'
  /** The account got its link by its address. */
  isLinked?: boolean
  /** Claims that count as absent, each with the reason, for the log. */
  ignored: string[]
}

/**
 * Finds the account of a user of the issuer, or adds it, and updates its
 * fields. `isAssertion`: the claims are those of an assertion, which has few of
 * them. It changes no account.
 */
export async function accountFor(
  directory: OwnAccounts,
  upstream: Upstream,
  claims: IDToken,
  isAssertion = false,
): Promise<Outcome> {
  const said = readClaims(upstream, claims)
  const { ignored } = said
  if (!said.isAllowed) return { refusal: 'not_allowed', ignored }
  const link = linkOf(upstream, claims.sub)
  try {
    const linked = await directory.findByLink(link)
    const known = linked ?? (await linkByEmail(directory, said, link))
    if (known?.enabled === false) return { refusal: 'disabled', ignored }
    if (!known && upstream.accounts === 'link')
      return { refusal: 'not_linked', ignored }
    let account = known
    if (!known) account = await addAccount(directory, said, link)
    else if (!isAssertion) account = await updateFields(directory, known, said)
    if (!account) return { refusal: 'not_linked', ignored }
    return { account, isLinked: known && !linked, ignored }
  } catch (error) {
    if (error instanceof InvalidAccount)
      return { refusal: 'username_taken', ignored }
    throw error
  }
}

/** The claims of an ID token, and the file of their issuer. */
interface Sent {
  upstream: Upstream
  claims: IDToken
  /** Claims that count as absent, each with the reason, for the log. */
  ignored: string[]
}

/**
 * Statements of an ID token about a user: whether its claims admit the user, and
 * which attributes they set, change, verify or link.
 * docs/identity-providers/README.md says the same to operators.
 */
interface Said extends Sent {
  isAllowed: boolean
  /** The address that the issuer has verified, and decides about. */
  vouched?: string
  /** Fields that the account gets. An absent one stays as it is. */
  profile: Partial<Pick<Account, 'name' | 'email' | 'email_verified'>>
  /**
   * Undefined: the issuer has no such claim (any more), and the attribute is
   * deleted.
   */
  attributes: Record<string, unknown>
}

/** Reads the claims of an ID token. A claim that is not valid counts as absent. */
export function readClaims(upstream: Upstream, claims: IDToken): Said {
  const { allow, claims: sources } = upstream
  const sent: Sent = { upstream, claims, ignored: [] }
  const isVerified = readVerified(sent)
  const address = readText(sent, 'email', 'email')
  // Another issuer, or an operator, decides about the addresses of other
  // domains.
  const isVouched =
    isVerified && allow.email_domains?.includes(domainOf(address))
  const vouched = isVouched ? address : undefined
  const email =
    sources.email === 'email' ? address : readText(sent, 'email', sources.email)
  const name = readText(sent, 'name', sources.name)
  return {
    ...sent,
    isAllowed: isAllowed(sent, vouched),
    vouched,
    profile: profileOf(sources, { name, email, vouched }),
    attributes: readAttributes(sent),
  }
}

function readVerified({ claims, ignored }: Sent): boolean {
  const { email_verified: flag } = claims
  if (flag === undefined || typeof flag === 'boolean') return flag === true
  const problem = `must be true or false, and is a ${typeof flag}`
  ignored.push(`email_verified: ${problem}`)
  return false
}

/** Returns the text of a claim; undefined if it is not valid for the field. */
function readText(
  { claims, ignored }: Sent,
  field: 'username' | 'name' | 'email',
  claim = '',
): string | undefined {
  const value = claims[claim] ?? undefined
  if (claim === '' || value === undefined) return undefined
  const schema = profileSchema.shape[field]
  const { data, error } = schema.safeParse(value, { error: plainWords })
  if (!error) return data
  const problem =
    typeof value === 'string'
      ? error.issues[0]?.message
      : `must be text, and is a ${typeof value}`
  ignored.push(`${claim}: ${problem}`)
  return undefined
}

/** Returns the attributes of the account, each from its claim. */
function readAttributes({ upstream, claims, ignored }: Sent) {
  const attributes: [name: string, value: unknown][] = []
  for (const [field, claim] of Object.entries(upstream.claims)) {
    const [, attribute] = /^attributes\.(.+)$/.exec(field) ?? []
    if (!attribute) continue
    // JSON of thousands of levels cannot be written or compared.
    const isTooDeep = isDeeper(claims[claim], MAX_ATTRIBUTE_DEPTH)
    if (isTooDeep) ignored.push(`${claim}: is nested too deeply`)
    const value = isTooDeep ? undefined : (claims[claim] ?? undefined)
    attributes.push([attribute, value])
  }
  return Object.fromEntries(attributes)
}

/** Whether `allow` admits the user. */
function isAllowed(
  { upstream: { allow }, claims }: Sent,
  vouched?: string,
): boolean {
  if (allow.email_domains && vouched === undefined) return false
  return Object.entries(allow.claims).every(([name, value]) =>
    [claims[name]].flat().includes(value),
  )
}

function profileOf(
  sources: Upstream['claims'],
  { name, email, vouched }: { name?: string; email?: string; vouched?: string },
): Said['profile'] {
  const profile: Said['profile'] = {}
  if (name !== undefined) profile.name = name
  if (email !== undefined) profile.email = email
  // `email_verified` is about the claim `email`. An address that is no longer
  // sent stays, unverified.
  if (sources.email) {
    profile.email_verified = sources.email === 'email' && vouched !== undefined
  }
  return profile
}

/**
 * Returns the username of a new account; undefined if it has to be made. At
 * sign-in a username wins over an address: only the owner of an address may
 * have it as username.
 */
function usernameIn(said: Said): string | undefined {
  const { upstream, vouched, ignored } = said
  const sent = readText(said, 'username', upstream.claims.username)
  const wanted = foldUsername(sent ?? '')
  const isOwn = !wanted.includes('@') || wanted === vouched?.toLowerCase()
  if (wanted && isOwn) return sent
  if (wanted) {
    const problem = 'is an address that this issuer does not verify'
    ignored.push(`${upstream.claims.username}: ${problem}`)
  }
  return profileSchema.shape.username.safeParse(vouched).data
}

/**
 * Returns the domain of an e-mail address, in lower case; empty if there is
 * none.
 */
export const domainOf = (address = '') =>
  /@([^@]*)$/.exec(tidy(address))?.[1]?.toLowerCase() ?? ''

/**
 * Both sides must have verified the address, and only one account may have it.
 * The address of an account with a link came from an issuer, or belongs to a
 * user who signs in there: its owner may be another.
 */
async function linkByEmail(
  directory: OwnAccounts,
  { upstream, vouched }: Said,
  link: Link,
) {
  if (!upstream.link_by_verified_email || vouched === undefined)
    return undefined
  const holders = await directory.findByEmail(vouched)
  // Another tab may just have added this link.
  const [account, ...others] = holders.filter(({ links = [] }) =>
    links.every(other => isDeepStrictEqual(other, link)),
  )
  if (!account?.email_verified || others.length) return undefined
  return addLink(directory, account.id, link)
}

const present = (attributes: Said['attributes']): Account['attributes'] =>
  JSON.parse(JSON.stringify(attributes))

/** Updates the fields that the issuer decides about. */
async function updateFields(
  directory: OwnAccounts,
  account: Account,
  { profile, attributes }: Said,
) {
  const edit = (current: Account): Account => ({
    ...current,
    ...profile,
    attributes: present({ ...current.attributes, ...attributes }),
  })
  if (isDeepStrictEqual(edit(account), account)) return account
  return directory.change(account.id, edit)
}

/** Pauses before each look for the account of a parallel first sign-in. */
const WAITS_MS = [0, 10, 40, 160, 640]

/**
 * Adds an account. Of parallel first sign-ins of a user, one adds it, and the
 * others find it.
 */
async function addAccount(directory: OwnAccounts, said: Said, link: Link) {
  const digest = hash('sha256', `${link.issuer} ${link.subject}`, 'hex')
  const fallback = `${said.upstream.name.slice(0, 100)}-${digest.slice(0, 20)}`
  const wanted = usernameIn(said) ?? fallback
  const holders = await directory.findByEmail(foldUsername(wanted))
  const isTaken = holders.some(({ email_verified }) => email_verified)
  const username = isTaken ? fallback : wanted
  const fields = {
    ...said.profile,
    attributes: present(said.attributes),
    username,
  }
  try {
    return await directory.add(fields, undefined, { links: [link] })
  } catch (error) {
    if (!(error instanceof InvalidAccount)) throw error
    for (const wait of WAITS_MS) {
      await setTimeout(wait)
      const known = await directory.findByLink(link)
      if (known) return known
    }
    throw error
  }
}
