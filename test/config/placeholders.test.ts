// Messages with placeholders: a name in braces is replaced, a word in capitals is for the reader.

import { expect, test } from 'vitest'
import exchange from '../../src/commands/exchange-refusals.json' with { type: 'json' }
import { explainFailure } from '../../src/commands/failure.ts'
import texts from '../../src/commands/refusals.json' with { type: 'json' }
import messages from '../../src/config/report/messages.json' with { type: 'json' }
import { client, read, resource } from '../support/config-folder.ts'

const PLACEHOLDER = /\{\w+\}/g
const placeholdersIn = (table: object) =>
  [...new Set(JSON.stringify(table).match(PLACEHOLDER))].toSorted()

test('a message of a rule has no other placeholders', () => {
  expect(placeholdersIn(messages)).toEqual(['{date}', '{file}', '{name}', '{reason}', '{setting}'])
})

type Row = { detail?: string; wrong: string; change: string }
const ROWS = [texts.errors, exchange].flatMap(table =>
  Object.entries(table as Record<string, Row[]>).flatMap(([error, rows]) =>
    rows.map(row => ({ error, ...row })),
  ),
)
const SIGN_INS = Object.keys(texts.sign_in).map(reason => ({ error: 'sign_in', detail: reason }))
const REFUSED = [
  { error: 'access_denied', detail: 'the account may not use this client: groups' },
  { error: 'unauthorized_client', detail: 'this client is switched off by its operator' },
]
/** A text that the pattern of a row matches: its first alternative, without what is no character. */
const matchOf = (pattern = '') => pattern.replace(/^\^|\|.*|\\b|\$/g, '').replace(/^\(/, '')

test.each([...ROWS, ...SIGN_INS, ...REFUSED])(
  'nothing of an explanation is left to be replaced: $error, $detail',
  ({ error, detail }) => {
    const sent: Record<string, string> = error === 'sign_in' ? { account: 'usr_ada' } : {}
    const failure = {
      at: 0,
      endpoint: 'token',
      status: 400,
      error,
      detail:
        error === 'sign_in' || REFUSED.some(one => one.error === error) ? detail : matchOf(detail),
      client_id: 'wiki',
      authentication: 'corp',
      sent,
      names: [],
    }
    const { wrong, change } = explainFailure({ failure })
    expect(wrong + change).not.toMatch(PLACEHOLDER)
    expect(wrong + change).not.toMatch(/\b(CLIENT|DETAIL|TOLERANCE)\b/)
    if (error === 'sign_in') expect(change).not.toMatch(/\b(ACCOUNT|NAME)\b/)
  },
)

test('a sign-in as nobody names no account', () => {
  const sent = { account: 'unknown', ip: '192.0.2.7' }
  const failure = { at: 0, endpoint: 'sign-in', status: 400, error: 'sign_in', sent, names: [] }
  const { change } = explainFailure({
    failure: { ...failure, detail: 'not_linked', authentication: 'corp' },
  })
  expect(change).toBe('npm run usher -- accounts link ACCOUNT --upstream corp --subject SUB')
})

test('the message about a hash that is wrong names the file of the client', async () => {
  const wrong = client({ token_endpoint_auth_method: undefined, client_secret_hashes: ['md5:x'] })
  const { findings } = await read({ 'clients/wiki-2.yaml': wrong })
  expect(findings[0]?.message).toMatch(/npm run usher -- clients secret wiki-2$/)
})

test('names with characters of replacements stay as they are', async () => {
  const api = resource({ clients: ['$&'] })
  const { findings } = await read({ 'resources/files.yaml': api, 'clients/web.yaml': client() })
  expect(findings.map(({ message }) => message)).toEqual(['there is no client "$&"'])
})
