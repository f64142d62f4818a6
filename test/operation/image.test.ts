// The image, built and run by a container engine.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Browser } from '../support/browser.ts'
import { buildWithEngine, type Engine } from '../support/engine.ts'
import { signInAndAllow } from '../support/journey.ts'
import { freePort } from '../support/service.ts'

const ROOT = join(import.meta.dirname, '../..')
const BUILD_TIMEOUT_MS = 300_000

/** Seconds between SIGTERM and SIGKILL, as in docs/deploy/compose.yaml. */
const GRACE_SECONDS = 20

let engine: Engine
beforeAll(() => {
  engine = buildWithEngine()
}, BUILD_TIMEOUT_MS)
afterAll(() => engine?.remove(), BUILD_TIMEOUT_MS)

test.for([
  { user: 'the user of the image', options: [] },
  { user: 'a user that OpenShift chooses, in group 0', options: ['--user', '1000680000:0'] },
])(
  '$user serves on a read-only root without capabilities, and keeps its account over a restart',
  async ({ user, options }) => {
    const port = await freePort()
    const name = `usher-${port}`
    const safe = ['--read-only', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges']
    await engine.run(name, [
      ...safe,
      ...options,
      '--volume',
      `${name}:/data`,
      '--env',
      `PORT=${port}`,
    ])
    const issuer = `http://localhost:${port}`
    const [, password = ''] = /the password (\S+)/.exec(engine.logs(name)) ?? []
    expect(await accountPage(issuer, password)).toBe('Your account')
    // Fails if the health check does.
    engine.podman('healthcheck', 'run', name)
    expect(stop(name)).toBe('0')

    await engine.start(name)
    expect(await accountPage(issuer, password), user).toBe('Your account')
    expect(stop(name)).toBe('0')
  },
)

/** The heading of the account page of the user `demo`. */
async function accountPage(issuer: string, password: string): Promise<string> {
  const browser = new Browser(issuer)
  await browser.open('/account')
  await signInAndAllow(browser, 'demo', password)
  return browser.heading
}

/** Sends SIGTERM, and SIGKILL at the end of the grace period. Returns the exit code, 137 after SIGKILL. */
function stop(name: string): string {
  engine.podman('stop', '--time', String(GRACE_SECONDS), name)
  return engine.podman('inspect', '--format', '{{.State.ExitCode}}', name)
}

test('the image adds as much to its base as the README says', () => {
  const megabytes = engine.addedBytes() / 1e6
  console.info(`The image adds ${megabytes.toFixed(1)} MB to its base`)
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8')
  const [, said] = /adds (\d+) MB to its base/.exec(readme) ?? []
  expect(Math.abs(Number(said) - megabytes), `${megabytes} MB`).toBeLessThan(1)
})
