// The CPU time of a check of a password against a hash of another system.

import { expect, test } from 'vitest'
import { checkPassword } from '../../src/sign-in/password.ts'
import { DEAREST } from '../support/foreign-hashes.ts'

test("the most expensive accepted parameters cost less than three times those of OWASP's scrypt", async () => {
  /** The CPU time of a check: the machine may be slow, and other processes may be running. */
  const cost = async (hash: string) => {
    const before = process.cpuUsage()
    expect(await checkPassword('a password', hash), hash).toBe(false)
    const { user, system } = process.cpuUsage(before)
    return user + system
  }
  const unit = await cost(`$scrypt$ln=17,r=8,p=1$c29tZXNhbHQ$${'A'.repeat(43)}`)
  for (const hash of DEAREST) expect(await cost(hash), hash).toBeLessThan(3 * unit)
})
