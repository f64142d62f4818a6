// The applications of the config folder, and beside them those that registered themselves.

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
import { didYouMean } from '../config/report/wording.ts'
import { appendToList, readKey } from '../config/report/yaml.ts'
import { mapOf } from '../config/schema/values.ts'
import type { RegisteredClient } from '../features/registration/registered-clients.ts'
import { argument, Failure, hint, type Invocation, print, readStdin, readUntil } from './command.ts'
import { findRegistered, readRegistered, story } from './registered-clients.ts'

const SHORTEST_SECRET = 32
const ANY_SECRET = 'client_secret_basic or client_secret_post'

export async function list({ values }: Invocation) {
  const settings = readSettings()
  const { clients } = settings
  const registered = await readRegistered(settings)
  const lines = clients.map(client => {
    const { client_id, client_name, token_endpoint_auth_method: method = ANY_SECRET } = client
    const secrets = describeSecrets(client.client_secret_hashes)
    return [client_id, client_name, method, secrets && `secrets: ${secrets}`].join('  ').trimEnd()
  })
  lines.push(
    ...registered.map(client => {
      const { client_id, client_name, token_endpoint_auth_method: method } = client.metadata
      return `${client_id}  ${client_name}  ${method}\n    ${story(client)}`
    }),
  )
  print(
    values,
    [...clients, ...registered.map(withStory)],
    lines.length ? lines : ['There are no clients: add a file to config/clients.'],
  )
}

export async function show(invocation: Invocation) {
  const id = argument(invocation, 'CLIENT_ID')
  const settings = readSettings()
  const { clients } = settings
  const own = clients.find(({ client_id }) => client_id === id)
  const found = await findRegistered(settings, id)
  const client = own ?? (found && withStory(found))
  if (!client) {
    const registered = await readRegistered(settings)
    const all = [...clients, ...registered.map(({ metadata }) => metadata)]
    const ids = all.map(({ client_id }) => client_id)
    throw new Failure(
      `There is no client ${id}: npm run usher -- clients list${didYouMean(id, ids)}`,
    )
  }
  const lines = Object.entries(client).map(
    ([key, value]) => `${key}: ${typeof value === 'string' ? value : JSON.stringify(value)}`,
  )
  const secrets = describeSecrets(client.client_secret_hashes)
  print(invocation.values, client, secrets ? [...lines, `secrets: ${secrets}`] : lines)
}

const withStory = ({ metadata, since, lastUsed, invitation }: RegisteredClient) => ({
  ...metadata,
  registered: { since, last_used: lastUsed, invitation },
})

/** A client is a file: prints how to write one. */
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
A running service reads the file within two seconds. docs/applications has the other side, by library.
`)
}

/** The folder need not be valid yet: a client that waits for its secret is not. */
export async function secret(invocation: Invocation) {
  const name = argument(invocation, 'NAME').replace(/\.yaml$/, '')
  const file = join(configFolder(), 'clients', `${basename(name)}.yaml`)
  if (!existsSync(file)) {
    const files = existsSync(dirname(file)) ? readdirSync(dirname(file)) : []
    const hint = didYouMean(basename(file), files)
    throw new Failure(`There is no ${file}: NAME is that of the file${hint}`)
  }
  const method = readKey(file, 'token_endpoint_auth_method') ?? 'client_secret_basic'
  if (!/^client_secret_/.test(method)) {
    throw new Failure(`${file}: a client that authenticates with ${method} has no secret.`)
  }
  const end = readUntil(invocation.values.until, ' To end a secret, delete its line.')
  const until = end && `${new Date(end * 1000).toISOString().slice(0, 19)}Z`
  const given = invocation.values['secret-stdin'] ? await readStdin() : undefined
  if (given !== undefined && given.length < SHORTEST_SECRET) {
    throw new Failure(`A secret has at least ${SHORTEST_SECRET} random characters.`)
  }
  const made = given ?? randomBytes(32).toString('base64url')
  const list = appendToList(file, 'client_secret_hashes', hashSecret(made), item =>
    until && isEntry(item) ? endingBy(item, until) : item,
  )
  const secrets = list.filter(isEntry)
  if (given === undefined) process.stdout.write(`${made}\n`)
  hint(
    `Its hash is now in ${file}; the secret itself is kept nowhere. A running service takes it in.` +
      (secrets.length > 1
        ? `\nSecrets: ${describeSecrets(secrets)}. Delete the older lines when nobody uses them.`
        : ''),
  )
}

/** The client's file need not be right. */
const isEntry = (item: unknown): item is SecretHash =>
  typeof item === 'string' ||
  (typeof mapOf(item).hash === 'string' && isTime(String(mapOf(item).until)))
