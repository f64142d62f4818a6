// `usher clients`: the clients of the config folder, those that registered
// themselves, and invitations: the initial access tokens that they register
// with.

import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { basename, join } from 'node:path'
import { configFolder } from '../config/environment.ts'
import type { ValidFile } from '../config/files.ts'
import { type Reading, readSettings, type Settings } from '../config/load.ts'
import { ConfigError } from '../config/report/finding.ts'
import { appendToList, openYaml } from '../config/report/yaml.ts'
import {
  type ClientFile,
  type ClientMetadata,
  describeSecrets,
  NO_VSCHARS,
  secretHash,
} from '../config/schema/client.ts'
import { timeOf, VSCHARS } from '../config/schema/values.ts'
import {
  type Invitation,
  RULES,
  WITHOUT_PKCE,
} from '../features/registration/invitations.ts'
import {
  isRegisteredId,
  type RegisteredClient,
  unusedSeconds,
} from '../features/registration/registered-clients.ts'
import { revokeClient } from '../oidc/adapter/grants.ts'
import { hashSecret, secretHashOf } from '../oidc/clients.ts'
import type { SecretHash } from '../oidc/dependencies.ts'
import { ANY_SECRET } from '../operation/failures.ts'
import { now } from '../store/store.ts'
import { mapOf } from '../store/values.ts'
import {
  Failure,
  type Invocation,
  notFound,
  readStdin,
  readUntil,
  requireOne,
  type Values,
} from './command.ts'
import { hintFolderNotes } from './folder-notes.ts'
import { openState } from './open-store.ts'
import { hint, outline, print, printList, secondOf } from './output.ts'

const MIN_SECRET_CHARACTERS = 32
const DEFAULT_CLIENTS = 10
const DEFAULT_TTL_SECONDS = 7 * 24 * 3600
const MAX_TTL_SECONDS = 400 * 24 * 3600

/** A client, as `clients list --json` has it. */
type Client = ClientMetadata & Partial<Pick<RegisteredClient, 'registered'>>

/**
 * Returns the clients of the folder, then those that registered themselves, the
 * oldest first. The latter are left out where registration is off, or where
 * only the running service reaches the store.
 */
export async function readClients({
  clients,
  features,
  store,
}: Settings): Promise<Client[]> {
  if (!features.dynamic_registration || store === 'sqlite::memory:')
    return clients
  const { registeredClients } = await openState()
  return [...clients, ...(await registeredClients.list())]
}

/** A client: its file, or its registration. */
export type ClientSource = Pick<
  ValidFile<ClientFile>,
  'file' | 'value' | 'origin'
> &
  Partial<Pick<ValidFile<ClientFile>, 'written'>>

/** Returns the client of this id: from its file, or as it registered itself. */
export async function findClient(
  reading: Reading,
  id = '',
): Promise<ClientSource | undefined> {
  const file = reading.clients.find(({ value }) => value.client_id === id)
  if (file || !reading.settings || !isRegisteredId(id)) return file
  const all = await readClients(reading.settings)
  const found = all.find(({ client_id }) => client_id === id)
  if (!found?.registered) return undefined
  const { registered, ...value } = found
  return {
    file: describeRegistration(registered),
    value,
    origin: () => 'its registration',
  }
}

function describeRegistration(
  registered: RegisteredClient['registered'],
): string {
  const { since, last_used, invitation } = registered
  const use = last_used
    ? `last used ${timeOf(last_used)}`
    : `never used, expires ${timeOf(since + unusedSeconds(invitation))}`
  const by = invitation ? `invitation ${invitation}` : 'no invitation'
  return `registered itself ${timeOf(since)} (${by}), ${use}`
}

/** `clients list`. */
export async function listClients({ flags }: Invocation) {
  const none = 'There are no clients: npm run usher -- clients add'
  const clients = await readClients(await readSettings())
  printList(flags, clients, describeClient, none)
  await hintFolderNotes()
}

function describeClient({
  client_id,
  client_name,
  registered,
  ...client
}: Client): string {
  const secrets = describeSecrets(client.client_secret_hashes)
  const method = client.token_endpoint_auth_method ?? ANY_SECRET
  const parts = [
    client_id,
    client_name,
    method,
    secrets && `secrets: ${secrets}`,
  ]
  const line = parts.join('  ').trimEnd()
  return registered ? `${line}\n    ${describeRegistration(registered)}` : line
}

/** `clients show CLIENT_ID`. */
export async function showClient({ flags, args: [id = ''] }: Invocation) {
  const all = await readClients(await readSettings())
  const advice = ' List the clients: npm run usher -- clients list'
  const client = requireOne('Client', id, all, 'client_id', advice)
  const secrets = describeSecrets(client.client_secret_hashes)
  print(flags, client, outline({ ...client, secrets }))
  await hintFolderNotes()
}

/** `clients add`: explains how to write the file of a client. */
export async function explainClientFile() {
  const folder = configFolder()
  process.stdout.write(`A client is a file. Write ${join(folder, 'clients', 'wiki.yaml')}:

  client_id: wiki
  client_name: Wiki
  redirect_uris: [https://wiki.example.org/callback]
  scope: openid profile email offline_access

For a browser or native application, add: token_endpoint_auth_method: none
Otherwise make its secret:  npm run usher -- clients secret wiki
Check the folder:           npm run usher -- config check
A running service reads the file within two seconds. docs/applications has a page for each library.
`)
}

/**
 * `clients secret NAME`: works while the folder has errors, as for a client
 * that needs its secret.
 */
export async function makeSecret({
  values,
  flags,
  args: [name = ''],
}: Invocation) {
  const file = fileWithSecret(name)
  const end = readUntil(values.until, ' To end a secret now, delete its line.')
  const until = end && secondOf(end)
  const given = flags['secret-stdin'] ? await readGivenSecret() : undefined
  const secret = given ?? randomBytes(32).toString('base64url')
  const list = appendToList(
    file,
    'client_secret_hashes',
    hashSecret(secret),
    item => (until && isEntry(item) ? endingBy(until, item) : item),
  )
  if (given === undefined) process.stdout.write(`${secret}\n`)
  hint(
    `Its hash is in ${file}, which a running service reads; the secret is stored nowhere.`,
  )
  await hintFolderNotes()
  const secrets = list.filter(isEntry)
  if (secrets.length < 2) return
  const which = describeSecrets(secrets)
  hint(`Secrets: ${which}. Delete the lines of those that are not in use.`)
}

/** Returns the file of a client that authenticates with a secret. */
function fileWithSecret(name: string): string {
  const fileName = `${basename(name, '.yaml')}.yaml`
  const file = join(configFolder(), 'clients', fileName)
  if (!existsSync(file))
    throw notFound('File', file, [], ' NAME is the name of the file.')
  const { data, problems } = openYaml(file)
  if (problems.length) throw new ConfigError(problems)
  const { token_endpoint_auth_method: method = 'client_secret_basic' } =
    mapOf(data)
  if (/^client_secret_/.test(String(method))) return file
  throw new Failure(
    `${file}: a client that authenticates by ${method} has no secret.`,
  )
}

/** Reads a secret from standard input. */
async function readGivenSecret(): Promise<string> {
  const secret = await readStdin()
  if (secret.length < MIN_SECRET_CHARACTERS) {
    throw new Failure(
      `A secret has at least ${MIN_SECRET_CHARACTERS} random characters.`,
    )
  }
  if (!VSCHARS.test(secret)) throw new Failure(`The secret ${NO_VSCHARS}.`)
  return secret
}

/** The file may have errors. */
const isEntry = (item: unknown): item is SecretHash =>
  secretHash.safeParse(item).success

/** Returns the hash of a secret that expires at this time, or sooner. */
function endingBy(until: string, item: SecretHash): SecretHash {
  const isSooner =
    typeof item === 'object' && Date.parse(item.until) <= Date.parse(until)
  return isSooner ? item : { hash: secretHashOf(item), until }
}

/**
 * `clients invite`: prints an initial access token, alone on the first line.
 */
export async function inviteClients({ values, flags }: Invocation) {
  const terms = readTerms(values)
  const { features } = await readSettings()
  const { invitations, audit } = await openState('create')
  const invitation = await invitations.make(terms)
  const { handle, jti, most, policies } = invitation
  const until = timeOf(terms.exp)
  await audit('client_invited', { invitation: handle, most, until, policies })
  const shown = shownInvitation(invitation)
  print(flags, { initial_access_token: jti, ...shown }, [jti])
  const applications = most === 1 ? 'application' : 'applications'
  hint(
    `An initial access token for ${most} ${applications}, until ${until}. It is not shown again. ` +
      `To revoke it: npm run usher -- clients uninvite ${handle}`,
  )
  if (!features.dynamic_registration) {
    hint(
      'It cannot be used yet: `features.dynamic_registration` in usher.yaml is off.',
    )
  }
}

/** Reads the terms of an invitation. */
function readTerms({ until, most: given, policy }: Values) {
  const exp = readUntil(until) ?? now() + DEFAULT_TTL_SECONDS
  if (exp > now() + MAX_TTL_SECONDS)
    throw new Failure('--until: at most 400 d from now.')
  const most = Number(given ?? DEFAULT_CLIENTS)
  if (!(Number.isInteger(most) && most > 0 && most < 10_000)) {
    throw new Failure('--most takes a number from 1 to 9999.')
  }
  if (policy !== undefined && policy !== WITHOUT_PKCE) {
    throw new Failure(`--policy takes ${WITHOUT_PKCE}.`)
  }
  return { exp, most, policies: policy ? [RULES, WITHOUT_PKCE] : [RULES] }
}

/** `clients invitations`. */
export async function listInvitations({ flags }: Invocation) {
  const { invitations } = await openState()
  const all = (await invitations.list()).map(shownInvitation)
  const none = 'There are no invitations: npm run usher -- clients invite'
  printList(flags, all, describeInvitation, none)
}

/** `clients uninvite INVITATION`. */
export async function revokeInvitation({ args: [handle = ''] }: Invocation) {
  const { invitations, audit } = await openState()
  const found = requireOne(
    'Invitation',
    handle,
    await invitations.list(),
    'handle',
  )
  await invitations.revoke(found)
  await audit('invitation_revoked', { invitation: handle })
  hint(
    `It is revoked. Applications that registered with it (${found.used}) stay: clients list`,
  )
}

/**
 * `clients remove CLIENT_ID --yes`: ends every token of the client, because
 * each use reads it.
 */
export async function removeClient({ flags, args: [id = ''] }: Invocation) {
  if (
    (await readSettings()).clients.some(({ client_id }) => client_id === id)
  ) {
    throw new Failure(
      `${id} has a file in ${join(configFolder(), 'clients')}: delete that.`,
    )
  }
  const { registeredClients, audit } = await openState()
  const all = await registeredClients.list()
  requireOne('Registered client', id, all, 'client_id')
  if (!flags.yes)
    throw new Failure(`This ends every token of ${id} for good. Add --yes.`)
  await registeredClients.remove(id)
  await audit('client_removed', { client_id: id })
  hint(`${id} is removed, and its tokens are no longer valid.`)
}

/**
 * `clients end CLIENT_ID`: revokes the tokens of all users. Reads the whole
 * store, so that no sign-in has to keep a list of the grants of its client.
 */
export async function endClient({ args: [id = ''] }: Invocation) {
  requireOne('Client', id, await readClients(await readSettings()), 'client_id')
  const { store, seal, audit } = await openState('refuse')
  const count = await revokeClient(store, seal, id)
  await audit('client_ended', { client_id: id, grants: count })
  hint(
    `Tokens of ${id} are revoked: ${count} grants. JWT access tokens expire by themselves.`,
  )
}

/** An invitation without its token. */
function shownInvitation(invitation: Invitation) {
  const { handle, iat, exp, most, used, policies } = invitation
  return {
    invitation: handle,
    made: iat,
    until: exp,
    most,
    used,
    policies: policies.filter(policy => policy !== RULES),
  }
}

function describeInvitation(
  invitation: ReturnType<typeof shownInvitation>,
): string {
  const { invitation: handle, made, until, most, used, policies } = invitation
  const times = `made ${timeOf(made)}, until ${timeOf(until)}`
  const facts = [`${used} of ${most} registered`, times, ...policies]
  return `${handle}  ${facts.join(', ')}`
}
