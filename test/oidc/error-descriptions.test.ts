// Descriptions of errors: the library says only "grant request is invalid" or "invalid token provided" to
// the client, and keeps the reason for the log.

import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Context } from 'koa'
import { expect, test } from 'vitest'
import { described } from '../../src/oidc/error-descriptions.ts'

const LIBRARY = join(import.meta.dirname, '../../node_modules/oidc-provider/lib')
/** Endpoints and grants of the library that Usher does not have. */
const UNUSED = /credential|pre_authorized_code/
/** Reasons that only a damaged record can have, and one that would tell of another client. */
const WITHOUT = /^(accountId|clientId|client) mismatch$/
/** The reasons in the library's source. Its labels of codes become that of an authorization code. */
const REASON = /new (InvalidGrant|InvalidToken|ErrorClass)\(\s*['`]([^'`]+)['`]/g
const reasons = globSync('**/*.js', { cwd: LIBRARY })
  .filter(path => !UNUSED.test(path))
  .flatMap(path => [...readFileSync(join(LIBRARY, path), 'utf8').matchAll(REASON)])
  .map(([, type, text = '']): [error: string, reason: string] => [
    type === 'InvalidToken' ? 'invalid_token' : 'invalid_grant',
    text.replace(/\$\{\w+\}/, 'authorization code'),
  ])
  .filter(([, reason]) => !WITHOUT.test(reason))

test('the reasons are found in the source of the library', () => {
  expect(reasons.length).toBeGreaterThan(30)
})

test.each(reasons)('%s with the reason "%s" gets a description of its own', (error, detail) => {
  const params = { grant_type: 'authorization_code' }
  const ctx = { state: { log: { detail } }, oidc: { params } } as unknown as Context
  const { error_description } = described(ctx, { error, error_description: 'invalid' })
  expect(error_description).not.toBe('invalid')
})
