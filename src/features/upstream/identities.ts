// The account of a user who signed in at an upstream issuer. Accounts are found by (issuer, sub), never by
// an e-mail address alone.

import { isDeepStrictEqual } from 'node:util'
import type { IDToken } from 'openid-client'
import type { Account, Link } from '../../accounts/account.ts'
import { foldUsername, InvalidAccount, profileSchema } from '../../accounts/account.ts'
import type { OwnDirectory } from '../../accounts/directory.ts'
import type { Upstream } from '../../config/schema/upstream.ts'

const LINK = 'npm run usher -- accounts link ACCOUNT --upstream NAME --subject SUB'

/** Why a sign-in at an upstream issuer was refused, by the reason in the log, and the remedy. */
export const UPSTREAM_REFUSALS = {
  not_allowed: {
    wrong: '`allow` in the file of upstreams/ does not admit this user',
    change: 'allow in that file',
  },
  not_linked: {
    wrong: 'no account is linked to this user of the issuer, and accounts is link',
    change: LINK,
  },
  username_taken: {
    wrong: 'the username of the new account, or the user of the issuer, belongs to another account',
    change: LINK,
  },
}
/** Reason for a refused sign-in at an upstream issuer, for the log only. */
export type UpstreamRefusal = keyof typeof UPSTREAM_REFUSALS

/** The link of an account to a user of the issuer. */
export const linkOf = ({ issuer }: Upstream, subject: string): Link => ({ issuer, subject })

const linksBut = (links: Link[] = [], issuer: string) =>
  links.filter(link => link.issuer !== issuer)

/**
 * Lets a user of an upstream issuer sign in to the account. Throws `InvalidAccount`, also for a second user
 * of the issuer: the account page could not tell them apart, and a hijacker could stay unnoticed.
 */
export function addLink(directory: OwnDirectory, id: string, link: Link) {
  return directory.change(id, account => {
    const { links = [] } = account
    if (links.some(other => isDeepStrictEqual(other, link))) return account
    const others = linksBut(links, link.issuer)
    if (others.length === links.length) return { ...account, links: [...links, link] }
    throw new InvalidAccount(
      'The account has a link to another user of this issuer: unlink it first.',
    )
  })
}

/** Returns the account without any link to the issuer; undefined if that is its only way to sign in. */
export function withoutIssuer(account: Account, issuer: string): Account | undefined {
  const links = linksBut(account.links, issuer)
  return links.length || account.password !== undefined ? { ...account, links } : undefined
}

/** Returns the account, with its fields as the issuer has them now; or why there is none. */
export async function accountFor(
  directory: OwnDirectory,
  upstream: Upstream,
  claims: IDToken,
): Promise<Account | UpstreamRefusal | 'disabled'> {
  const said = readClaims(upstream, claims)
  if (!said.isAllowed) return 'not_allowed'
  const link = linkOf(upstream, claims.sub)
  try {
    const known = (await directory.findByLink(link)) ?? (await linkByEmail(directory, said, link))
    if (known) return known.enabled ? await update(directory, known, said) : 'disabled'
    return upstream.accounts === 'link'
      ? 'not_linked'
      : await create(directory, said, upstream, link)
  } catch (error) {
    if (error instanceof InvalidAccount) return 'username_taken'
    throw error
  }
}

/**
 * Decides what an ID token says about a user: which claim of this issuer may admit the user, and set,
 * change, verify or link what. docs/identity-providers/README.md has the same as a table.
 */
export function readClaims(upstream: Upstream, claims: IDToken) {
  const { allow, claims: sources, link_by_verified_email } = upstream
  const { email, email_verified } = claims
  // Another issuer, or an operator, decides about the addresses of other domains.
  const isVouched =
    email_verified === true &&
    isText(email) &&
    Boolean(allow.email_domains?.includes(domainOf(email)))
  const fields: Record<string, unknown> = {}
  const attributes: Partial<Account['attributes']> = {}
  for (const [field, claim] of Object.entries(sources)) {
    const [, attribute] = /^attributes\.(.+)$/.exec(field) ?? []
    const value = claims[claim] ?? undefined
    if (attribute) attributes[attribute] = value as Account['attributes'][string] | undefined
    // A field that is not valid is left out.
    else if (value !== undefined && validProfile.safeParse({ [field]: value }).success)
      fields[field] = value
  }
  const { username, ...profile } = fields
  return {
    isAllowed:
      (isVouched || !allow.email_domains) &&
      Object.entries(allow.claims).every(([name, value]) => [claims[name]].flat().includes(value)),
    /** The address by which an account may be linked. */
    linkable: link_by_verified_email && isVouched ? email : undefined,
    username,
    /** An address that the issuer no longer sends stays, and is no longer verified. */
    profile: {
      ...profile,
      ...(sources.email && { email_verified: 'email' in profile && isVouched }),
    },
    /** Undefined: the issuer has no such claim (any more), and the attribute is deleted. */
    attributes,
  }
}
type Said = ReturnType<typeof readClaims>

const validProfile = profileSchema.partial()
const isText = (value: unknown) => typeof value === 'string'

/** Returns the domain of an e-mail address, in lower case; empty if there is none. */
export const domainOf = (address: string) => address.toLowerCase().split('@')[1] ?? ''

/**
 * Both sides must have verified the address, and only one account may have it. The address of an account
 * with a link came from an issuer, or belongs to a user who signs in there: its owner may be another.
 */
async function linkByEmail(directory: OwnDirectory, { linkable }: Said, link: Link) {
  if (linkable === undefined) return undefined
  const holders = await directory.findByEmail(linkable)
  // Another tab may just have added this link.
  const [account, ...others] = holders.filter(({ links = [] }) =>
    links.every(other => isDeepStrictEqual(other, link)),
  )
  if (!account?.email_verified || others.length) return undefined
  return addLink(directory, account.id, link)
}

const present = (attributes: Said['attributes']): Account['attributes'] =>
  JSON.parse(JSON.stringify(attributes))

async function update(directory: OwnDirectory, account: Account, { profile, attributes }: Said) {
  const edit = (current: Account): Account => ({
    ...current,
    ...profile,
    attributes: present({ ...current.attributes, ...attributes }),
  })
  if (isDeepStrictEqual(edit(account), account)) return account
  return (await directory.change(account.id, edit)) ?? 'not_linked'
}

/**
 * The username is the mapped claim, the e-mail address, or made from the `sub`. At sign-in a username wins
 * over an address: a username that is the address of another account would keep its user from signing in.
 */
async function create(
  directory: OwnDirectory,
  { username, profile, attributes }: Said,
  { name }: Upstream,
  link: Link,
) {
  const fallback = `${name}-${link.subject}`.slice(0, 128)
  const wanted = String(username ?? ('email' in profile ? profile.email : fallback))
  const [holder] = await directory.findByEmail(foldUsername(wanted))
  const fields = {
    ...profile,
    attributes: present(attributes),
    username: holder ? fallback : wanted,
  }
  return directory.add(fields, undefined, { links: [link] })
}
