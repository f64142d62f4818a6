// The command line: a table of all commands, which is also the source of the help.

import { type ParseArgsConfig, parseArgs } from 'node:util'
import { type Command, Failure, type Invocation, readArguments } from './commands/command.ts'
import { ConfigError } from './config/report/finding.ts'
import { reasonOf } from './storage/store.ts'

/** Loads the file of a command when it is called, so that no command waits for the others. */
function from<M>(load: () => Promise<M>) {
  return (name: keyof M) => async (invocation: Invocation) => {
    const run = (await load())[name] as Command['run']
    return run(invocation)
  }
}
const accounts = from(() => import('./commands/accounts.ts'))
const clients = from(() => import('./commands/clients.ts'))
const config = from(() => import('./commands/config.ts'))
const grants = from(() => import('./commands/grants.ts'))
const keys = from(() => import('./commands/keys.ts'))
const pages = from(() => import('./commands/pages.ts'))
const sessions = from(() => import('./commands/sessions.ts'))
const registered = from(() => import('./commands/registered-clients.ts'))
const store = from(() => import('./commands/store.ts'))
const transfer = from(() => import('./commands/transfer.ts'))
const doctor = from(() => import('./commands/doctor.ts'))
const explain = from(() => import('./commands/explain.ts'))

const PROFILE = {
  name: { type: 'string' },
  email: { type: 'string' },
  'email-verified': { type: 'boolean' },
  attributes: { type: 'string' },
} as const
const USERNAME = { username: { type: 'string' } } as const
const STDIN = { 'password-stdin': { type: 'boolean' } } as const
const JSON_OUT = { json: { type: 'boolean' } } as const

const ADD =
  '--username U [--name N] [--email E] [--email-verified] [--attributes JSON] --password-stdin'
const SET =
  'ACCOUNT [--username U] [--name N] [--email E] [--[no-]email-verified] [--attributes JSON]'

// biome-ignore format: a table
const COMMANDS: Command[] = [
  { name: 'accounts add',      usage: ADD,            about: 'add an account; prints its usr_… alone on the first line', options: { ...USERNAME, ...PROFILE, ...STDIN }, run: accounts('add') },
  { name: 'accounts list',     usage: '[--json]',     about: 'all accounts',                      options: JSON_OUT, run: accounts('list') },
  { name: 'accounts show',     usage: 'ACCOUNT [--json]', about: 'one account: by its username or usr_…',     options: JSON_OUT, run: accounts('show') },
  { name: 'accounts why',      usage: 'ACCOUNT [--ip ADDRESS] [--json]', about: 'why an account cannot sign in at the moment; with --ip, from an address as the log has it', options: { ...JSON_OUT, ip: { type: 'string' } }, run: accounts('why') },
  { name: 'accounts set',      usage: SET,            about: 'change the username, the claims or the attributes of an account',            options: { ...USERNAME, ...PROFILE }, run: accounts('set') },
  { name: 'accounts disable',  usage: 'ACCOUNT',      about: 'end every session and token of an account, and refuse its sign-ins', options: {}, run: accounts('disable') },
  { name: 'accounts enable',   usage: 'ACCOUNT',      about: 'accept sign-ins of a disabled account again',                        options: {}, run: accounts('enable') },
  { name: 'accounts password', usage: 'ACCOUNT [--password-stdin]', about: 'set a password (a generated one without --password-stdin); ends every session and token', options: STDIN, run: accounts('password') },
  { name: 'accounts remove',   usage: 'ACCOUNT --yes', about: 'remove an account and all its records', options: { yes: { type: 'boolean' } }, run: accounts('remove') },
  { name: 'accounts import',   usage: '[FILE]',       about: 'add accounts from JSON Lines (standard input without FILE), with password hashes; existing accounts do not change', options: {}, run: transfer('importAccounts') },
  { name: 'accounts export',   usage: '',             about: 'all accounts as JSON Lines, with password hashes', options: {}, run: transfer('exportAccounts') },
  { name: 'clients add',       usage: '',             about: 'how to add a client: write a file, make its secret, check the folder', options: {}, run: clients('add') },
  { name: 'clients list',      usage: '[--json]',     about: 'the clients of config/clients, and the registered clients', options: JSON_OUT, run: clients('list') },
  { name: 'clients show',      usage: 'CLIENT_ID [--json]', about: 'one client, with all defaults', options: JSON_OUT, run: clients('show') },
  { name: 'clients secret',    usage: 'NAME [--until DURATION | TIME] [--secret-stdin]', about: 'make a secret, print it once, and write its hash to clients/NAME.yaml; other secrets expire at --until, or never', options: { 'secret-stdin': { type: 'boolean' }, until: { type: 'string' } }, run: clients('secret') },
  { name: 'clients invite',    usage: '[--until DURATION | TIME] [--most N] [--policy without-pkce] [--json]', about: 'print an initial access token for dynamic registration, once; by default for 10 clients within 7 days', options: { ...JSON_OUT, until: { type: 'string' }, most: { type: 'string' }, policy: { type: 'string' } }, run: registered('invite') },
  { name: 'clients invitations', usage: '[--json]',   about: 'the initial access tokens: how many clients registered with each, and when it expires', options: JSON_OUT, run: registered('invitations') },
  { name: 'clients uninvite',  usage: 'INVITATION',   about: 'revoke an initial access token, by the handle in clients invitations; registered clients stay', options: {}, run: registered('uninvite') },
  { name: 'clients remove',    usage: 'CLIENT_ID --yes', about: 'remove a registered client and revoke all its tokens', options: { yes: { type: 'boolean' } }, run: registered('remove') },
  { name: 'config check',      usage: '[FOLDER] [--json]', about: 'all errors and warnings in the config folder', options: JSON_OUT, run: config('check') },
  { name: 'config explain',    usage: '[KEY | CLIENT_ID | REQUEST_ID | -] [--json]', about: 'the setting in force, its file and its effect; why a request failed, by its id or its log line', options: JSON_OUT, run: explain('explain') },
  { name: 'config schema',     usage: '[FOLDER]',     about: 'write the JSON Schemas for completion in editors', options: {}, run: config('schema') },
  { name: 'doctor',            usage: '[--client CLIENT_ID --account USERNAME] [--json]', about: 'check the configuration, the secret, the store and the running provider, without writing to the store; with a client and an account, sign in as well (password on standard input)', options: { ...JSON_OUT, client: { type: 'string' }, account: { type: 'string' } }, run: doctor('doctor') },
  { name: 'grants list',       usage: 'ACCOUNT [--json]', about: 'the consents of an account: scopes, since when, and last use', options: JSON_OUT, run: grants('list') },
  { name: 'grants withdraw',   usage: 'ACCOUNT CLIENT_ID', about: 'withdraw a consent, like Remove access on the account page: revokes all tokens of the client for this account', options: {}, run: grants('withdraw') },
  { name: 'keys list',         usage: '[--json]',     about: 'the signing keys: next, current and retired, with their times', options: JSON_OUT, run: keys('list') },
  { name: 'keys rotate',       usage: '[--now] [--json]', about: 'make new signing keys: published first, or with --now signing at once', options: { ...JSON_OUT, now: { type: 'boolean' } }, run: keys('rotate') },
  { name: 'keys retire',       usage: 'KID',          about: 'remove a key from the JWKS now: its signatures are no longer valid', options: {}, run: keys('retire') },
  { name: 'sessions list',     usage: 'ACCOUNT [--json]', about: 'the sessions of an account, one for each browser', options: JSON_OUT, run: sessions('list') },
  { name: 'sessions end',      usage: 'ACCOUNT [SESSION]', about: 'end one session of an account, by the handle in sessions list, or all of them', options: {}, run: sessions('end') },
  { name: 'pages preview',     usage: '[FOLDER] [--lang TAG,…]', about: 'write every page in every state and language to a folder, to view in a browser', options: { lang: { type: 'string' } }, run: pages('preview') },
  { name: 'store copy',         usage: '--from STORE --to STORE', about: 'copy all records to another store (sqlite:PATH, redis://…), and compare; stop every node first', options: { from: { type: 'string' }, to: { type: 'string' } }, run: store('copy') },
  { name: 'store backup',       usage: 'FILE',         about: 'write a backup to a file, while nodes run', options: {}, run: store('backup') },
  { name: 'store restore',      usage: 'FILE',         about: 'fill an empty store from a backup; stop every node first', options: {}, run: store('restore') },
  { name: 'store reseal',      usage: '',             about: 'after a change of the secret: encrypt all records with the first of USHER_SECRET', options: {}, run: store('reseal') },
]

async function main(argv: string[]): Promise<number> {
  const [noun = '', verb = ''] = argv
  const command = COMMANDS.find(({ name }) => name === noun || name === `${noun} ${verb}`)
  if (!command || argv.includes('--help')) return help(noun, verb)
  try {
    const { values, positionals } = parseArgs({
      args: kidsLast(argv.slice(command.name.split(' ').length)),
      options: command.options as ParseArgsConfig['options'],
      allowPositionals: true,
      allowNegative: true,
    })
    await command.run({ values, args: readArguments(command, positionals) })
    return 0
  } catch (error) {
    process.stderr.write(`${inWords(error, command)}\n`)
    return 1
  }
}

/** Moves kids (RFC 7638) behind `--`: one in 64 begins with `-` and would be read as an option. */
function kidsLast(words: string[]): string[] {
  const isKid = (word: string) => /^-[\w-]{42}$/.test(word)
  if (words.includes('--') || !words.some(isKid)) return words
  return [...words.filter(word => !isKid(word)), '--', ...words.filter(isKid)]
}

/** Prints help for one command, one noun, or all. Returns the exit code: 2 for an unknown command. */
function help(noun: string, verb: string): number {
  const named = COMMANDS.filter(({ name }) => name === noun || name === `${noun} ${verb}`)
  const ofNoun = COMMANDS.filter(({ name }) => name.startsWith(`${noun} `))
  const isAsked = named.length > 0 || ['', 'help', '--help'].includes(noun)
  const isNoun = ofNoun.length > 0 && ['', '--help'].includes(verb)
  const [shown = COMMANDS] = [named, ofNoun].filter(({ length }) => length)
  const lines = shown.map(
    ({ name, usage, about }) => `  ${`${name} ${usage}`.trim()}\n      ${about}\n`,
  )
  const text = `npm run usher -- NOUN VERB …\n\n${lines.join('')}`
  if (isAsked || isNoun) process.stdout.write(text)
  else process.stderr.write(`Unknown command: ${`${noun} ${verb}`.trim()}.\n\n${text}`)
  return isAsked || isNoun ? 0 : 2
}

function inWords(error: unknown, { name, usage }: Command): string {
  if (error instanceof ConfigError || error instanceof Failure) return error.message
  const message = reasonOf(error)
  if (error instanceof Error && 'code' in error && /^ERR_PARSE_ARGS/.test(String(error.code))) {
    return `${message}\n\nusage: npm run usher -- ${name} ${usage}`
  }
  return `The command failed: ${message}`
}

process.exitCode = await main(process.argv.slice(2))
