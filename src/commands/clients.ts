// The applications of the config folder.

import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { hashSecret } from '../config/client-secret.ts'
import { appendToList, readKey } from '../config/document.ts'
import { configFolder, readSettings } from '../config/settings.ts'
import { didYouMean } from '../config/wording.ts'
import { argument, Failure, hint, type Invocation, print, readStdin } from './command.ts'

const SHORTEST_SECRET = 32

export async function list({ values }: Invocation) {
  const { clients } = readSettings()
  const lines = clients.map(({ client_id, client_name, token_endpoint_auth_method }) =>
    [client_id, client_name, token_endpoint_auth_method].join('  '),
  )
  print(
    values,
    clients,
    lines.length ? lines : ['There are no clients: add a file to config/clients.'],
  )
}

export async function show(invocation: Invocation) {
  const id = argument(invocation, 'CLIENT_ID')
  const { clients } = readSettings()
  const client = clients.find(({ client_id }) => client_id === id)
  if (!client) {
    const ids = clients.map(({ client_id }) => client_id)
    throw new Failure(
      `There is no client ${id}: npm run usher -- clients list${didYouMean(id, ids)}`,
    )
  }
  const lines = Object.entries(client).map(
    ([key, value]) => `${key}: ${typeof value === 'string' ? value : JSON.stringify(value)}`,
  )
  print(invocation.values, client, lines)
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
  const given = invocation.values['secret-stdin'] ? await readStdin() : undefined
  if (given !== undefined && given.length < SHORTEST_SECRET) {
    throw new Failure(`A secret has at least ${SHORTEST_SECRET} random characters.`)
  }
  const made = given ?? randomBytes(32).toString('base64url')
  const count = appendToList(file, 'client_secret_hashes', hashSecret(made))
  if (given === undefined) process.stdout.write(`${made}\n`)
  hint(
    `Its hash is now in ${file}; the secret itself is kept nowhere. A running service takes it in.` +
      (count > 1
        ? `\n${count} secrets are valid: delete the older lines when nobody uses them.`
        : ''),
  )
}
