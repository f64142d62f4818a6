// The people who can sign in, from the operator's side. Works beside a running server.

import { randomBytes } from 'node:crypto'
import { type Account, type Profile, profileSchema } from '../accounts/account.ts'
import { UsernameTaken } from '../accounts/directory.ts'
import { hashPassword, passwordProblem } from '../accounts/password.ts'
import { plainWords } from '../config/report/wording.ts'
import { Failure, hint, type Invocation, moment, print, readStdin } from './command.ts'
import { withAccount, withDirectory, withOwnAccount } from './directory.ts'

export async function add({ values }: Invocation) {
  const profile = readProfile(values, profileSchema)
  const password = values['password-stdin'] ? await readPassword() : undefined
  await withDirectory(async (directory, leave) => {
    const { id } = await unlessTaken(directory.add(profile, password))
    process.stdout.write(`${id}\n`)
    await leave('account_added', { account: id })
    if (password === undefined) {
      hint(`They cannot sign in yet: npm run usher -- accounts password ${profile.username}`)
    }
  })
}

export async function list({ values }: Invocation) {
  await withDirectory(async directory => {
    const all = await directory.list()
    const width = Math.max(0, ...all.map(({ username }) => username.length))
    const lines = all.map(
      ({ id, username, name = '', enabled }) =>
        `${id}  ${username.padEnd(width)}  ${enabled ? '' : '(disabled) '}${name}`,
    )
    print(values, all.map(visible), lines.length ? lines : ['There are no accounts yet.'])
  })
}

export async function show(invocation: Invocation) {
  await withAccount(invocation, async account => {
    const shown = visible(account)
    const lines = Object.entries(shown).map(([key, value]) => {
      const isTime = ['created', 'updated', 'ended'].includes(key) && typeof value === 'number'
      const text = typeof value === 'object' ? JSON.stringify(value) : String(value)
      return `${`${key}:`.padEnd(16)}${isTime ? `${moment(value)} UTC` : text}`
    })
    print(invocation.values, shown, lines)
  })
}

export async function set(invocation: Invocation) {
  const { username, ...changes } = readProfile(invocation.values, changesSchema)
  if (!username && !Object.keys(changes).length) throw new Failure('Say what to change: --name …')
  await withOwnAccount(invocation, async (directory, account, leave) => {
    if (username !== undefined) await unlessTaken(directory.rename(account, username))
    await directory.change(account.id, current => ({
      ...current,
      ...changes,
      // Another address has not been confirmed by anyone, unless the operator says so now.
      ...(changes.email !== undefined &&
        changes.email !== current.email && { email_verified: changes.email_verified ?? false }),
    }))
    await leave('account_changed', { account: account.id })
    hint(`Changed ${username ?? account.username}.`)
  })
}

export async function disable(invocation: Invocation) {
  await withOwnAccount(invocation, async (directory, account, leave) => {
    await directory.endAccess(account.id, current => ({ ...current, enabled: false }))
    await leave('account_disabled', { account: account.id })
    hint(`${account.username} is disabled; every session and token of theirs has ended.`)
  })
}

export async function enable(invocation: Invocation) {
  await withOwnAccount(invocation, async (directory, account, leave) => {
    await directory.change(account.id, current => ({ ...current, enabled: true }))
    await leave('account_enabled', { account: account.id })
    hint(`${account.username} can sign in again.`)
  })
}

export async function password(invocation: Invocation) {
  const generated = randomBytes(15).toString('base64url')
  const secret = invocation.values['password-stdin'] ? await readPassword() : undefined
  await withOwnAccount(invocation, async (directory, account, leave) => {
    const hash = await hashPassword(secret ?? generated)
    await directory.endAccess(account.id, current => ({ ...current, password: hash }))
    if (secret === undefined) process.stdout.write(`${generated}\n`)
    await leave('password_set', { account: account.id })
    hint(`The password of ${account.username} is changed; every session and token has ended.`)
  })
}

export async function remove(invocation: Invocation) {
  await withOwnAccount(invocation, async (directory, account, leave) => {
    if (!invocation.values.yes) {
      throw new Failure(
        `This removes ${account.username} (${account.id}) for good: applications will never see that ` +
          'subject again.\nRun it again with --yes, or keep the account with accounts disable.',
      )
    }
    await directory.remove(account)
    await leave('account_removed', { account: account.id })
    hint(`${account.username} is removed.`)
  })
}

function visible({ password, ...account }: Account) {
  return { ...account, has_password: password !== undefined }
}

/** What was said of a person on the command line, and nothing else: no defaults. */
function readProfile(values: Invocation['values'], schema: ProfileSchema): Partial<Profile> {
  const { username, name, email, 'email-verified': email_verified } = values
  const attributes = parseJson(values.attributes)
  const said: Record<string, unknown> = { username, name, email, email_verified, attributes }
  const { success, data, error } = schema.safeParse(said, { error: plainWords })
  const isSaid = ([key]: [string, unknown]) => said[key] !== undefined
  if (success) return Object.fromEntries(Object.entries(data).filter(isSaid))
  const lines = error.issues.map(({ path, message }) => `--${path.join('.')}: ${message}`)
  throw new Failure(lines.join('\n').replaceAll('email_verified', 'email-verified'))
}
type ProfileSchema = Pick<typeof changesSchema, 'safeParse'>
const changesSchema = profileSchema.partial()

function parseJson(text: unknown): unknown {
  if (text === undefined) return undefined
  try {
    return JSON.parse(String(text))
  } catch {
    throw new Failure(`--attributes takes a JSON object: '{"department":"Engines"}'`)
  }
}

async function readPassword(): Promise<string> {
  const password = await readStdin()
  const problem = passwordProblem(password)
  if (problem === 'too_short') throw new Failure('A password has at least 12 bytes.')
  if (problem === 'too_long') throw new Failure('A password has at most 1024 bytes.')
  if (problem === 'too_common') {
    throw new Failure('This is one of the passwords that people choose most: take another.')
  }
  return password
}

function unlessTaken<T>(change: Promise<T>): Promise<T> {
  return change.catch(error => {
    throw error instanceof UsernameTaken ? new Failure('This username is taken.') : error
  })
}
