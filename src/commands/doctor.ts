// Is everything as it should be, before it is started and while it runs.

import { describeSecrets } from '../config/client-secret.ts'
import { ConfigError, type Finding, placeOf } from '../config/report.ts'
import { readSettings, type Settings } from '../config/settings.ts'
import { checkSettings } from '../oidc/check.ts'
import { openStore, unlock } from '../store/open.ts'
import { type Check, reasonOf } from '../store/store.ts'
import { Failure, type Invocation, print } from './command.ts'

const MARKS = { ok: '✓', warning: '!', wrong: '✗' }

export async function doctor({ values }: Invocation) {
  const checks = await examine()
  print(values, { checks }, checks.flatMap(describe))
  const wrong = checks.filter(({ state }) => state === 'wrong')
  if (wrong.length) throw new Failure(`Usher would not start: ${wrong.map(namesOf).join(', ')}.`)
}

/** As far as one can look: what is wrong may be in the way of the rest. */
async function examine(): Promise<Check[]> {
  try {
    const settings = readSettings()
    await checkSettings(settings)
    const advice = settings.warnings.map(asCheck)
    const folder = [describeSettings(settings), ...describeEnding(settings), ...advice]
    return [...folder, ...(await examineStore(settings))]
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const found = error.message.trim()
    return [{ name: 'config', state: 'wrong', found, mend: 'npm run usher -- config check' }]
  }
}

async function examineStore({ store: location, secrets, redis }: Settings): Promise<Check[]> {
  const wrong = (error: unknown): Check => {
    return { name: 'store', state: 'wrong', found: reasonOf(error) }
  }
  try {
    const store = await openStore(location, redis)
    const checks = await store.check().catch(error => [wrong(error)])
    // It would write a key into a store that is empty.
    if (checks.some(({ state }) => state === 'wrong')) return await store.close().then(() => checks)
    await unlock(store, location, secrets)
    await store.close()
    return [{ name: 'store', state: 'ok', found: 'is there, and the secret opens it' }, ...checks]
  } catch (error) {
    return [wrong(error)]
  }
}

function describeSettings({ issuer, clients }: Settings): Check {
  const names = clients.map(({ client_id }) => client_id).join(', ') || 'none'
  return { name: 'config', state: 'ok', found: `${issuer}, applications: ${names}` }
}

/** Secrets that are being replaced. */
function describeEnding({ clients }: Settings): Check[] {
  return clients.flatMap(({ client_id, client_secret_hashes: hashes = [] }) => {
    if (hashes.every(entry => typeof entry === 'string')) return []
    return [{ name: 'secrets', state: 'ok', found: `${client_id}: ${describeSecrets(hashes)}` }]
  })
}

/** What the configuration is advised against is no reason not to start. */
const asCheck = ({ key, message, ...place }: Finding): Check => ({
  name: 'config',
  state: 'warning',
  found: `${placeOf(place)} ${key}: ${message}`,
})

const namesOf = ({ name }: Check) => name

function describe({ name, state, found, mend }: Check): string[] {
  const line = `${MARKS[state]} ${name.padEnd(12)} ${found}`
  return mend ? [line, `  ${''.padEnd(12)} → ${mend}`] : [line]
}
