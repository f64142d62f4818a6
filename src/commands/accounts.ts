// `usher accounts`: adds, shows and changes accounts, beside a running service.

import { randomBytes } from 'node:crypto'
import { plainWords } from '../config/report/wording.ts'
import { timeOf } from '../config/schema/values.ts'
import { withoutSecrets } from '../features/factors/factors.ts'
import {
  type Account,
  InvalidAccount,
  type Profile,
  profileSchema,
} from '../sign-in/account.ts'
import { hashPassword, passwordProblem } from '../sign-in/password.ts'
import { now } from '../store/store.ts'
import { readJson } from '../store/values.ts'
import { Failure, type Invocation, readStdin, requireOne } from './command.ts'
import {
  openAccount,
  openOwnAccount,
  openOwnDirectory,
  warnIfShared,
} from './open-account.ts'
import { type Flags, hint, print } from './output.ts'

/** Lifetime of a temporary password: over a weekend. */
const TEMPORARY_PASSWORD_SECONDS = 3 * 24 * 3600
const temporaryUntil = () => now() + TEMPORARY_PASSWORD_SECONDS

/** The answer of a command that ends every access of an account. */
export const ACCESS_ENDED =
  'all sessions and tokens have ended. JWT access tokens for APIs expire within ten minutes.'

/**
 * `accounts add --username U …`: prints the id on the first line, a generated
 * password on the second.
 */
export async function addAccount(invocation: Invocation) {
  const profile = readProfile(invocation, profileSchema)
  const { given, generated, change_password_by } = await readPassword(
    invocation.flags,
  )
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

/** `accounts show ACCOUNT`. */
export async function showAccount({ flags, args: [name = ''] }: Invocation) {
  const { account } = await openAccount(name)
  print(flags, visible(account))
}

/**
 * `accounts set ACCOUNT [ATTRIBUTE…] …`: changes what is named, and nothing
 * else.
 */
export async function setAccount(invocation: Invocation) {
  const [name = '', ...texts] = invocation.args
  const changes = readProfile(invocation, changesSchema)
  if (!Object.keys(changes).length && !texts.length) {
    throw new Failure(
      'Nothing to change: groups+=finance, or an option, as --name "Ada Lovelace".',
    )
  }
  const { account, directory, audit } = await openOwnAccount(name)
  const hasNewEmail = ({ email }: Account) =>
    changes.email !== undefined && changes.email !== email
  const changed = await directory.change(account.id, current => ({
    ...current,
    ...changes,
    attributes: texts.reduce(
      changeAttribute,
      changes.attributes ?? current.attributes,
    ),
    // A new address is not verified, unless the operator says that it is.
    ...(hasNewEmail(current) && {
      email_verified: changes.email_verified ?? false,
    }),
  }))
  const formerEmail = hasNewEmail(account) ? account.email : undefined
  await audit('account_changed', { account: account.id }, formerEmail)
  hint(`${changes.username ?? account.username} is changed.`)
  if (changed && changes.email !== undefined)
    await warnIfShared(directory, changed)
}

/** `accounts disable ACCOUNT`: ends every session and token. */
export async function disableAccount({ args: [name = ''] }: Invocation) {
  const { id, username, directory, audit } = await openOwnAccount(name)
  await directory.endAccess(id, current => ({ ...current, enabled: false }))
  await audit('account_disabled', { account: id })
  hint(`${username} is disabled; ${ACCESS_ENDED}`)
}

/** `accounts enable ACCOUNT`. */
export async function enableAccount({ args: [name = ''] }: Invocation) {
  const { id, username, directory, audit } = await openOwnAccount(name)
  await directory.change(id, current => ({ ...current, enabled: true }))
  await audit('account_enabled', { account: id })
  hint(`${username} can sign in again.`)
}

/**
 * `accounts password ACCOUNT`: ends every session and token. Prints a password
 * that it generates, which the user must change (ASVS 5.0 6.4.1).
 */
export async function setPassword({ flags, args: [name = ''] }: Invocation) {
  const { given, generated, ...about } = await readPassword(flags)
  const change_password_by =
    given === undefined ? temporaryUntil() : about.change_password_by
  const { account, id, username, directory, audit } = await openOwnAccount(name)
  const hash = await hashPassword(given ?? generated)
  await directory.endAccess(id, current => ({
    ...current,
    password: hash,
    change_password_by,
  }))
  if (given === undefined) process.stdout.write(`${generated}\n`)
  const is_first =
    (account.password === undefined && !account.links?.length) || undefined
  await audit('password_set', { account: id, change_password_by, is_first })
  hint(`The password of ${username} is changed; ${ACCESS_ENDED}`)
  for (const { issuer, subject } of account.links ?? []) {
    const end = `npm run usher -- accounts unlink ${username} --upstream NAME`
    hint(
      `A sign-in at ${issuer} as ${subject} stays possible. To end it: ${end}`,
    )
  }
}

/** `accounts remove ACCOUNT --yes`. */
export async function removeAccount({ flags, args: [name = ''] }: Invocation) {
  const { account, id, username, directory, links, audit } =
    await openOwnAccount(name)
  if (!flags.yes) {
    const instead = `npm run usher -- accounts disable ${username}`
    throw new Failure(
      `This removes ${username} (${id}) for good. Add --yes, or: ${instead}`,
    )
  }
  await links.removeAll(account)
  await directory.remove(account)
  await audit('account_removed', { account: id })
  hint(`${username} is removed; ${ACCESS_ENDED}`)
}

/**
 * `accounts factors ACCOUNT [--remove ID]`: `--remove all` removes the recovery
 * codes, too.
 */
export async function listOrRemoveFactors({
  values,
  flags,
  args: [name = ''],
}: Invocation) {
  const opened = await openAccount(name)
  if (values.remove === undefined) return listFactors(flags, opened)
  if (values.remove === 'all') return removeAllFactors(opened)
  return removeFactor(values.remove, opened)
}

type Opened = Awaited<ReturnType<typeof openAccount>>

/**
 * Prints the id, the type, when it was added and last used, and the name of
 * each.
 */
async function listFactors(flags: Flags, opened: Opened) {
  const { id: account } = opened
  const found = await opened.factors.read(account)
  const { factors, recovery_codes } = withoutSecrets(found)
  const lines = factors.map(
    ({ id, type, name, created, used = { at: created } }) =>
      [id, type, timeOf(created), timeOf(used.at), name].join('  ').trimEnd(),
  )
  lines.push(`recovery codes left: ${recovery_codes}`)
  print(flags, { account, factors, recovery_codes }, lines)
}

async function removeAllFactors({ id, username, factors, audit }: Opened) {
  const removed = await factors.reset(id)
  await audit('second_factors_reset', {
    account: id,
    factors: removed.map(({ type }) => type),
  })
  hint(`${username} has no second factor any more, and no recovery codes.`)
}

async function removeFactor(
  factorId: string,
  { id, username, factors, audit }: Opened,
) {
  const own = await factors.read(id)
  const factor = requireOne('Second factor', factorId, own.factors, 'id')
  await factors.remove(id, factor.id)
  await audit('second_factor_removed', { account: id, factor: factor.type })
  hint(`This second factor of ${username} is removed.`)
}

/** Returns an account without its password. */
export function visible({ password, ...account }: Account) {
  return { ...account, has_password: password !== undefined }
}

type ProfileSchema = Pick<typeof changesSchema, 'safeParse'>
const changesSchema = profileSchema.partial()

/** Reads what the options name, without the defaults of the schema. */
export function readProfile(
  { values, flags }: Pick<Invocation, 'values' | 'flags'>,
  schema: ProfileSchema,
): Partial<Profile> {
  const given: Record<string, unknown> = {
    username: values.username,
    name: values.name,
    email: values.email,
    email_verified: flags['email-verified'],
    attributes: readAttributes(values.attributes),
  }
  const { success, data, error } = schema.safeParse(given, {
    error: plainWords,
  })
  if (!success) {
    const lines = error.issues.map(
      ({ path, message }) => `--${path.join('.')}: ${message}`,
    )
    throw new Failure(
      lines.join('\n').replaceAll('email_verified', 'email-verified'),
    )
  }
  const named = Object.entries(data).filter(([key]) => given[key] !== undefined)
  return Object.fromEntries(named)
}

function readAttributes(json: string | undefined): unknown {
  if (json === undefined) return undefined
  const attributes = readJson(json)
  if (attributes !== undefined) return attributes
  throw new Failure(
    `--attributes takes a JSON object: '{"department":"Engines"}'`,
  )
}

const PASSWORD_PROBLEMS = {
  too_short: 'A password has at least 12 characters.',
  too_long: 'A password has at most 1024 bytes.',
  too_personal: 'This is made of the names of the account: choose another.',
  too_common: 'This is one of the most common passwords: choose another.',
}

/**
 * Reads the options about a password. `given`: undefined without
 * `--password-stdin`.
 */
async function readPassword(flags: Flags) {
  const given = flags['password-stdin'] ? await readStdin() : undefined
  const problem = given === undefined ? undefined : passwordProblem(given)
  if (problem) throw new Failure(PASSWORD_PROBLEMS[problem])
  const generated = randomBytes(15).toString('base64url')
  const due = flags['must-change'] ? temporaryUntil() : undefined
  return { given, generated, change_password_by: due }
}

const EDIT =
  'must be groups+=finance, groups-=sales or site=north: site= removes the attribute'

/**
 * Returns attributes after a change of one, such as `groups+=finance`. Throws
 * `InvalidAccount` for another text.
 */
function changeAttribute(attributes: Account['attributes'], change: string) {
  const [, name = '', sign = '', value = ''] =
    /^([^=]+?)([+-]?=)(.*)$/.exec(change) ?? []
  const isTaken = name in Object.prototype
  if (!name || isTaken || (sign !== '=' && !value))
    throw new InvalidAccount(`${change} ${EDIT}`)
  const { [name]: before = [], ...others } = attributes
  if (sign === '=') return value ? { ...others, [name]: value } : others
  const rest = [before].flat().filter(one => one !== value)
  if (sign === '+=') return { ...others, [name]: [...rest, value] }
  return rest.length
    ? { ...others, [name]: Array.isArray(before) ? rest : before }
    : others
}
