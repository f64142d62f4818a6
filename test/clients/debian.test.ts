// Clients from packages of Debian, with the code of their pages: Authlib for Python, and Apache.

import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { blockOf, stageClient, Visitor } from '../support/client-page.ts'
import { findOrInstall } from '../support/programs.ts'

const PYTHON = '/usr/bin/python3'
const MODULES = '/usr/lib/apache2/modules'

/** An installation by apt can take longer than a test may. */
const INSTALLING = { timeout: 240_000 }

test('Authlib: Ada signs in at an application in Python', INSTALLING, async () => {
  const packages = 'python3-authlib python3-flask python3-requests'
  findOrInstall('Authlib', packages, () => (hasAuthlib() ? PYTHON : undefined))
  const stage = await stageClient(blockOf('authlib.md', 'yaml client'))
  onTestFinished(() => stage.close())
  const program = stage.write('application.py', blockOf('authlib.md', 'python application'))
  await stage.run(PYTHON, program)
  const me = await new Visitor(stage.usher).open(`${stage.origin}/sign-in`)
  expect(me.json()).toMatchObject({ sub: expect.stringMatching(/^usr_/), name: 'Ada Lovelace' })
})

test('mod_auth_openidc: Ada signs in at pages behind Apache', INSTALLING, async () => {
  const module = `${MODULES}/mod_auth_openidc.so`
  const packages = 'apache2-bin libapache2-mod-auth-openidc'
  findOrInstall('mod_auth_openidc', packages, () => [module].find(existsSync))
  const stage = await stageClient(blockOf('apache.md', 'yaml client'))
  onTestFinished(() => stage.close())
  stage.write('index.html', 'Only for signed-in users')
  const host = `
    ServerRoot ${stage.folder}
    DocumentRoot ${stage.folder}
    PidFile apache.pid
    DefaultRuntimeDir ${stage.folder}
    ServerName localhost
    Listen 4000
    ErrorLog error.log
    ${process.getuid?.() === 0 ? 'User www-data' : ''}
    ${['mpm_event', 'authn_core', 'authz_core', 'authz_user', 'dir', 'headers', 'auth_openidc']
      .map(name => `LoadModule ${name}_module ${MODULES}/mod_${name}.so`)
      .join('\n')}
    Header set X-User "%{REMOTE_USER}s %{OIDC_CLAIM_name}e"
    OIDCInfoHook userinfo
    ${blockOf('apache.md', 'apache')}`
  await stage.run('/usr/sbin/apache2', '-D', 'FOREGROUND', '-f', stage.write('apache.conf', host))
  const ada = new Visitor(stage.usher)
  const page = await ada.open(`${stage.origin}/index.html`)
  expect(page.text).toContain('Only for signed-in users')
  const about = (await ada.open(`${stage.origin}/callback?info=json`)).json()
  expect(about.userinfo).toMatchObject({ preferred_username: 'ada', name: 'Ada Lovelace' })
})

function hasAuthlib(): boolean {
  try {
    execFileSync(PYTHON, ['-c', 'import authlib, flask, requests'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
