// Applications that registered themselves, and the invitations they do it with.

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
  type RegisteredClients,
  UNUSED_SECONDS,
} from '../features/registration/registered-clients.ts'
import type { Records } from '../storage/records.ts'
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

/** Of an invitation where nothing else is said. */
const MOST = 10
const WEEK = 7 * 24 * 3600
const LONGEST = 400 * 24 * 3600

/** Undefined where the feature is off, or nothing but the service reaches the store. */
async function ask<T>(
  { features, store }: Settings,
  question: (registered: RegisteredClients) => Promise<T>,
): Promise<T | undefined> {
  if (!features.dynamic_registration || store === 'sqlite::memory:') return undefined
  return withRecords(records => question(createRegisteredClients(records)))
}

/** Those there are now. */
export async function readRegistered(settings: Settings): Promise<RegisteredClient[]> {
  const found = await ask(settings, registered => registered.list())
  return (found ?? []).sort((a, b) => a.since - b.since)
}

export async function findRegistered(settings: Settings, id: string) {
  return isRegisteredId(id) ? ask(settings, registered => registered.find(id)) : undefined
}

/** With this client as if it had a file, if it registered itself. */
export async function withRegistered(reading: Reading, id = ''): Promise<Reading> {
  const { settings, clients } = reading
  const found = settings && (await findRegistered(settings, id))
  if (!found) return reading
  const { metadata } = found
  const file = {
    file: story(found),
    parts: metadata,
    written: { ...metadata },
    findings: [],
    at: () => ({ file: '', rule: '', message: '' }),
    origin: () => 'its registration',
  }
  return {
    ...reading,
    clients: [...clients, file],
    settings: { ...settings, clients: [...settings.clients, metadata] },
  }
}

/** When it came and was last used, for people. */
export function story({ since, lastUsed, invitation }: RegisteredClient): string {
  const use =
    lastUsed === undefined
      ? `never used, gone at ${moment(since + UNUSED_SECONDS)}`
      : `last used ${moment(lastUsed)}`
  return `registered itself ${moment(since)} (invitation ${invitation}), ${use} UTC`
}

export async function invite({ values }: Invocation) {
  const until = readEnd(values.until)
  const most = readMost(values.most)
  const policies = [RULES, ...readPolicy(values.policy)]
  const { features } = readSettings()
  await withRecords(async (records, leave) => {
    const invitation = await createInvitations(records).make({ exp: until, most, policies })
    const { handle, jti } = invitation
    await leave('client_invited', { invitation: handle, most, until: moment(until), policies })
    print(values, { initial_access_token: jti, ...visible(invitation) }, [jti])
    hint(
      `An initial access token for ${most} ${most === 1 ? 'application' : 'applications'}, until ${moment(until)} UTC. It is shown this once; ` +
        `to take it back: npm run usher -- clients uninvite ${handle}` +
        (features.dynamic_registration
          ? ''
          : '\nNobody can use it yet: `features.dynamic_registration` in usher.yaml is off.'),
    )
  })
}

export async function invitations({ values }: Invocation) {
  await withRecords(async records => {
    const all = await createInvitations(records).list()
    const none = ['Nobody is invited: npm run usher -- clients invite']
    print(values, all.map(visible), all.length ? all.map(inWords) : none)
  })
}

export async function uninvite(invocation: Invocation) {
  const handle = argument(invocation, 'INVITATION')
  await withRecords(async (records, leave) => {
    const all = createInvitations(records)
    const known = await all.list()
    const found = known.find(invitation => invitation.handle === handle)
    if (!found) {
      const slip = didYouMean(
        handle,
        known.map(({ handle }) => handle),
      )
      throw new Failure(
        `There is no invitation ${handle}: npm run usher -- clients invitations${slip}`,
      )
    }
    await all.revoke(found)
    await leave('invitation_revoked', { invitation: handle })
    hint(`Nobody registers with it any more. What has (${found.used}) stays: clients list`)
  })
}

/** Ends every token of it, for everybody, by itself: each use looks up the client. */
export async function remove(invocation: Invocation) {
  const id = argument(invocation, 'CLIENT_ID')
  await withRecords(async (records, leave) => {
    await requireRegistered(records, id)
    if (!invocation.values.yes) {
      throw new Failure(
        `Every token of ${id} ends, for everybody, and nothing brings it back. Add --yes.`,
      )
    }
    await createRegisteredClients(records).remove(id)
    await leave('client_removed', { client_id: id })
    hint(`${id} is gone, and every token of it is dead.`)
  })
}

async function requireRegistered(records: Records, id: string) {
  const { clients } = readSettings()
  if (clients.some(({ client_id }) => client_id === id)) {
    throw new Failure(`${id} has a file in config/clients: delete that.`)
  }
  const registered = createRegisteredClients(records)
  if (await registered.find(id)) return
  const ids = (await registered.list()).map(({ metadata }) => metadata.client_id)
  throw new Failure(`No application has registered itself as ${id}${didYouMean(id, ids)}`)
}

const visible = ({ handle, iat, exp, most, used, policies }: Invitation) => ({
  invitation: handle,
  made: iat,
  until: exp,
  most,
  used,
  policies: policies.filter(policy => policy !== RULES),
})

function inWords(invitation: Invitation): string {
  const { invitation: handle, made, until, most, used, policies } = visible(invitation)
  const parts = [
    `${used} of ${most} registered`,
    `made ${moment(made)}`,
    `until ${moment(until)} UTC`,
  ]
  return `${handle}  ${[...parts, ...policies].join(', ')}`
}

/** Epoch seconds. */
function readEnd(given: unknown): number {
  const until = readUntil(given) ?? now() + WEEK
  if (until > now() + LONGEST) throw new Failure('--until: at most 400 d from now.')
  return until
}

function readMost(given: unknown): number {
  if (given === undefined) return MOST
  if (!/^[1-9]\d{0,3}$/.test(String(given))) throw new Failure('--most takes a number up to 9999.')
  return Number(given)
}

function readPolicy(given: unknown): string[] {
  if (given === undefined) return []
  if (given !== WITHOUT_PKCE) throw new Failure(`--policy: there is ${WITHOUT_PKCE}.`)
  return [WITHOUT_PKCE]
}
