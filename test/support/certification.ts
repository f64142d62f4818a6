// Starts an Usher in process from a folder of docs/certification.

import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { startUsher, type Usher } from './usher.ts'

const FOLDER = join(import.meta.dirname, '../../docs/certification')
export const SUITE = 'https://localhost.emobix.co.uk:8443/test/a/usher'
export const CALLBACK = `${SUITE}/callback`
export const USER = {
  username: 'certification',
  password: 'the password of certification runs',
}
export const secretOf = (client_id: string) => `the-secret-of-${client_id}-in-certification-runs`

/** Starts an Usher with the configuration of `plan` and the account of the certification runs. */
export async function startPlan(plan: string): Promise<Usher> {
  const cwd = join(FOLDER, plan)
  const names = globSync('**/*.yaml', { cwd })
  const read = (name: string) => [name, readFileSync(join(cwd, name), 'utf8')]
  const files = Object.fromEntries(names.map(read))
  const usher = await startUsher({ clients: {}, files })
  const [line = ''] = readFileSync(join(FOLDER, 'accounts.jsonl'), 'utf8').split('\n')
  const { password_hash: _, ...profile } = JSON.parse(line)
  await usher.addAccount(profile, USER.password)
  return usher
}
