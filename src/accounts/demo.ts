// The account to try Usher with, in development.

import { randomBytes } from 'node:crypto'
import type { Records } from '../storage/records.ts'
import { createDirectory } from './directory.ts'

const DEMO = {
  username: 'demo',
  name: 'Demo Person',
  email: 'demo@example.org',
  email_verified: true,
}

/** Adds it to an empty store. Returns the line that says how to sign in: the password is kept nowhere. */
export async function addDemoAccount(records: Records): Promise<string> {
  const directory = createDirectory(records)
  if (!(await directory.isEmpty())) {
    return 'Sign in with an account of yours; a new password: npm run usher -- accounts password NAME'
  }
  const password = randomBytes(12).toString('base64url')
  await directory.add(DEMO, password)
  return `Sign in as ${DEMO.username} with the password ${password} (shown only now)`
}
