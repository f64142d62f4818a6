// Ways to sign in that an operator gives an account: `usher accounts invite`
// and `password-link` make a link with which the user chooses a password;
// `link` and `unlink` add and remove a link to a user of an upstream issuer.

import { queueLink } from '../account/mail-queue.ts'
import { readSettings, type Settings } from '../config/load.ts'
import type { Upstream } from '../config/schema/upstream.ts'
import { readDuration, timeOf } from '../config/schema/values.ts'
import { describeFactors } from '../features/factors/factors.ts'
import { addLink, withoutIssuer } from '../features/upstream/identities.ts'
import {
  type Account,
  newAccountId,
  type Profile,
  profileSchema,
  subjectSchema,
  type Transfer,
} from '../sign-in/account.ts'
import { ACCESS_ENDED, readProfile } from './accounts.ts'
import { Failure, type Invocation, requireOne } from './command.ts'
import {
  openOwnAccount,
  openOwnDirectory,
  warnIfShared,
} from './open-account.ts'
import type { State } from './open-store.ts'
import { type Flags, hint, print } from './output.ts'
import { addLines, readAccounts } from './transfer.ts'

const MAX_LINK_SECONDS = 30 * 24 * 3600

/**
 * `accounts invite`: adds an account, or those of a file, and prints the links
 * for their first passwords.
 */
export async function inviteAccounts(invocation: Invocation) {
  const options = readLinkOptions(invocation)
  const { file, groups } = invocation.values
  if (file !== undefined) {
    const content = await readAccounts(file)
    return inviteLines(content, options, await openOwnDirectory('create'))
  }
  const profile = readProfile(invocation, profileSchema)
  const attributes = { ...profile.attributes }
  if (groups !== undefined) attributes.groups = groups.split(',')
  const opened = await openOwnDirectory('create')
  const account = await opened.directory.add({ ...profile, attributes })
  await opened.audit('account_added', { account: account.id })
  await warnIfShared(opened.directory, account)
  await giveLink(options, opened, account)
  reportUnconfirmed(isUnconfirmed(options, account) ? 1 : 0)
}

/** The options about a link, and how it is printed. */
interface LinkOptions {
  flags: Flags
  /** Lifetime of the link. Undefined: that of the settings. */
  seconds?: number
  isMailed: boolean
  lang: string
  resetFactors: boolean
}

function readLinkOptions({ values, flags }: Invocation): LinkOptions {
  return {
    flags,
    seconds: readLifetime(values.for),
    isMailed: flags.mail === true,
    lang: values.lang ?? 'en',
    resetFactors: flags['reset-factors'] === true,
  }
}

/** Reads `--for`. */
function readLifetime(given: string | undefined): number | undefined {
  if (given === undefined) return undefined
  const seconds = readDuration(given)
  if (seconds && seconds <= MAX_LINK_SECONDS) return seconds
  throw new Failure('--for takes a duration of at most 30 days: 12h, 3d')
}

/** Adds the accounts of a file, and gives each its link. */
async function inviteLines(
  content: string,
  options: LinkOptions,
  opened: State,
) {
  let unconfirmed = 0
  try {
    await addLines(content, opened, async transfer => {
      const outcome = await inviteOne(transfer, options, opened)
      if (outcome === 'added' && isUnconfirmed(options, transfer)) unconfirmed++
      return outcome
    })
  } finally {
    reportUnconfirmed(unconfirmed)
  }
}

/** Adds an account, with its link. */
async function inviteOne(
  transfer: Transfer,
  options: LinkOptions,
  opened: State,
) {
  const { directory } = opened
  const { id = newAccountId(), username } = transfer
  const isPresent = await (transfer.id
    ? directory.find(id)
    : directory.findByUsername(username))
  if (isPresent) return 'present'
  const account = { ...transfer, id }
  // A mail waits for its account. If the command dies in between, its
  // repetition adds the account, with another mail.
  if (options.isMailed) await giveLink(options, opened, account)
  const outcome = await directory.transfer(account)
  if (outcome === 'added' && !options.isMailed) {
    await giveLink(options, opened, account, `${username} `)
  }
  return outcome
}

/**
 * Whether the account has an address that is not confirmed, and that a printed
 * link does not confirm.
 */
const isUnconfirmed = (
  { isMailed }: LinkOptions,
  { email, email_verified }: Profile,
) => !isMailed && email !== undefined && !email_verified

/** Says how many addresses are not confirmed, and what that means. */
function reportUnconfirmed(count: number) {
  if (!count) return
  hint(
    `Addresses that are not confirmed: ${count}. No link for a forgotten password goes there, and no sign-in with it works. ` +
      'Their users confirm them on the account page (with `mail` in usher.yaml); a link that is sent with --mail confirms the address, too, ' +
      'or you vouch for it with --email-verified, in a file with a column email_verified.',
  )
}

/** `accounts password-link ACCOUNT`: makes a link for a new password. */
export async function makePasswordLink(invocation: Invocation) {
  const options = readLinkOptions(invocation)
  const { account, ...opened } = await openOwnAccount(invocation.args[0] ?? '')
  await reportEnds(opened, account)
  await giveLink(options, opened, account)
}

/** Says what the link replaces, and what its use ends. */
async function reportEnds({ links, sessions }: State, account: Account) {
  const earlier = await links.openOf(account)
  if (earlier)
    hint(`It replaces the link that is open until ${timeOf(earlier.until)}.`)
  if (account.password === undefined) return
  const { length } = await sessions.listOfAccount(account.id)
  const ended = `${length} ${length === 1 ? 'session' : 'sessions'}`
  hint(
    `The use of the link replaces the password of ${account.username}, and ends ${ended} and all tokens; nothing ends before.`,
  )
}

/** An account that gets a link. */
type Invited = Pick<Account, 'id' | 'username' | 'email' | 'ended'>

/**
 * Gives an account a link for its password: printed after `head`, or by mail.
 */
async function giveLink(
  options: LinkOptions,
  opened: State,
  account: Invited,
  head = '',
) {
  const settings = await readSettings()
  if (options.resetFactors) {
    const own = describeFactors(await opened.factors.read(account.id))
    const { username } = account
    hint(
      `The use of the link removes the second factors of ${username}, not before.${own}`,
    )
  }
  if (options.isMailed) return mailLink(options, opened, account, settings)
  await printLink(options, opened, account, settings.issuer, head)
}

/** Queues a mail, in which a running service sends a link. */
async function mailLink(
  { lang, seconds, resetFactors }: LinkOptions,
  { mails, audit }: State,
  account: Invited,
  settings: Settings,
) {
  await queueLink(settings, mails, account, { lang, seconds, resetFactors })
  await audit('link_mailed', { account: account.id, ...auditOf(resetFactors) })
  hint(`A mail for ${account.username} is queued; a running service sends it.`)
}

/** Makes a link, and prints it after `head`. */
async function printLink(
  { flags, seconds, resetFactors }: LinkOptions,
  { links, audit }: State,
  account: Invited,
  issuer: string,
  head: string,
) {
  const { id, username } = account
  const { path, until } = await links.make(account, seconds, { resetFactors })
  await audit('link_made', {
    account: id,
    until: timeOf(until),
    ...auditOf(resetFactors),
  })
  const link = issuer + path
  print(flags, { account: id, username, link, until }, [head + link])
  hint(
    `With this link, ${username} chooses a password. It works once, until ${timeOf(until)}.`,
  )
}

const auditOf = (resetFactors: boolean) =>
  resetFactors ? { reset_factors: true } : {}

const NO_UPSTREAM =
  '--upstream and --subject are missing: the name of a file in upstreams/, and a sub of its ID tokens.\n' +
  'For a link with which the user chooses a password: npm run usher -- accounts password-link ACCOUNT'
const SUB = '1 to 255 visible ASCII characters, as in the ID tokens'

/** `accounts link ACCOUNT --upstream NAME --subject SUB`. */
export async function linkAccount({ values, args: [name = ''] }: Invocation) {
  if (!values.upstream && !values.subject) throw new Failure(NO_UPSTREAM)
  const { data: subject } = subjectSchema.safeParse(values.subject)
  if (!subject) throw new Failure(`--subject is missing, or not a sub: ${SUB}.`)
  const { issuer } = await upstreamOf(values.upstream)
  const { id, username, directory, audit } = await openOwnAccount(name)
  await addLink(directory, id, { issuer, subject })
  await audit('account_linked', {
    account: id,
    upstream: values.upstream,
    subject,
  })
  hint(`${username} can sign in with ${values.upstream}.`)
}

/** `accounts unlink ACCOUNT --upstream NAME`. */
export async function unlinkAccount({ values, args: [name = ''] }: Invocation) {
  const upstream = await upstreamOf(values.upstream)
  const { account, id, username, directory, audit } = await openOwnAccount(name)
  const removed =
    account.links?.filter(link => link.issuer === upstream.issuer) ?? []
  if (!removed.length)
    throw new Failure(`${username} has no link to ${values.upstream}.`)
  if (!withoutIssuer(account, upstream)) {
    throw new Failure(
      `This is the only way for ${username} to sign in: set a password first.`,
    )
  }
  await directory.endAccess(
    id,
    current => withoutIssuer(current, upstream) ?? current,
  )
  for (const { subject } of removed) {
    await audit('account_unlinked', {
      account: id,
      upstream: values.upstream,
      subject,
    })
  }
  hint(
    `${username} can no longer sign in with ${values.upstream}; ${ACCESS_ENDED}`,
  )
}

async function upstreamOf(name: string | undefined): Promise<Upstream> {
  if (!name)
    throw new Failure(
      '--upstream is missing: the name of a file in upstreams/.',
    )
  const { upstreams } = await readSettings()
  return requireOne('Upstream', name, Object.values(upstreams), 'name')
}
