// Clients that registered themselves, and the invitations (initial access tokens) that they use.

import { type Reading, readSettings, type Settings } from '../config/load.ts'
import { didYouMean } from '../config/report/wording.ts'
import {
  createInvitations,
  type Invitation,
  RULES,
  WITHOUT_PKCE,
} from '../features/registration/invitations.ts'
import {
  createRegisteredClients,
  isRegisteredId,
  type RegisteredClient,
  UNUSED_SECONDS,
} from '../features/registration/registered-clients.ts'
import { now } from '../storage/store.ts'
import {
  argument,
  Failure,
  hint,
  type Invocation,
  moment,
  print,
  readUntil,
  withRecords,
} from './command.ts'

const DEFAULT_MOST = 10
const DEFAULT_SECONDS = 7 * 24 * 3600
const MAX_SECONDS = 400 * 24 * 3600

/**
 * Returns the clients that registered themselves, the oldest first; none where the feature is off, or
 * only the running server reaches the store.
 */
export async function readRegistered({ features, store }: Settings): Promise<RegisteredClient[]> {
  if (!features.dynamic_registration || store === 'sqlite::memory:') return []
  const found = await withRecords(records => createRegisteredClients(records).list())
  return found.sort((a, b) => a.since - b.since)
}

export async function findRegistered(settings: Settings, id: string) {
  if (!isRegisteredId(id)) return undefined
  return (await readRegistered(settings)).find(({ metadata }) => metadata.client_id === id)
}

/** Returns the reading with this client as if it had a file, if it registered itself. */
export async function withRegistered(reading: Reading, id = ''): Promise<Reading> {
  const { settings, clients } = reading
  const found = settings && (await findRegistered(settings, id))
  if (!found) return reading
  const { metadata } = found
  const file = {
    file: story(found),
    value: metadata,
    written: { ...metadata },
    findings: [],
    at: () => ({ file: '', rule: '', message: '' }),
    origin: () => 'its registration',
  }
  const all = { ...settings, clients: [...settings.clients, metadata] }
  return { ...reading, clients: [...clients, file], settings: all }
}

/** Says when a client registered and was last used. */
export function story({ since, lastUsed, invitation }: RegisteredClient): string {
  const use = lastUsed
    ? `last used ${moment(lastUsed)}`
    : `never used, expires ${moment(since + UNUSED_SECONDS)}`
  return `registered itself ${moment(since)} (invitation ${invitation}), ${use} UTC`
}

export async function invite({ values }: Invocation) {
  const exp = readUntil(values.until) ?? now() + DEFAULT_SECONDS
  if (exp > now() + MAX_SECONDS) throw new Failure('--until: at most 400 d from now.')
  const most = Number(values.most ?? DEFAULT_MOST)
  if (!(Number.isInteger(most) && most > 0 && most < 10_000)) {
    throw new Failure('--most takes a number up to 9999.')
  }
  const { policy } = values
  if (policy !== undefined && policy !== WITHOUT_PKCE) {
    throw new Failure(`--policy: there is ${WITHOUT_PKCE}.`)
  }
  const policies = policy ? [RULES, WITHOUT_PKCE] : [RULES]
  const { features } = readSettings()
  await withRecords(async (records, leave) => {
    const made = await createInvitations(records).make({ exp, most, policies })
    const { handle, jti } = made
    await leave('client_invited', { invitation: handle, most, until: moment(exp), policies })
    print(values, { initial_access_token: jti, ...visible(made) }, [jti])
    hint(
      `An initial access token for ${most} ${most === 1 ? 'application' : 'applications'}, until ${moment(exp)} UTC. It is shown this once; ` +
        `to revoke it: npm run usher -- clients uninvite ${handle}`,
    )
    if (!features.dynamic_registration) {
      hint('It cannot be used yet: `features.dynamic_registration` in usher.yaml is off.')
    }
  })
}

export async function invitations({ values }: Invocation) {
  await withRecords(async records => {
    const all = (await createInvitations(records).list()).map(visible)
    const lines = all.map(({ invitation, made, until, most, used, policies }) => {
      const times = `made ${moment(made)}, until ${moment(until)} UTC`
      return `${invitation}  ${[`${used} of ${most} registered`, times, ...policies].join(', ')}`
    })
    print(values, all, lines.length ? lines : ['No invitations: npm run usher -- clients invite'])
  })
}

export async function uninvite(invocation: Invocation) {
  const handle = argument(invocation, 'INVITATION')
  await withRecords(async (records, leave) => {
    const all = createInvitations(records)
    const known = await all.list()
    const found = known.find(invitation => invitation.handle === handle)
    if (!found) {
      const handles = known.map(({ handle }) => handle)
      throw new Failure(
        `There is no invitation ${handle}: npm run usher -- clients invitations${didYouMean(handle, handles)}`,
      )
    }
    await all.revoke(found)
    await leave('invitation_revoked', { invitation: handle })
    hint(`It is revoked. Applications that registered with it (${found.used}) stay: clients list`)
  })
}

/** Ends every token of the client, because each use of a token reads the client. */
export async function remove(invocation: Invocation) {
  const id = argument(invocation, 'CLIENT_ID')
  const { clients } = readSettings()
  if (clients.some(({ client_id }) => client_id === id)) {
    throw new Failure(`${id} has a file in config/clients: delete that.`)
  }
  await withRecords(async (records, leave) => {
    const registered = createRegisteredClients(records)
    const ids = (await registered.list()).map(({ metadata }) => metadata.client_id)
    if (!ids.includes(id)) {
      throw new Failure(`No application has registered itself as ${id}${didYouMean(id, ids)}`)
    }
    if (!invocation.values.yes) {
      throw new Failure(`Every token of ${id} ends, and nothing brings it back. Add --yes.`)
    }
    await registered.remove(id)
    await leave('client_removed', { client_id: id })
    hint(`${id} is removed, and its tokens are no longer valid.`)
  })
}

const visible = ({ handle, iat, exp, most, used, policies }: Invitation) => ({
  invitation: handle,
  made: iat,
  until: exp,
  most,
  used,
  policies: policies.filter(policy => policy !== RULES),
})
