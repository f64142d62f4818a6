// Reads accounts from an LDAP directory: OpenLDAP, 389 Directory Server, Active Directory. Copy this folder
// into the config folder, run `npm ci` in it, and add to usher.yaml:
//
//   accounts:
//     module: ./ldap/accounts-source.ts
//
//   LDAP_URL            ldaps://ldap.example.org; ldap:// sends passwords in the clear
//   LDAP_BASE           the subtree with the users: ou=people,dc=example,dc=org
//   LDAP_BIND_DN        a user that may search there; its password is in LDAP_BIND_PASSWORD_FILE
//   LDAP_USER_FILTER    selects the entries that are users; Active Directory: (objectClass=user)
//   LDAP_USERNAME       the attribute that is the username; Active Directory: sAMAccountName
//   LDAP_ID             an attribute that never changes: entryUUID; Active Directory: objectGUID.
//                       Usher stores its bytes in hexadecimal, because objectGUID is not text
//
// Groups are the distinguished names in memberOf: direct groups, not those that contain them. Compare
// them in `allow` as the directory writes them.

import { readFileSync } from 'node:fs'
import { AndFilter, Client, EqualityFilter, FilterParser, InvalidCredentialsError } from 'ldapts'
import type { Authenticate, Find, SourceAccount } from '../../../src/features/accounts-module.ts'

const {
  LDAP_URL = '',
  LDAP_BASE = '',
  LDAP_BIND_DN = '',
  LDAP_BIND_PASSWORD_FILE = '',
  LDAP_USER_FILTER = '(objectClass=inetOrgPerson)',
  LDAP_USERNAME = 'uid',
  LDAP_ID = 'entryUUID',
} = process.env

/** Shorter than Usher's limit of 1000 ms, so that connections are closed. */
const TIMEOUT_MS = 900
const ATTRIBUTES = [LDAP_ID, LDAP_USERNAME, 'cn', 'mail', 'departmentNumber', 'memberOf']

export const find: Find = query =>
  connected(async client => {
    const entry = await search(client, query)
    return entry ? accountOf(entry) : null
  })

export const authenticate: Authenticate = ({ username, password }) =>
  connected(async client => {
    const entry = await search(client, { username })
    // A bind is made for an unknown name too, so that it takes as long as a wrong password.
    const isRight = await canBind(client, entry?.dn ?? `cn=unknown,${LDAP_BASE}`, password)
    return entry && isRight ? accountOf(entry) : null
  })

/** Runs `work` with a new connection, and closes it. */
async function connected<T>(work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ url: LDAP_URL, timeout: TIMEOUT_MS, connectTimeout: TIMEOUT_MS })
  try {
    await client.bind(LDAP_BIND_DN, readFileSync(LDAP_BIND_PASSWORD_FILE, 'utf8').trim())
    return await work(client)
  } finally {
    await client.unbind().catch(() => {})
  }
}

type Entry = Awaited<ReturnType<Client['search']>>['searchEntries'][number]

async function search(client: Client, query: { id: string } | { username: string }) {
  // A filter object escapes its value, so that a username cannot change the filter.
  const [attribute, value] =
    'id' in query ? [LDAP_ID, Buffer.from(query.id, 'hex')] : [LDAP_USERNAME, query.username]
  const filter = new AndFilter({
    filters: [FilterParser.parseString(LDAP_USER_FILTER), new EqualityFilter({ attribute, value })],
  })
  const { searchEntries } = await client.search(LDAP_BASE, {
    scope: 'sub',
    filter,
    attributes: ATTRIBUTES,
    explicitBufferAttributes: [LDAP_ID],
    sizeLimit: 2,
  })
  if (searchEntries.length > 1) throw new Error(`several entries have one ${attribute}`)
  return searchEntries[0]
}

/** An empty password would be an anonymous bind, which succeeds. Usher never passes one. */
async function canBind(client: Client, dn: string, password: string): Promise<boolean> {
  if (!password) return false
  try {
    await client.bind(dn, password)
    return true
  } catch (error) {
    if (error instanceof InvalidCredentialsError) return false
    throw error
  }
}

function accountOf(entry: Entry): SourceAccount {
  const texts = (name: string) => [entry[name] ?? []].flat().map(String)
  const text = (name: string) => texts(name)[0]
  return {
    id: Buffer.from([entry[LDAP_ID]].flat()[0] ?? '').toString('hex'),
    username: text(LDAP_USERNAME) ?? '',
    name: text('cn'),
    email: text('mail'),
    // Only if users cannot change `mail` in the directory themselves. Otherwise: false.
    email_verified: true,
    attributes: { department: text('departmentNumber') ?? null, groups: texts('memberOf') },
  }
}
