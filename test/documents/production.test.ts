// Runs the blocks of docs/production.md in their order, behind the nginx file that the page names. Hosts,
// ports and paths are replaced by those of the test.

import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { makeCertificate } from '../support/certificates.ts'
import { block, linkProject, pages, runCommands } from '../support/documents.ts'
import { temporaryFolder } from '../support/folder.ts'
import { linkIn, type MailServer, type Received, startMailServer } from '../support/mail-server.ts'
import { freePorts } from '../support/ports.ts'
import { startProxy, stopProxy } from '../support/proxies.ts'
import { type Service, startService } from '../support/service.ts'

const ROOT = join(import.meta.dirname, '../..')
const root = temporaryFolder()
/** A running service looks into the queue of mails every few seconds. */
const WAIT = { timeout: 30_000, interval: 200 }
/** In place of /opt/usher and /var/lib/usher. */
const program = join(root, 'program')
const state = join(root, 'state')

let service: Service | undefined
let mail: MailServer | undefined
let proxy: Awaited<ReturnType<typeof startProxy>> | undefined
afterAll(async () => {
  if (proxy) await stopProxy(proxy)
  await service?.stop()
  await mail?.close()
})

test('the page leads from nothing to a service that is checked, used and backed up', async () => {
  for (const path of [program, state, join(root, 'nginx')]) mkdirSync(path)
  linkProject(program, 'docs')
  cpSync(join(ROOT, 'config'), join(program, 'config'), { recursive: true })
  const [front = 0, port = 0, metrics = 0] = await freePorts(3)
  const issuer = `https://localhost:${front}`
  const { cert, key } = makeCertificate(root, 'localhost')
  mail = await startMailServer({
    ...{ disabledCommands: [], allowInsecureAuth: false },
    ...{ cert: readFileSync(cert), key: readFileSync(key) },
  })
  const { received } = mail.state
  const smtp = `localhost, port: ${mail.port}`
  writeFileSync(join(program, 'smtp-password'), 'letters\n')
  const env = {
    ...process.env,
    USHER_SECRET_FILE: join(program, 'secret'),
    // nginx has a self-signed certificate.
    NODE_TLS_REJECT_UNAUTHORIZED: '0',
    NODE_NO_WARNINGS: '1',
  }
  const run = async (printed: string) => {
    const script = printed
      .replaceAll('https://id.example.org', issuer)
      .replaceAll('/var/lib/usher', state)
      .replaceAll('/opt/usher', program)
      .replaceAll('smtp.example.org, port: 587', smtp)
      .replaceAll('9464', String(metrics))
    const { stdout, stderr } = await runCommands(script, program, env)
    return stdout + stderr
  }

  expect(await run(block('production-config'))).toContain(`Nothing is wrong: ${issuer}`)
  service = await startService({
    USHER_CONFIG: join(program, 'config'),
    USHER_SECRET_FILE: join(program, 'secret'),
    NODE_EXTRA_CA_CERTS: cert,
    PORT: String(port),
    HOST: '127.0.0.1',
  })
  const place = { folder: join(root, 'nginx'), front, ports: [port] }
  proxy = await startProxy('nginx-one-node.conf', place)

  const checked = await run(block('production-check'))
  expect(checked).toMatch(/✓ sign-in /)
  expect(checked).not.toContain('✗')
  expect(checked).toMatch(/^service +ready/m)
  expect(checked).toMatch(/^keys +RS256 +current /m)
  expect(checked).toContain(`certificate of ${issuer}`)

  expect(await run(block('production-people'))).toMatch(/^grace +Grace Hopper .* invited /m)
  const links = readFileSync(join(program, 'links.txt'), 'utf8')
  expect(links).toMatch(new RegExp(`^grace ${issuer}/welcome/[\\w-]{65}$`, 'm'))
  expect(links).toMatch(/^alan /m)

  await run(block('production-mail'))
  await expect.poll(() => received.map(({ to }) => to), WAIT).toEqual(['barbara@example.org'])
  expect(received[0]?.isEncrypted).toBe(true)
  expect(linkIn(received[0] as Received)).toMatch(/^\/welcome\//)

  const application = await run(block('production-application'))
  expect(application).toMatch(/^grace /m)
  expect(application).not.toMatch(/^alan /m)
  expect(application).toContain('the account has no password')
  expect(readFileSync(join(program, 'wiki-secret'), 'utf8')).toMatch(/^[\w-]{43}\n$/)

  expect(await run(block('production-factors'))).toContain(
    'Without a second factor: 3 (3 invited).',
  )
  expect(await run(block('production-backup'))).toMatch(/^alan .*\n(.*\n)*grace /m)
  const answer = await fetch(`http://127.0.0.1:${metrics}/metrics`)
  expect(await answer.text()).toContain('usher_')
}, 180_000)

test('each step of the page that a test can run is run by the one above', () => {
  const named = [...(pages.get('docs/production.md') ?? '').matchAll(/```sh (\S+)/g)]
  expect(named.map(([, name]) => name)).toEqual([
    'production-config',
    'production-check',
    'production-people',
    'production-mail',
    'production-application',
    'production-factors',
    'production-backup',
  ])
})
