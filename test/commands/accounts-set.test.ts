// `accounts set` changes only the given fields of the account.

import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'

const CLI = `${import.meta.dirname}/../../src/cli.ts`
const folder = mkdtempSync(join(tmpdir(), 'usher-set-'))

function usher(...args: string[]): string {
  const env = { PATH: process.env.PATH, USHER_CONFIG: folder, USHER_STORE: `sqlite:${folder}/u.db` }
  const stdio = ['ignore', 'pipe', 'pipe'] as const
  return execFileSync(process.execPath, [CLI, ...args], {
    env,
    stdio: [...stdio],
    encoding: 'utf8',
  })
}
const show = (): unknown => JSON.parse(usher('accounts', 'show', 'ada', '--json'))

beforeAll(() => {
  writeFileSync(join(folder, 'claims.yaml'), 'claims: {}\n')
  const profile = ['--username', 'ada', '--name', 'Ada', '--email', 'ada@example.org']
  usher('accounts', 'add', ...profile, '--email-verified', '--attributes', '{"level": 3}')
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('a new name does not change the verified address and the attributes', () => {
  usher('accounts', 'set', 'ada', '--name', 'Ada Lovelace')
  expect(show()).toMatchObject({
    name: 'Ada Lovelace',
    email: 'ada@example.org',
    email_verified: true,
    attributes: { level: 3 },
  })
})

const CHANGES: [words: string[], attributes: object][] = [
  [
    ['groups+=finance', 'groups+=board', 'groups+=finance', 'site=north'],
    { level: 3, groups: ['board', 'finance'], site: 'north' },
  ],
  [
    ['groups-=finance', 'groups-=board', 'groups-=sales', 'site+=south', 'level-=3'],
    { level: 3, site: ['north', 'south'] },
  ],
  [
    ['--attributes', '{"groups": ["a=b"], "x": 1}', 'groups+=c=d', 'x='],
    { groups: ['a=b', 'c=d'] },
  ],
]
test.each(CHANGES)('accounts set ada %j', (words, attributes) => {
  usher('accounts', 'set', 'ada', ...words)
  expect(show()).toMatchObject({ name: 'Ada Lovelace' })
  expect((show() as { attributes: object }).attributes).toEqual(attributes)
})

test.each(['groups+=', '__proto__+=x'])(
  'a change of an attribute that is not valid is refused: %s',
  word => {
    expect(() => usher('accounts', 'set', 'ada', word)).toThrow(/must be groups\+=finance/)
  },
)

test('accounts list names the accounts with a value of an attribute', () => {
  usher('accounts', 'set', 'ada', 'groups+=finance')
  usher('accounts', 'add', '--username', 'grace', '--attributes', '{"groups": ["sales"]}')
  expect(usher('accounts', 'list', 'groups=finance')).toMatch(
    /^USERNAME .*\nada .*[ ,]finance .*\n$/,
  )
  expect(usher('accounts', 'list', 'groups=fin')).toBe('No account passes these filters.\n')
})

type Checked = { warnings: { rule: string; key: string; message: string }[] }

/** Checks a folder with a client that is for the values of an attribute. */
function checkWith(attribute: string) {
  const client = {
    client_id: 'wiki',
    client_name: 'Wiki',
    redirect_uris: ['https://wiki.example.org/callback'],
    token_endpoint_auth_method: 'none',
    allow: { [attribute]: ['finance'] },
  }
  mkdirSync(join(folder, 'clients'), { recursive: true })
  writeFileSync(join(folder, 'clients/wiki.yaml'), JSON.stringify(client))
  const { warnings } = JSON.parse(usher('config', 'check', '--json')) as Checked
  return warnings.filter(({ rule }) => rule === 'allow-attribute')
}

test('config check warns of an attribute in allow that no claim and no account has', () => {
  expect(checkWith('groups')).toEqual([])
  expect(checkWith('gruops')).toMatchObject([
    {
      rule: 'allow-attribute',
      key: 'allow.gruops',
      message: expect.stringMatching(
        /^no claim in claims\.yaml.* accounts set ACCOUNT gruops\+=VALUE$/,
      ),
    },
  ])
  writeFileSync(
    join(folder, 'claims.yaml'),
    'claims: { groups: { scope: groups, from: attributes.gruops } }\n',
  )
  expect(checkWith('gruops')).toEqual([])
})

test('accounts why --client names the attribute that is missing', () => {
  checkWith('groups')
  const why = (name: string, client = 'wiki') => {
    try {
      return usher('accounts', 'why', name, '--client', client)
    } catch (error) {
      const { stdout, stderr } = error as { stdout: string; stderr: string }
      return stdout + stderr
    }
  }
  const wrong =
    'wiki needs one of these values of groups, and the account has none: finance\n' +
    '  → npm run usher -- accounts set grace groups+=finance; or allow in the file of wiki\n'
  expect(why('grace')).toContain(wrong)
  expect(why('grace')).toContain('The account cannot sign in to wiki at the moment.')
  expect(why('ada')).not.toContain('finance')
  expect(why('ada', 'wikki')).toContain('Client wikki not found; did you mean wiki?')
})
