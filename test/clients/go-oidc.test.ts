// The application of docs/applications/go-oidc.md. It needs Go, which downloads the modules.

import { execFileSync } from 'node:child_process'
import { expect, onTestFinished, test } from 'vitest'
import { blockOf, stageClient, Visitor } from '../support/client-page.ts'

const MODULES = ['github.com/coreos/go-oidc/v3/oidc@v3.21.0', 'golang.org/x/oauth2@v0.37.0']

test('go-oidc: Ada signs in at an application in Go', { timeout: 300_000 }, async () => {
  const stage = await stageClient(blockOf('go-oidc.md', 'yaml client'))
  onTestFinished(() => stage.close())
  stage.write('main.go', blockOf('go-oidc.md', 'go application'))
  const go = (...words: string[]) => execFileSync('go', words, { cwd: stage.folder, stdio: 'pipe' })
  go('mod', 'init', 'example')
  go('get', ...MODULES)
  go('build', '-o', 'app', '.')
  await stage.run('./app')
  const claims = await new Visitor(stage.usher).open(`${stage.origin}/sign-in`)
  expect(claims.json()).toMatchObject({ preferred_username: 'ada', name: 'Ada Lovelace' })
})
