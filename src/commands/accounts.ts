// `usher accounts`: adds, shows and changes accounts, beside a running service.

import { randomBytes } from 'node:crypto'
import { readSettings } from '../config/load.ts'
import { plainWords } from '../config/report/wording.ts'
import type { Upstream } from '../config/schema/upstream.ts'
import { createFactors, withoutSecrets } from '../features/factors/factors.ts'
import { createLinks } from '../features/links.ts'
import { addLink, withoutIssuer } from '../features/upstream/identities.ts'
import { valuesOf } from '../oidc/clients.ts'
import { tidy } from '../oidc/display-text.ts'
import {
  type Account,
  foldUsername,
  InvalidAccount,
  type Profile,
  profileSchema,
  subjectSchema,
} from '../sign-in/account.ts'
import { hashPassword, passwordProblem } from '../sign-in/password.ts'
import { now } from '../store/store.ts'
import { readJson } from '../store/values.ts'
import {
  Failure,
  hint,
  type Invocation,
  openAccount,
  openOwnAccount,
  openOwnDirectory,
  print,
  readStdin,
  requireOne,
  shown,
  timeOf,
  warnIfShared,
} from './command.ts'

/** Lifetime of a temporary password: over a weekend. */
const TEMPORARY_PASSWORD_SECONDS = 3 * 24 * 3600

/** `accounts add --username U …`: prints the id on the first line, a generated password on the second. */
export async function addAccount({ values }: Invocation) {
  const profile = readProfile(values, profileSchema)
  const { given, generated, change_password_by } = await readPassword(values)
  const password = given ?? (change_password_by ? generated : undefined)
  const { directory, audit } = await openOwnDirectory('create')
  const account = await directory.add(profile, password, { change_password_by })
  const { id } = account
  process.stdout.write(password === given ? `${id}\n` : `${id}\n${password}\n`)
  await audit('account_added', { account: id, change_password_by })
  await warnIfShared(directory, account)
  if (password === undefined) {
    const next = `npm run usher -- accounts password ${profile.username}`
    hint(`The account has no password, and cannot sign in yet: ${next}`)
  }
}

/** `accounts list`, and `accounts find TEXT`: the accounts whose username, name or e-mail address contains the text. */
export async function listAccounts({ values, args: [text] }: Invocation) {
  const { directory } = await openOwnDirectory()
  const wanted = foldUsername(tidy(text ?? ''))
  const has = (part = '') => foldUsername(tidy(part)).includes(wanted)
  const [, attribute = '', value = ''] = /^([^=]+)=(.+)$/.exec(text ?? '') ?? []
  const accounts = await Array.fromAsync(directory.all())
  accounts.sort((a, b) => a.username.localeCompare(b.username))
  const found = accounts.filter(
    ({ username, name, email, attributes }) =>
      [username, name, email].some(has) || valuesOf(attributes, attribute).includes(value),
  )
  const width = found.reduce((most, { username }) => Math.max(most, username.length), 0)
  const describe = ({ id, username, name, email, enabled }: Account) => {
    const about = [enabled ? '' : '(disabled)', name, text === undefined ? '' : email]
    return [id, '', username.padEnd(width), '', ...about.filter(Boolean).map(shown)].join(' ')
  }
  const none = text === undefined ? 'There are no accounts yet.' : 'No account has this text.'
  print(values, found.map(visible), found.map(describe), none)
}

const SUB = '1 to 255 visible ASCII characters, as in the ID tokens'

/** `accounts link ACCOUNT --upstream NAME --subject SUB`. */
export async function linkUpstream({ values, args: [name = ''] }: Invocation) {
  const { data: subject } = subjectSchema.safeParse(values.subject)
  if (!subject) throw new Failure(`--subject is missing, or not a sub: ${SUB}.`)
  const { issuer } = await upstreamOf(values.upstream)
  const { id, username, directory, audit } = await openOwnAccount(name)
  await addLink(directory, id, { issuer, subject })
  await audit('account_linked', { account: id, upstream: values.upstream, subject })
  hint(`${username} can sign in with ${values.upstream}.`)
}

/** `accounts unlink ACCOUNT --upstream NAME`. */
export async function unlinkAccount({ values, args: [name = ''] }: Invocation) {
  const upstream = await upstreamOf(values.upstream)
  const { account, id, username, directory, audit } = await openOwnAccount(name)
  const removed = account.links?.filter(link => link.issuer === upstream.issuer) ?? []
  if (!removed.length) throw new Failure(`${username} has no link to ${values.upstream}.`)
  if (!withoutIssuer(account, upstream)) {
    throw new Failure(`This is the only way for ${username} to sign in: set a password first.`)
  }
  await directory.endAccess(id, current => withoutIssuer(current, upstream) ?? current)
  for (const { subject } of removed) {
    await audit('account_unlinked', { account: id, upstream: values.upstream, subject })
  }
  hint(
    `${username} can no longer sign in with ${values.upstream}; all sessions and tokens have ended.`,
  )
}

async function upstreamOf(name: unknown): Promise<Upstream> {
  if (!name) throw new Failure('--upstream is missing: the name of a file in upstreams/.')
  const { upstreams } = await readSettings()
  return requireOne('Upstream', String(name), Object.values(upstreams), 'name')
}

/** `accounts show ACCOUNT`. */
export async function showAccount({ values, args: [name = ''] }: Invocation) {
  const { account } = await openAccount(name)
  print(values, visible(account))
}

/** `accounts set ACCOUNT [ATTRIBUTE…] …`: changes what is named, and nothing else. */
export async function setAccount({ values, args: [name = '', ...texts] }: Invocation) {
  const changes = readProfile(values, changesSchema)
  if (!Object.keys(changes).length && !texts.length) {
    throw new Failure('Nothing to change: groups+=finance, or an option, as --name "Ada Lovelace".')
  }
  const { account, directory, audit } = await openOwnAccount(name)
  const hasNewEmail = ({ email }: Account) => changes.email !== undefined && changes.email !== email
  const changed = await directory.change(account.id, current => ({
    ...current,
    ...changes,
    attributes: texts.reduce(changeAttribute, changes.attributes ?? current.attributes),
    // A new address is not verified, unless the operator says that it is.
    ...(hasNewEmail(current) && { email_verified: changes.email_verified ?? false }),
  }))
  const formerEmail = hasNewEmail(account) ? account.email : undefined
  await audit('account_changed', { account: account.id }, formerEmail)
  hint(`${changes.username ?? account.username} is changed.`)
  if (changed && changes.email !== undefined) await warnIfShared(directory, changed)
}

/** `accounts disable ACCOUNT`: ends every session and token. */
export async function disableAccount({ args: [name = ''] }: Invocation) {
  const { id, username, directory, audit } = await openOwnAccount(name)
  await directory.endAccess(id, current => ({ ...current, enabled: false }))
  await audit('account_disabled', { account: id })
  hint(`${username} is disabled; all sessions and tokens have ended.`)
}

/** `accounts enable ACCOUNT`. */
export async function enableAccount({ args: [name = ''] }: Invocation) {
  const { id, username, directory, audit } = await openOwnAccount(name)
  await directory.change(id, current => ({ ...current, enabled: true }))
  await audit('account_enabled', { account: id })
  hint(`${username} can sign in again.`)
}

/** `accounts password ACCOUNT`: ends every session and token. Prints a password that it generates. */
export async function setPassword({ values, args: [name = ''] }: Invocation) {
  const { given, generated, change_password_by } = await readPassword(values)
  const { account, id, username, directory, audit } = await openOwnAccount(name)
  const hash = await hashPassword(given ?? generated)
  await directory.endAccess(id, current => ({ ...current, password: hash, change_password_by }))
  if (given === undefined) process.stdout.write(`${generated}\n`)
  const is_first = (account.password === undefined && !account.links?.length) || undefined
  await audit('password_set', { account: id, change_password_by, is_first })
  hint(`The password of ${username} is changed; all sessions and tokens have ended.`)
  for (const { issuer, subject } of account.links ?? []) {
    const end = `npm run usher -- accounts unlink ${username} --upstream NAME`
    hint(`A sign-in at ${issuer} as ${subject} stays possible. To end it: ${end}`)
  }
}

/** `accounts remove ACCOUNT --yes`. */
export async function removeAccount({ values, args: [name = ''] }: Invocation) {
  const { account, id, username, directory, records, audit } = await openOwnAccount(name)
  if (!values.yes) {
    const instead = `npm run usher -- accounts disable ${username}`
    throw new Failure(`This removes ${username} (${id}) for good. Add --yes, or: ${instead}`)
  }
  await createLinks(records, directory).removeAll(account)
  await directory.remove(account)
  await audit('account_removed', { account: id })
  hint(`${username} is removed.`)
}

/**
 * `accounts factors ACCOUNT [--remove ID]`: id, type, when it was added and last used, and name. `--remove all`
 * removes the recovery codes, too.
 */
export async function listOrRemoveFactors({ values, args: [name = ''] }: Invocation) {
  const { id, username, records, audit } = await openAccount(name)
  const store = createFactors(records)
  const { factors: own, recovery_codes } = withoutSecrets(await store.read(id))
  const { remove } = values
  if (remove === undefined) {
    const lines = own.map(({ id, type, name, created, used = { at: created } }) =>
      [id, type, timeOf(created), timeOf(used.at), name].join('  ').trimEnd(),
    )
    lines.push(`recovery codes left: ${recovery_codes}`)
    return print(values, { account: id, factors: own, recovery_codes }, lines)
  }
  if (remove === 'all') {
    const removed = await store.reset(id)
    await audit('second_factors_reset', { account: id, factors: removed.map(({ type }) => type) })
    return hint(`${username} has no second factor any more, and no recovery codes.`)
  }
  const removed = requireOne('Second factor', String(remove), own, 'id')
  await store.remove(id, removed.id)
  await audit('second_factor_removed', { account: id, factor: removed.type })
  hint(`This second factor of ${username} is removed.`)
}

/** Returns an account without its password. */
export function visible({ password, ...account }: Account) {
  return { ...account, has_password: password !== undefined }
}

/** Reads what the options name, without the defaults of the schema. */
export function readProfile(values: Invocation['values'], schema: ProfileSchema): Partial<Profile> {
  const { username, name, email, 'email-verified': email_verified } = values
  const attributes = readJson(String(values.attributes))
  if (values.attributes !== undefined && attributes === undefined) {
    throw new Failure(`--attributes takes a JSON object: '{"department":"Engines"}'`)
  }
  const given: Record<string, unknown> = { username, name, email, email_verified, attributes }
  const { success, data, error } = schema.safeParse(given, { error: plainWords })
  const isGiven = ([key]: [string, unknown]) => given[key] !== undefined
  if (success) return Object.fromEntries(Object.entries(data).filter(isGiven))
  const lines = error.issues.map(({ path, message }) => `--${path.join('.')}: ${message}`)
  throw new Failure(lines.join('\n').replaceAll('email_verified', 'email-verified'))
}
type ProfileSchema = Pick<typeof changesSchema, 'safeParse'>
const changesSchema = profileSchema.partial()

const PASSWORD_PROBLEMS = {
  too_short: 'A password has at least 12 bytes.',
  too_long: 'A password has at most 1024 bytes.',
  too_common: 'This is one of the most common passwords: choose another.',
}

/** Reads the options about a password. `given`: undefined without `--password-stdin`. */
async function readPassword(values: Invocation['values']) {
  const given = values['password-stdin'] ? await readStdin() : undefined
  const problem = given === undefined ? undefined : passwordProblem(given)
  if (problem) throw new Failure(PASSWORD_PROBLEMS[problem])
  const generated = randomBytes(15).toString('base64url')
  const due = values['must-change'] ? now() + TEMPORARY_PASSWORD_SECONDS : undefined
  return { given, generated, change_password_by: due }
}

const EDIT = 'must be groups+=finance, groups-=sales or site=north: site= removes the attribute'

/** Returns attributes after a change of one, such as `groups+=finance`. Throws `InvalidAccount` for another text. */
function changeAttribute(attributes: Account['attributes'], change: string) {
  const [, name = '', sign = '', value = ''] = /^([^=]+?)([+-]?=)(.*)$/.exec(change) ?? []
  const isTaken = name in Object.prototype
  if (!name || isTaken || (sign !== '=' && !value)) throw new InvalidAccount(`${change} ${EDIT}`)
  const { [name]: before = [], ...others } = attributes
  if (sign === '=') return value ? { ...others, [name]: value } : others
  const rest = [before].flat().filter(one => one !== value)
  if (sign === '+=') return { ...others, [name]: [...rest, value] }
  return rest.length ? { ...others, [name]: Array.isArray(before) ? rest : before } : others
}
