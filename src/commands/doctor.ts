// Is everything as it should be, before it is started and while it runs.

import { readSettings } from '../config/settings.ts'
import { checkSettings } from '../oidc/check.ts'
import { openInstallation } from '../store/open.ts'
import type { Check } from '../store/store.ts'
import { Failure, type Invocation, print } from './command.ts'

const MARKS = { ok: '✓', warning: '!', wrong: '✗' }

export async function doctor({ values }: Invocation) {
  const settings = readSettings()
  await checkSettings(settings)
  const { issuer, clients, store: location, secrets, redis } = settings
  const { store } = await openInstallation(location, secrets, redis)
  const checks: Check[] = [
    {
      name: 'config',
      state: 'ok',
      found: `${issuer}, applications: ${clients.map(({ client_id }) => client_id).join(', ') || 'none'}`,
    },
    { name: 'store', state: 'ok', found: 'is there, and the secret opens it' },
    ...(await store.check().finally(() => store.close())),
  ]
  print(values, { checks }, checks.flatMap(describe))
  const wrong = checks.filter(({ state }) => state === 'wrong')
  if (wrong.length) throw new Failure(`Usher would not start: ${wrong.map(namesOf).join(', ')}.`)
}

const namesOf = ({ name }: Check) => name

function describe({ name, state, found, mend }: Check): string[] {
  const line = `${MARKS[state]} ${name.padEnd(12)} ${found}`
  return mend ? [line, `  ${''.padEnd(12)} → ${mend}`] : [line]
}
