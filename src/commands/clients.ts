// `usher clients`: the clients of the config folder, and those that registered themselves.

import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import {
  describeSecrets,
  endingBy,
  hashSecret,
  isTime,
  type SecretHash,
} from '../config/client-secret.ts'
import { configFolder, readSettings } from '../config/load.ts'
import { appendToList, readKey } from '../config/report/yaml.ts'
import type { ClientMetadata } from '../config/schema/client.ts'
import { mapOf } from '../config/schema/values.ts'
import {
  Failure,
  hint,
  type Invocation,
  notFound,
  print,
  printList,
  readStdin,
  readUntil,
} from './command.ts'
import { describeRegistration, readRegistered } from './registered-clients.ts'

const MIN_SECRET_CHARACTERS = 32
/** A client file without `token_endpoint_auth_method` accepts either. */
const ANY_SECRET = 'client_secret_basic or client_secret_post'

type Shown = ClientMetadata & { registered?: { since: number; last_used?: number } }

/** The clients of the folder, then those that registered themselves. */
async function readClients(): Promise<Shown[]> {
  const settings = readSettings()
  const registered = await readRegistered(settings)
  return [
    ...settings.clients,
    ...registered.map(({ metadata, since, lastUsed, invitation }) => {
      return { ...metadata, registered: { since, last_used: lastUsed, invitation } }
    }),
  ]
}

/** `clients list`. */
export async function list({ values }: Invocation) {
  const none = 'There are no clients: npm run usher -- clients add'
  printList(values, await readClients(), describe, none)
}

function describe({ client_id, client_name, registered, ...client }: Shown): string {
  const secrets = describeSecrets(client.client_secret_hashes)
  const method = client.token_endpoint_auth_method ?? ANY_SECRET
  const line = [client_id, client_name, method, secrets && `secrets: ${secrets}`]
    .join('  ')
    .trimEnd()
  return registered ? `${line}\n    ${describeRegistration(registered)}` : line
}

/** `clients show CLIENT_ID`. */
export async function show({ values, args: [id = ''] }: Invocation) {
  const all = await readClients()
  const client = all.find(({ client_id }) => client_id === id)
  if (!client) {
    const ids = all.map(({ client_id }) => client_id)
    throw notFound('Client', id, ids, ' List the clients: npm run usher -- clients list')
  }
  const lines = Object.entries(client).map(
    ([key, value]) => `${key}: ${typeof value === 'string' ? value : JSON.stringify(value)}`,
  )
  const secrets = describeSecrets(client.client_secret_hashes)
  print(values, client, secrets ? [...lines, `secrets: ${secrets}`] : lines)
}

/** `clients add`: explains how to write the file of a client. */
export async function add() {
  const folder = configFolder()
  process.stdout.write(`A client is a file. Write ${join(folder, 'clients', 'wiki.yaml')}:

  client_id: wiki
  client_name: Wiki
  client_uri: https://wiki.example.org/
  redirect_uris: [https://wiki.example.org/callback]
  scope: openid profile email offline_access

For a browser or native application, add: token_endpoint_auth_method: none
Otherwise make its secret:  npm run usher -- clients secret wiki
Check the folder:           npm run usher -- config check
A running service reads the file within two seconds. docs/applications has a page for each library.
`)
}

/** `clients secret NAME`: works while the folder has errors, as for a client that needs its secret. */
export async function secret({ values, args: [name = ''] }: Invocation) {
  const file = join(configFolder(), 'clients', `${basename(name, '.yaml')}.yaml`)
  if (!existsSync(file)) {
    const files = existsSync(dirname(file)) ? readdirSync(dirname(file)) : []
    throw notFound('File', file, files, ' NAME is the name of the file.')
  }
  const method = readKey(file, 'token_endpoint_auth_method') ?? 'client_secret_basic'
  if (!/^client_secret_/.test(method)) {
    throw new Failure(`${file}: a client that authenticates by ${method} has no secret.`)
  }
  const end = readUntil(values.until, ' To end a secret now, delete its line.')
  const until = end && `${new Date(end * 1000).toISOString().slice(0, 19)}Z`
  const given = values['secret-stdin'] ? await readStdin() : undefined
  if (given !== undefined && given.length < MIN_SECRET_CHARACTERS) {
    throw new Failure(`A secret has at least ${MIN_SECRET_CHARACTERS} random characters.`)
  }
  const secret = given ?? randomBytes(32).toString('base64url')
  const list = appendToList(file, 'client_secret_hashes', hashSecret(secret), item =>
    until && isEntry(item) ? endingBy(item, until) : item,
  )
  if (given === undefined) process.stdout.write(`${secret}\n`)
  hint(`Its hash is in ${file}, which a running service reads; the secret is stored nowhere.`)
  const secrets = list.filter(isEntry)
  if (secrets.length > 1) {
    hint(`Secrets: ${describeSecrets(secrets)}. Delete the lines of those that are not in use.`)
  }
}

/** The file may have errors. */
const isEntry = (item: unknown): item is SecretHash =>
  typeof item === 'string' ||
  (typeof mapOf(item).hash === 'string' && isTime(String(mapOf(item).until)))
