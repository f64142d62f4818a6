// The operator's commands, each run as a process once.

import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, expect, test } from 'vitest'
import { run, runUsher } from '../support/command.ts'
import { temporaryFolder } from '../support/folder.ts'

const ROOT = join(import.meta.dirname, '../..')
const folder = temporaryFolder()
const config = join(folder, 'config')
const env = {
  ...process.env,
  USHER_STORE: `sqlite:${join(folder, 'usher.db')}`,
  USHER_CONFIG: config,
}
beforeAll(() => cpSync(join(ROOT, 'config'), config, { recursive: true }))

const begun = new Set<string>()
/** Runs a command: as a process the first time, then in this process, which is faster. */
async function usher(args: string[], input = '', more = {}) {
  const command = args.slice(0, 2).join(' ')
  const isFirst = !begun.has(command)
  begun.add(command)
  const all = { ...env, ...more }
  const ran = isFirst ? run(['src/cli.ts', ...args], all, input) : runUsher(args, all, input)
  const { stdout, stderr, code } = await ran
  return { stdout, stderr, code }
}

const ADD = ['accounts', 'add', '--username', 'ada', '--name', 'Ada Lovelace']

test('accounts add prints the subject alone on the first line', async () => {
  const email = ['--email', 'ada@example.org', '--email-verified']
  const attributes = ['--attributes', '{"department":"Engines"}']
  const { stdout, code } = await usher(
    [...ADD, ...email, ...attributes, '--password-stdin'],
    'a long enough password\n',
  )
  expect(code).toBe(0)
  expect(stdout).toMatch(/^usr_[0-9a-z]{26}\n$/)
  const shown = JSON.parse((await usher(['accounts', 'show', 'ada', '--json'])).stdout)
  expect(shown).toMatchObject({
    id: stdout.trim(),
    username: 'ada',
    email_verified: true,
    attributes: { department: 'Engines' },
    enabled: true,
    has_password: true,
  })
  expect(shown).not.toHaveProperty('password')
})

test.each([
  ['accounts factors ada', 'recovery codes left: 0\n'],
  ['clients invitations', 'There are no invitations: npm run usher -- clients invite\n'],
])('%s prints what there is', async (words, expected) => {
  const { stdout, code } = await usher(words.split(' '))
  expect({ stdout, code }).toEqual({ stdout: expected, code: 0 })
})

test('a username that exists in any spelling is refused', async () => {
  const { stdout, stderr, code } = await usher(['accounts', 'add', '--username', 'ＡDA'])
  expect({ stdout, stderr, code }).toEqual({
    stdout: '',
    stderr: 'This username is taken.\n',
    code: 1,
  })
})

test('a short password, an invalid e-mail address and invalid JSON are refused with the reason', async () => {
  const short = await usher(['accounts', 'add', '--username', 'alan', '--password-stdin'], 'short')
  expect(short).toMatchObject({ code: 1, stderr: 'A password has at least 12 characters.\n' })
  const address = await usher(['accounts', 'add', '--username', 'alan', '--email', 'nowhere'])
  expect(address).toMatchObject({
    code: 1,
    stderr: '--email: must be an e-mail address in ASCII: ada@example.org\n',
  })
  const json = await usher(['accounts', 'add', '--username', 'alan', '--attributes', '{'])
  expect(json.stderr).toContain('--attributes takes a JSON object')
  expect((await usher(['accounts', 'show', 'alan'])).stderr).toBe(
    'Account alan not found. List the accounts: npm run usher -- accounts list\n',
  )
})

test('accounts set changes the named fields, and a new address is not verified', async () => {
  await usher(['accounts', 'set', 'ada', '--email', 'countess@example.org'])
  const { stdout } = await usher(['accounts', 'show', 'ada', '--json'])
  expect(JSON.parse(stdout)).toMatchObject({
    name: 'Ada Lovelace',
    email: 'countess@example.org',
    email_verified: false,
    attributes: { department: 'Engines' },
  })
  await usher(['accounts', 'set', 'ada', '--username', 'countess', '--email-verified'])
  const renamed = JSON.parse((await usher(['accounts', 'show', 'countess', '--json'])).stdout)
  expect(renamed).toMatchObject({ username: 'countess', email_verified: true })
  expect((await usher(['accounts', 'show', 'ada'])).code).toBe(1)
  await usher(['accounts', 'set', 'countess', '--username', 'ada', '--no-email-verified'])
  const back = JSON.parse((await usher(['accounts', 'show', 'ada', '--json'])).stdout)
  expect(back).toMatchObject({ username: 'ada', email_verified: false })
})

/** Changes of attributes by `accounts set`, one after the other, and the attributes after each. */
const CHANGES: [words: string[], attributes: object][] = [
  [['--attributes', '{"level": 3}'], { level: 3 }],
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
test.each(CHANGES)('accounts set ada %j', async (words, attributes) => {
  await usher(['accounts', 'set', 'ada', ...words])
  const shown = JSON.parse((await usher(['accounts', 'show', 'ada', '--json'])).stdout)
  expect(shown).toMatchObject({ name: 'Ada Lovelace' })
  expect(shown.attributes).toEqual(attributes)
})

test.each(['groups+=', '__proto__+=x'])('a change of an attribute is refused: %s', async word => {
  const { stderr } = await usher(['accounts', 'set', 'ada', word])
  expect(stderr).toContain('must be groups+=finance')
})

test('config check warns of an attribute in allow that no claim and no account has', async () => {
  const own = mkdtempSync(join(folder, 'allow-'))
  mkdirSync(join(own, 'clients'))
  const claims = (text: string) => writeFileSync(join(own, 'claims.yaml'), `claims: ${text}\n`)
  claims('{}')
  const checkWith = async (attribute: string) => {
    const client = {
      client_id: 'wiki',
      client_name: 'Wiki',
      redirect_uris: ['https://wiki.example.org/callback'],
      token_endpoint_auth_method: 'none',
      allow: { [attribute]: ['finance'] },
    }
    writeFileSync(join(own, 'clients/wiki.yaml'), JSON.stringify(client))
    const { stdout } = await usher(['config', 'check', '--json'], '', { USHER_CONFIG: own })
    const { warnings } = JSON.parse(stdout) as { warnings: { rule: string; message: string }[] }
    return warnings.filter(({ rule }) => rule === 'allow-attribute')
  }
  expect(await checkWith('groups')).toEqual([])
  expect(await checkWith('gruops')).toMatchObject([
    {
      key: 'allow.gruops',
      message: expect.stringMatching(
        /^no claim in claims\.yaml.* accounts set ACCOUNT gruops\+=VALUE$/,
      ),
    },
  ])
  claims('{ groups: { scope: groups, from: attributes.gruops } }')
  expect(await checkWith('gruops')).toEqual([])
})

test('disable and enable', async () => {
  await usher(['accounts', 'disable', 'ada'])
  expect((await usher(['accounts', 'list'])).stdout).toMatch(/^ada +Ada Lovelace .* disabled /m)
  await usher(['accounts', 'enable', 'ada'])
  expect((await usher(['accounts', 'list'])).stdout).toMatch(/^ada +Ada Lovelace .* active /m)
})

test('accounts remove requires a confirmation', async () => {
  const asked = await usher(['accounts', 'remove', 'ada'])
  expect(asked.code).toBe(1)
  expect(asked.stderr).toContain('--yes')
  expect((await usher(['accounts', 'remove', 'ada', '--yes'])).code).toBe(0)
  expect((await usher(['accounts', 'list'])).stdout).toBe('There are no accounts yet.\n')
})

test('a secret that no client can send is refused', async () => {
  const file = join(config, 'clients', 'odd.yaml')
  const text = 'client_id: odd\nclient_name: Odd\nredirect_uris: [https://odd.example.org/cb]\n'
  writeFileSync(file, text)
  for (const odd of ['ü', '\t', '密', '\u007f']) {
    const secret = 'a'.repeat(40) + odd
    const { code, stderr } = await usher(['clients', 'secret', 'odd', '--secret-stdin'], secret)
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('RFC 6749 A.2') })
  }
  expect(readFileSync(file, 'utf8')).toBe(text)
  rmSync(file)
})

test('clients secret writes the hash, keeps the comments, and prints the secret once', async () => {
  const file = join(config, 'clients', 'wiki.yaml')
  writeFileSync(
    file,
    '# The wiki\nclient_id: wiki # for ever\nclient_name: Wiki\nredirect_uris: [https://wiki.example.org/cb]\n',
  )
  expect((await usher(['config', 'check'])).stdout).toContain('client_secret_hashes')
  const { stdout } = await usher(['clients', 'secret', 'wiki'])
  const second = await usher(['clients', 'secret', 'wiki'])
  const written = readFileSync(file, 'utf8')
  expect(written).toContain('# The wiki\nclient_id: wiki # for ever')
  expect(written.match(/sha256:/g)).toHaveLength(2)
  expect(written).not.toContain(stdout.trim())
  expect(second.stderr).toContain('Secrets: 2 for good')
  expect(await usher(['config', 'check'])).toMatchObject({ code: 0 })
  expect((await usher(['clients', 'show', 'wiki'])).stdout).toMatch(/^secrets +2 for good$/m)
  expect((await usher(['clients', 'list'])).stdout).toContain('wiki  Wiki  client_secret_basic')
})

test('the expiry of a client secret becomes earlier, but never later', async () => {
  const file = join(config, 'clients', 'ends.yaml')
  const fields =
    'client_id: ends\nclient_name: Ends\nredirect_uris: [https://ends.example.org/cb]\n'
  writeFileSync(file, fields)
  const expiries = async (until: string) => {
    await usher(['clients', 'secret', 'ends', '--until', until])
    return readFileSync(file, 'utf8').match(/(?<=until: )[\w:-]+/g)
  }
  await usher(['clients', 'secret', 'ends'])
  const [first, second] = ['2090-02-01T00:00:00Z', '2090-01-01T00:00:00Z']
  expect(await expiries('2090-02-01')).toEqual([first])
  expect(await expiries('2090-01-01')).toEqual([second, second])
  expect(await expiries('2090-02-01')).toEqual([second, second, first])
  rmSync(file)
})

test('clients secret reports a file that cannot be parsed, with the position, and does not change it', async () => {
  const file = join(config, 'clients', 'open.yaml')
  writeFileSync(file, 'client_id: [open\n')
  const { stderr, code } = await usher(['clients', 'secret', 'open'])
  expect(code).toBe(1)
  expect(stderr).toContain(`${file}:2:1`)
  expect(readFileSync(file, 'utf8')).toBe('client_id: [open\n')
  rmSync(file)
})

test('config check lists findings as text and as JSON', async () => {
  const broken = mkdtempSync(join(folder, 'broken-'))
  writeFileSync(join(broken, 'usher.yaml'), 'id_token:\n  claims: all\nbrand: x\n')
  const report = await usher(['config', 'check', broken])
  expect(report).toMatchObject({ code: 1, stderr: 'Findings: 2.\n' })
  expect(report.stdout).toContain('2 problems')
  const programs = await usher(['config', 'check', broken, '--json'])
  expect(JSON.parse(programs.stdout).findings).toHaveLength(2)
})

test('config check underlines a warning, and exits with 0 if there are only warnings', async () => {
  const unwise = mkdtempSync(join(folder, 'unwise-'))
  const file = join(unwise, 'usher.yaml')
  writeFileSync(file, 'lifetimes:\n  access_token: 3 h\n')
  const report = await usher(['config', 'check', unwise])
  expect(report).toMatchObject({ code: 0, stderr: '' })
  expect(report.stdout).toContain('1 warning')
  expect(report.stdout).toContain('    2 | access_token: 3 h\n')
  const programs = await usher(['config', 'check', unwise, '--json'])
  expect(programs.code).toBe(0)
  const place = { file, line: 2, column: 3, key: 'lifetimes.access_token' }
  const message = expect.stringContaining('RFC 6750 §5.3')
  expect(JSON.parse(programs.stdout)).toEqual({
    findings: [],
    warnings: [{ ...place, rule: 'access-token-lifetime', message }],
  })
})

test.each([
  [{ PORT: '4600' }, 'http://localhost:4600 (PORT)'],
  [{ PORT: '4600', USHER_ISSUER: 'http://127.0.0.1:5' }, 'http://127.0.0.1:5 (USHER_ISSUER)'],
  [{}, /http:\/\/localhost:3000 \(.*usher\.yaml:16\)/],
])('config check says where the issuer comes from: %j', async (env, said) => {
  const own = { USHER_CONFIG: join(ROOT, 'config'), ...env }
  const { stdout } = await runUsher(['config', 'check'], own)
  expect(stdout).toMatch(said)
})

test('config check says that a folder without settings and clients is empty', async () => {
  const empty = mkdtempSync(join(folder, 'empty-'))
  const report = await usher(['config', 'check', empty])
  expect(report.stdout).toContain('clients: none')
  expect(report.stdout).toMatch(/usher\.yaml +is missing or empty: .*there is no client/)
  writeFileSync(join(empty, 'usher.yaml'), 'branding: { name: Engines }')
  expect((await usher(['config', 'check', empty])).stdout).not.toContain('empty:')
})

test('config explain shows the effective values, and suggests the key for a misspelled one', async () => {
  const key = await usher(['config', 'explain', 'listen.port', '--json'])
  expect(JSON.parse(key.stdout).keys[0]).toMatchObject({ value: 3000, variable: 'PORT' })
  const all = (await usher(['config', 'explain'])).stdout
  expect(all).toContain('  lifetimes.access_token: 10 min')
  const files = 'usher claims clients/NAME resources/NAME details/NAME upstreams/NAME'.split(' ')
  expect(all.split('\n').filter(line => /^\S/.test(line))).toEqual(
    files.map(file => `${file}.yaml:`),
  )
  const client = await usher(['config', 'explain', 'demo'])
  expect(client.stdout).toContain('http://localhost:3000/api/oauth/token')
  const slip = await usher(['config', 'explain', 'lifetimes.acces_token'])
  expect(slip).toMatchObject({ code: 1, stdout: '' })
  expect(slip.stderr).toContain('did you mean lifetimes.access_token?')
})

test('config explain knows environment variables without a key, and does not show the secret', async () => {
  const secret = Buffer.alloc(32, 'canary').toString('base64url')
  const { stdout } = await usher(['config', 'explain', 'USHER_SECRET'], '', {
    USHER_SECRET: secret,
  })
  expect(stdout).toMatch(
    /^USHER_SECRET\n {2}value +\(not shown\)\n {2}description +The key that encrypts/,
  )
  const folder = await usher(['config', 'explain', 'USHER_CONFIG', '--json'])
  expect(JSON.parse(folder.stdout).USHER_CONFIG).toMatchObject({ value: env.USHER_CONFIG })
  const slip = await usher(['config', 'explain', 'USHER_SECERT'])
  expect(slip.stderr).toContain('USHER_SECERT not found; did you mean USHER_SECRET?')
})

test('the JSON Schemas in config/schema are those of the source', async () => {
  const target = mkdtempSync(join(folder, 'schema-'))
  await usher(['config', 'schema', target])
  const { stdout } = await promisify(execFile)('diff', [
    '-r',
    join(target, 'schema'),
    join(ROOT, 'config/schema'),
  ])
  expect(stdout).toBe('')
})

test.each(['-', '--'])(
  'a key whose kid begins with %s can be an argument like any other',
  async start => {
    const { stderr, code } = await usher(['keys', 'retire', start.padEnd(43, 'x')])
    expect({ stderr, code }).toEqual({
      stderr: 'KID not found. List the keys: npm run usher -- keys list\n',
      code: 1,
    })
  },
)

test.each([
  [['accounts', '--help'], 'accounts password ACCOUNT', 'clients list'],
  [['accounts', 'add', '--help'], 'accounts add --username U', 'accounts password'],
  [['help'], 'store reseal', undefined],
])('%j prints its help and succeeds', async (words, shown, hidden = 'frobnicate') => {
  const { stdout, stderr, code } = await usher(words)
  expect({ stderr, code }).toEqual({ stderr: '', code: 0 })
  expect(stdout).toContain(shown)
  expect(stdout).not.toContain(hidden)
})

test('clients add prints the file of a client, and that file is valid', async () => {
  const own = mkdtempSync(join(folder, 'own-'))
  const { stdout, code } = await usher(['clients', 'add'])
  expect(code).toBe(0)
  const yaml = [...stdout.matchAll(/^ {2}(\w+: .*)$/gm)].map(([, line]) => line).join('\n')
  mkdirSync(join(own, 'clients'))
  writeFileSync(join(own, 'clients', 'wiki.yaml'), yaml)
  const more = { USHER_CONFIG: own }
  expect((await usher(['clients', 'secret', 'wiki'], '', more)).code).toBe(0)
  cpSync(join(ROOT, 'config', 'claims.yaml'), join(own, 'claims.yaml'))
  const check = await usher(['config', 'check'], '', more)
  expect(check.stdout).toMatch(/^Nothing is wrong: .*, clients: wiki\./)
})

test('accounts show prints readable times', async () => {
  await usher(['accounts', 'add', '--username', 'hedy'])
  const { stdout } = await usher(['accounts', 'show', 'hedy'])
  expect(stdout).toMatch(/^created +20\d\d-\d\d-\d\d \d\d:\d\d UTC$/m)
  expect(stdout).toMatch(/^updated +20\d\d-\d\d-\d\d \d\d:\d\d UTC$/m)
})

test('keys rotate --now names the announced keys that it replaces', async () => {
  const announced = JSON.parse((await usher(['keys', 'rotate', '--json'])).stdout).keys
  const { stderr } = await usher(['keys', 'rotate', '--now'])
  expect(stderr).toContain('They replace keys that were announced and have never signed: ')
  for (const { kid } of announced) expect(stderr).toContain(kid)
})

test('without a command it lists all commands; a wrong option shows the usage', async () => {
  const help = await usher([])
  expect(help).toMatchObject({ code: 0 })
  expect(help.stdout).toContain('accounts password ACCOUNT')
  const noun = await usher(['accounts', 'frobnicate'])
  expect(noun).toMatchObject({ code: 2, stdout: '' })
  expect(noun.stderr).toMatch(/^Unknown command: accounts frobnicate\.\n(.*\n)*.*accounts password/)
  const unknown = await usher(['acounts', 'lst'])
  expect(unknown).toMatchObject({ code: 2, stdout: '' })
  expect(unknown.stderr).toMatch(
    /^Unknown command: acounts lst; did you mean accounts list\?\nCommands: /,
  )
  expect(unknown.stderr.split('\n').length).toBeLessThan(5)
  const wrong = await usher(['accounts', 'list', '--nope'])
  expect(wrong.code).toBe(1)
  expect(wrong.stderr).toContain('usage: npm run usher -- accounts list [FILTER…]')
})
