// The operator's commands for links of accounts to users of upstream issuers.

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runUsher } from '../support/command.ts'
import { temporaryFolder } from '../support/folder.ts'
import { startHostileIssuer } from '../support/hostile-issuer.ts'
import { withUpstreams } from '../support/upstream.ts'
import { writeConfig } from '../support/usher.ts'

const folder = temporaryFolder()
const usher = (words: string[], input = '') =>
  runUsher(
    [...words],
    { USHER_CONFIG: join(folder, 'config'), USHER_STORE: `sqlite:${folder}/usher.db` },
    input,
  )
let issuer: Awaited<ReturnType<typeof startHostileIssuer>>
beforeAll(async () => {
  issuer = await startHostileIssuer()
  mkdirSync(join(folder, 'config'))
  const files = withUpstreams({ example: { issuer: issuer.issuer, accounts: 'link' } })
  writeConfig(join(folder, 'config'), { ...files, clients: {} })
})
afterAll(() => issuer.close())

test('accounts link, list and unlink; export and import keep links', async () => {
  await usher(['accounts', 'add', '--username', 'ada', '--email', 'ada@example.org'])
  await usher(['accounts', 'add', '--username', 'grace'])
  const link = ['--upstream', 'example', '--subject', '1234']
  const refused = async (words: string[], reason: string) => {
    const { code, stderr } = await usher(['accounts', ...words])
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining(reason) })
  }
  expect((await usher(['accounts', 'link', 'ada', ...link])).code).toBe(0)
  await refused(['link', 'grace', ...link], 'another account')
  await refused(['link', 'ada', ...link.with(-1, 'a b')], 'or not a sub')
  await refused(['link', 'ada', ...link.with(-1, '5678')], 'unlink it first')

  const found = await usher(['accounts', 'list', 'EXAMPLE.org', '--json'])
  const links = [{ issuer: issuer.issuer, subject: '1234' }]
  expect(JSON.parse(found.stdout)).toMatchObject([{ username: 'ada', links }])
  const { stdout: lines } = await usher(['accounts', 'export'])
  expect(lines).toContain(JSON.stringify(links))

  await refused(['unlink', 'ada', '--upstream', 'example'], 'the only way')
  const password = ['accounts', 'password', 'ada', '--password-stdin']
  const reset = await usher(password, 'correct horse battery staple')
  expect(reset.stderr).toContain(`A sign-in at ${issuer.issuer} as 1234 stays possible`)
  expect((await usher(['accounts', 'unlink', 'ada', '--upstream', 'example'])).code).toBe(0)
  expect((await usher(['accounts', 'link', 'grace', ...link])).code).toBe(0)
  await refused(['link', 'ada', ...link.with(1, 'exampel')], 'example')
  await refused(['link', 'ada'], 'accounts password-link ACCOUNT')
  await refused(['link', 'ada', '--upstream', 'example'], '--subject is missing')
  await refused(['unlink', 'ada'], '--upstream is missing')

  await usher(['accounts', 'remove', 'ada', '--yes'])
  const imported = await usher(['accounts', 'import'], lines)
  expect(imported.stderr + imported.stdout).toContain('1')
})

test('config explain shows an upstream, and doctor reads its discovery document', async () => {
  const { stdout } = await usher(['config', 'explain', 'allow.email_domains'])
  expect(stdout).toContain('upstreams/NAME.yaml')
  const doctor = await usher(['doctor', '--json'])
  const { checks } = JSON.parse(doctor.stdout) as { checks: object[] }
  expect(checks).toContainEqual({
    name: 'example',
    state: 'ok',
    found: `${issuer.issuer} has a discovery document`,
  })
  issuer.state.behaviour = { withoutLogout: true }
  expect((await usher(['doctor'])).stdout).toContain('no end_session_endpoint to sign out there')
  issuer.state.behaviour = { elsewhere: true }
  const wrong = await usher(['doctor'])
  expect(wrong.stdout).toContain('✗ example')
})

test('doctor refuses an upstream issuer that the service cannot reach', async () => {
  issuer.state.behaviour = {}
  writeFileSync(join(folder, 'config/usher.yaml'), '{}')
  const { stdout, code } = await usher(['doctor'])
  expect(stdout).toMatch(/✗ example .*is not in egress.allow.*\n.*→ .*needs egress.allow/)
  expect(code).toBe(1)
})
