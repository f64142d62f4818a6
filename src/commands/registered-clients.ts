// `usher clients` for clients that registered themselves, and for invitations: the initial access tokens
// that they register with.

import { type Reading, readSettings, type Settings } from '../config/load.ts'
import {
  createInvitations,
  createRegisteredClients,
  type Invitation,
  isRegisteredId,
  type RegisteredClient,
  RULES,
  UNUSED_SECONDS,
  WITHOUT_PKCE,
} from '../features/registered-clients.ts'
import { now } from '../storage/store.ts'
import {
  Failure,
  hint,
  type Invocation,
  notFound,
  openState,
  print,
  printList,
  readUntil,
  timeOf,
} from './command.ts'
import type { ClientSource } from './failure.ts'

const DEFAULT_CLIENTS = 10
const DEFAULT_TTL_SECONDS = 7 * 24 * 3600
const MAX_TTL_SECONDS = 400 * 24 * 3600

/**
 * Returns the clients that registered themselves, the oldest first. Returns none where registration is
 * off, or where only the running service reaches the store.
 */
export async function readRegistered({ features, store }: Settings): Promise<RegisteredClient[]> {
  if (!features.dynamic_registration || store === 'sqlite::memory:') return []
  const { records } = await openState()
  const found = await createRegisteredClients(records).list()
  return found.sort((a, b) => a.since - b.since)
}

/** Returns the client of this id: from its file, or as it registered itself. */
export async function findClient(reading: Reading, id = ''): Promise<ClientSource | undefined> {
  const { settings, clients } = reading
  const file = clients.find(({ value }) => value?.client_id === id)
  if (file || !settings || !isRegisteredId(id)) return file
  const registered = await readRegistered(settings)
  const found = registered.find(({ metadata }) => metadata.client_id === id)
  if (!found) return undefined
  const { metadata: value, lastUsed: last_used, ...about } = found
  const origin = () => 'its registration'
  return { file: describeRegistration({ ...about, last_used }), value, origin }
}

/** Times in epoch seconds, as `clients list --json` has them. */
interface Registration {
  since: number
  last_used?: number
  invitation?: string
}

/** Says when a client registered itself and was last used. */
export function describeRegistration({ since, last_used, invitation }: Registration): string {
  const use = last_used
    ? `last used ${timeOf(last_used)}`
    : `never used, expires ${timeOf(since + UNUSED_SECONDS)}`
  return `registered itself ${timeOf(since)} (invitation ${invitation}), ${use}`
}

/** `clients invite`: prints an initial access token, alone on the first line. */
export async function invite({ values }: Invocation) {
  const exp = readUntil(values.until) ?? now() + DEFAULT_TTL_SECONDS
  if (exp > now() + MAX_TTL_SECONDS) throw new Failure('--until: at most 400 d from now.')
  const most = Number(values.most ?? DEFAULT_CLIENTS)
  if (!(Number.isInteger(most) && most > 0 && most < 10_000)) {
    throw new Failure('--most takes a number from 1 to 9999.')
  }
  const { policy } = values
  if (policy !== undefined && policy !== WITHOUT_PKCE) {
    throw new Failure(`--policy takes ${WITHOUT_PKCE}.`)
  }
  const policies = policy ? [RULES, WITHOUT_PKCE] : [RULES]
  const { features } = readSettings()
  const { records, audit } = await openState()
  const invitation = await createInvitations(records).make({ exp, most, policies })
  const { handle, jti } = invitation
  await audit('client_invited', { invitation: handle, most, until: timeOf(exp), policies })
  print(values, { initial_access_token: jti, ...visible(invitation) }, [jti])
  hint(
    `An initial access token for ${most} ${most === 1 ? 'application' : 'applications'}, until ` +
      `${timeOf(exp)}. It is not shown again. To revoke it: npm run usher -- clients uninvite ${handle}`,
  )
  if (!features.dynamic_registration) {
    hint('It cannot be used yet: `features.dynamic_registration` in usher.yaml is off.')
  }
}

/** `clients invitations`. */
export async function invitations({ values }: Invocation) {
  const { records } = await openState()
  const all = (await createInvitations(records).list()).map(visible)
  printList(values, all, describe, 'There are no invitations: npm run usher -- clients invite')
}

/** `clients uninvite INVITATION`. */
export async function uninvite({ args: [handle = ''] }: Invocation) {
  const { records, audit } = await openState()
  const invitations = createInvitations(records)
  const all = new Map((await invitations.list()).map(one => [one.handle, one]))
  const found = all.get(handle)
  if (!found) throw notFound('Invitation', handle, [...all.keys()])
  await invitations.revoke(found)
  await audit('invitation_revoked', { invitation: handle })
  hint(`It is revoked. Applications that registered with it (${found.used}) stay: clients list`)
}

/** `clients remove CLIENT_ID --yes`: ends every token of the client, because each use reads it. */
export async function remove({ values, args: [id = ''] }: Invocation) {
  if (readSettings().clients.some(({ client_id }) => client_id === id)) {
    throw new Failure(`${id} has a file in config/clients: delete that.`)
  }
  const { records, audit } = await openState()
  const clients = createRegisteredClients(records)
  const ids = (await clients.list()).map(({ metadata }) => metadata.client_id)
  if (!ids.includes(id)) throw notFound('Registered client', id, ids)
  if (!values.yes) throw new Failure(`This ends every token of ${id} for good. Add --yes.`)
  await clients.remove(id)
  await audit('client_removed', { client_id: id })
  hint(`${id} is removed, and its tokens are no longer valid.`)
}

type Visible = ReturnType<typeof visible>
const visible = ({ handle, iat, exp, most, used, policies }: Invitation) => ({
  invitation: handle,
  made: iat,
  until: exp,
  most,
  used,
  policies: policies.filter(policy => policy !== RULES),
})

function describe({ invitation, made, until, most, used, policies }: Visible): string {
  const times = `made ${timeOf(made)}, until ${timeOf(until)}`
  return `${invitation}  ${[`${used} of ${most} registered`, times, ...policies].join(', ')}`
}
