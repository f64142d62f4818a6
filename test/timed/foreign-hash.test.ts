// The CPU time of a check of a password against a hash of another system.

import { expect, test } from 'vitest'
import { checkPassword } from '../../src/sign-in/password.ts'
import { cpuTimeOf } from '../support/cpu.ts'
import { DEAREST } from '../support/foreign-hashes.ts'

test("the most expensive accepted parameters cost less than three times those of OWASP's scrypt", async () => {
  const cost = (hash: string) =>
    cpuTimeOf(async () => expect(await checkPassword('a password', hash), hash).toBe(false))
  const unit = await cost(`$scrypt$ln=17,r=8,p=1$c29tZXNhbHQ$${'A'.repeat(43)}`)
  for (const hash of DEAREST) expect(await cost(hash), hash).toBeLessThan(3 * unit)
})
