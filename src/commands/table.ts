// All commands, in the order of the help: names, arguments, options,
// descriptions, functions. run.ts reads words by this table, and prints the
// help from it. The file of a command is loaded when the command is called.
//
// The folder commands/: what operators do on the command line. Not here: what a
// running service does.
//
//   run.ts            finds the row of this table, and reads arguments and options
//     open-store.ts   opens the store, where the command needs one
//       NOUN.ts       does the work
//         output.ts   prints lines, or JSON

import type { Invocation } from './command.ts'

/** A word after the name of a command. The required ones come first. */
export interface Argument {
  name: string
  isOptional?: true
  /** Any number of words. Only the last argument can have it. */
  isRepeated?: true
}

/** An option. A `text` has a value, whose name in the help is `value`. */
export type Option = OptionHelp &
  ({ kind: 'flag' } | { kind: 'text'; value: string })

interface OptionHelp {
  name: string
  /** The help shows it without brackets. The command says what is missing. */
  isRequired?: true
  /** The help shows `--[no-]NAME`. */
  isNegatable?: true
  /**
   * An option that is of use only together with this one. The help shows both
   * in one pair of brackets.
   */
  with?: Option
}

/** A command: `npm run usher -- NAME ARGUMENTS OPTIONS`. */
export interface Command {
  /** NOUN VERB, or NOUN. */
  name: string
  args?: Argument[]
  options?: Option[]
  /** The sentence of the help. */
  about: string
  load: () => Promise<(invocation: Invocation) => Promise<void>>
}

const flag = (name: string, help?: Partial<OptionHelp>): Option => ({
  name,
  kind: 'flag',
  ...help,
})

function text(name: string, value: string, help?: Partial<OptionHelp>): Option {
  return { name, kind: 'text', value, ...help }
}

const JSON_OUTPUT = flag('json')

/** All commands, in the order of the help. */
export const COMMANDS: Command[] = [
  {
    name: 'accounts add',
    options: [
      text('username', 'U', { isRequired: true }),
      text('name', 'N'),
      text('email', 'E'),
      flag('email-verified'),
      text('attributes', 'JSON'),
      flag('must-change'),
      flag('password-stdin', { isRequired: true }),
    ],
    about:
      'add an account; prints its usr_… alone on the first line. With ' +
      '--must-change the password is temporary, and without --password-stdin ' +
      'a generated one stands on the second line',
    load: async () => (await import('./accounts.ts')).addAccount,
  },
  {
    name: 'accounts invite',
    options: [
      text('file', 'FILE'),
      text('username', 'U'),
      text('name', 'N'),
      text('email', 'E'),
      flag('email-verified'),
      text('groups', 'A,B'),
      text('attributes', 'JSON'),
      text('for', 'DURATION'),
      flag('mail'),
      text('lang', 'TAG'),
      JSON_OUTPUT,
    ],
    about:
      'add an account that has no password yet, and print a link with which ' +
      'the user chooses one; it works once, for three days. --file: for each ' +
      'account of a table (CSV with a header) or of JSON Lines. --mail: send ' +
      'it to the address instead',
    load: async () => (await import('./account-links.ts')).inviteAccounts,
  },
  {
    name: 'accounts list',
    args: [{ name: 'FILTER', isOptional: true, isRepeated: true }],
    options: [
      flag('invited'),
      flag('disabled'),
      flag('without-second-factor'),
      text('unused', 'DURATION'),
      JSON_OUTPUT,
      flag('csv'),
    ],
    about:
      'the accounts that pass all filters: a text of the username, the name ' +
      'or the address; groups=finance, a value of an attribute; --invited, ' +
      'without a password yet; --unused, without a sign-in for at most 90 ' +
      'days. --without-second-factor also says how many are ready for ' +
      'second_factor: required',
    load: async () => (await import('./account-list.ts')).listAccounts,
  },
  {
    name: 'accounts show',
    args: [{ name: 'ACCOUNT' }],
    options: [JSON_OUTPUT],
    about: 'one account: by its username or usr_…',
    load: async () => (await import('./accounts.ts')).showAccount,
  },
  {
    name: 'accounts why',
    args: [{ name: 'ACCOUNT' }],
    options: [text('client', 'CLIENT_ID'), text('ip', 'ADDRESS'), JSON_OUTPUT],
    about:
      'why an account cannot sign in at the moment; with --client, to this ' +
      'client; with --ip, from an address as the log has it',
    load: async () => (await import('./why.ts')).explainSignIn,
  },
  {
    name: 'accounts set',
    args: [
      { name: 'ACCOUNT' },
      { name: 'ATTRIBUTE', isOptional: true, isRepeated: true },
    ],
    options: [
      text('username', 'U'),
      text('name', 'N'),
      text('email', 'E'),
      flag('email-verified', { isNegatable: true }),
      text('attributes', 'JSON'),
    ],
    about:
      'change the username, the claims or the attributes of an account: ' +
      'groups+=finance adds a value to a list, groups-=sales removes one, ' +
      'site=north sets a text',
    load: async () => (await import('./accounts.ts')).setAccount,
  },
  {
    name: 'accounts password-link',
    args: [{ name: 'ACCOUNT' }],
    options: [
      text('for', 'DURATION'),
      flag('reset-factors'),
      flag('mail'),
      text('lang', 'TAG'),
      JSON_OUTPUT,
    ],
    about:
      'print a link with which the user chooses a new password, and what its ' +
      'use ends; it replaces an earlier one. With --reset-factors, its use ' +
      'removes the second factors and the recovery codes',
    load: async () => (await import('./account-links.ts')).makePasswordLink,
  },
  {
    name: 'accounts link',
    args: [{ name: 'ACCOUNT' }],
    options: [
      text('upstream', 'NAME', { isRequired: true }),
      text('subject', 'SUB', { isRequired: true }),
    ],
    about:
      'let a user of an upstream issuer, by the sub of its ID tokens, sign in ' +
      'to an account',
    load: async () => (await import('./account-links.ts')).linkAccount,
  },
  {
    name: 'accounts unlink',
    args: [{ name: 'ACCOUNT' }],
    options: [text('upstream', 'NAME', { isRequired: true })],
    about: 'reverse accounts link',
    load: async () => (await import('./account-links.ts')).unlinkAccount,
  },
  {
    name: 'accounts disable',
    args: [{ name: 'ACCOUNT' }],
    about:
      'end every session and token of an account, and refuse its sign-ins. JWT access tokens for APIs expire within ten minutes',
    load: async () => (await import('./accounts.ts')).disableAccount,
  },
  {
    name: 'accounts enable',
    args: [{ name: 'ACCOUNT' }],
    about: 'accept sign-ins of a disabled account again',
    load: async () => (await import('./accounts.ts')).enableAccount,
  },
  {
    name: 'accounts password',
    args: [{ name: 'ACCOUNT' }],
    options: [flag('password-stdin'), flag('must-change')],
    about:
      'set a password; ends every session and token. Without --password-stdin ' +
      'it prints a generated one, which is temporary; with --must-change a ' +
      'given one is, too',
    load: async () => (await import('./accounts.ts')).setPassword,
  },
  {
    name: 'accounts factors',
    args: [{ name: 'ACCOUNT' }],
    options: [text('remove', 'ID'), JSON_OUTPUT],
    about:
      'the second factors of an account; with --remove, remove one (its id), ' +
      'or all',
    load: async () => (await import('./accounts.ts')).listOrRemoveFactors,
  },
  {
    name: 'accounts remove',
    args: [{ name: 'ACCOUNT' }],
    options: [flag('yes', { isRequired: true })],
    about: 'remove an account and all its records',
    load: async () => (await import('./accounts.ts')).removeAccount,
  },
  {
    name: 'accounts import',
    args: [{ name: 'FILE', isOptional: true }],
    about:
      'add accounts from JSON Lines or a table (CSV with a header), with ' +
      'password hashes; existing accounts do not change. Standard input ' +
      'without FILE',
    load: async () => (await import('./transfer.ts')).importAccounts,
  },
  {
    name: 'accounts export',
    args: [{ name: 'ACCOUNT', isOptional: true }],
    about:
      'all accounts as JSON Lines, with password hashes; or everything about ' +
      'one user as JSON, without secrets',
    load: async () => (await import('./transfer.ts')).exportAccounts,
  },
  {
    name: 'clients add',
    about:
      'how to add a client: write a file, make its secret, check the folder',
    load: async () => (await import('./clients.ts')).explainClientFile,
  },
  {
    name: 'clients list',
    options: [JSON_OUTPUT],
    about: 'the clients of config/clients, and the registered clients',
    load: async () => (await import('./clients.ts')).listClients,
  },
  {
    name: 'clients show',
    args: [{ name: 'CLIENT_ID' }],
    options: [JSON_OUTPUT],
    about: 'one client, with all defaults',
    load: async () => (await import('./clients.ts')).showClient,
  },
  {
    name: 'clients secret',
    args: [{ name: 'NAME' }],
    options: [text('until', 'DURATION | TIME'), flag('secret-stdin')],
    about:
      'make a secret, print it once, and write its hash to clients/NAME.yaml; ' +
      'other secrets expire at --until, or never',
    load: async () => (await import('./clients.ts')).makeSecret,
  },
  {
    name: 'clients invite',
    options: [
      text('until', 'DURATION | TIME'),
      text('most', 'N'),
      text('policy', 'without-pkce'),
      JSON_OUTPUT,
    ],
    about:
      'print an initial access token for dynamic registration, once; by ' +
      'default for 10 clients within 7 days',
    load: async () => (await import('./clients.ts')).inviteClients,
  },
  {
    name: 'clients invitations',
    options: [JSON_OUTPUT],
    about:
      'the initial access tokens: how many clients registered with each, and ' +
      'when it expires',
    load: async () => (await import('./clients.ts')).listInvitations,
  },
  {
    name: 'clients uninvite',
    args: [{ name: 'INVITATION' }],
    about:
      'revoke an initial access token, by the handle in clients invitations; ' +
      'registered clients stay',
    load: async () => (await import('./clients.ts')).revokeInvitation,
  },
  {
    name: 'clients end',
    args: [{ name: 'CLIENT_ID' }],
    about: 'revoke all tokens of a client, for all users; consents stay',
    load: async () => (await import('./clients.ts')).endClient,
  },
  {
    name: 'clients remove',
    args: [{ name: 'CLIENT_ID' }],
    options: [flag('yes', { isRequired: true })],
    about: 'remove a registered client and revoke all its tokens',
    load: async () => (await import('./clients.ts')).removeClient,
  },
  {
    name: 'config check',
    args: [{ name: 'FOLDER', isOptional: true }],
    options: [JSON_OUTPUT],
    about: 'all errors and warnings in the config folder',
    load: async () => (await import('./config.ts')).checkFolder,
  },
  {
    name: 'config explain',
    args: [{ name: 'KEY | CLIENT_ID | REQUEST_ID | -', isOptional: true }],
    options: [JSON_OUTPUT],
    about:
      'the setting in force, its file and its effect; why a request failed, ' +
      'by its id or its log line',
    load: async () => (await import('./explain.ts')).explain,
  },
  {
    name: 'config schema',
    args: [{ name: 'FOLDER', isOptional: true }],
    about: 'write the JSON Schemas for completion in editors',
    load: async () => (await import('./config.ts')).writeSchemas,
  },
  {
    name: 'doctor',
    options: [
      text('client', 'CLIENT_ID', { with: text('account', 'USERNAME') }),
      JSON_OUTPUT,
    ],
    about:
      'check the configuration, the secret, the store and the running ' +
      'provider, without writing to the store; with a client and an account, ' +
      'sign in as well (password on standard input)',
    load: async () => (await import('./doctor.ts')).doctor,
  },
  {
    name: 'status',
    options: [JSON_OUTPUT],
    about:
      'one screen: the service and its configuration, the store, the keys and their next rotation, the accounts by state, open invitations, clients, and what expires within 30 days',
    load: async () => (await import('./status.ts')).showStatus,
  },
  {
    name: 'grants list',
    args: [{ name: 'ACCOUNT' }],
    options: [JSON_OUTPUT],
    about: 'the consents of an account: scopes, since when, and last use',
    load: async () => (await import('./grants.ts')).listConsents,
  },
  {
    name: 'grants withdraw',
    args: [{ name: 'ACCOUNT' }, { name: 'CLIENT_ID' }],
    about:
      'withdraw a consent, like Remove access on the account page: revokes ' +
      'all tokens of the client for this account',
    load: async () => (await import('./grants.ts')).withdrawConsent,
  },
  {
    name: 'keys list',
    options: [JSON_OUTPUT],
    about: 'the signing keys: next, current and retired, with their times',
    load: async () => (await import('./keys.ts')).listKeys,
  },
  {
    name: 'keys rotate',
    options: [flag('now'), JSON_OUTPUT],
    about:
      'make new signing keys: published first, or with --now signing at once',
    load: async () => (await import('./keys.ts')).rotateKeys,
  },
  {
    name: 'keys retire',
    args: [{ name: 'KID' }],
    about: 'remove a key from the JWKS now: its signatures are no longer valid',
    load: async () => (await import('./keys.ts')).retireKey,
  },
  {
    name: 'sessions list',
    args: [{ name: 'ACCOUNT' }],
    options: [JSON_OUTPUT],
    about: 'the sessions of an account, one for each browser',
    load: async () => (await import('./sessions.ts')).listSessions,
  },
  {
    name: 'sessions end',
    args: [{ name: 'ACCOUNT' }, { name: 'SESSION', isOptional: true }],
    about:
      'end one session of an account, by the handle in sessions list, or all ' +
      'of them',
    load: async () => (await import('./sessions.ts')).endSessions,
  },
  {
    name: 'pages preview',
    args: [{ name: 'FOLDER', isOptional: true }],
    options: [text('lang', 'TAG,…')],
    about:
      'write every page in every state and language to a folder, to view in a ' +
      'browser',
    load: async () => (await import('./pages.ts')).previewPages,
  },
  {
    name: 'store copy',
    options: [
      text('from', 'STORE', { isRequired: true }),
      text('to', 'STORE', { isRequired: true }),
    ],
    about:
      'copy all records to another store (sqlite:PATH, redis://…); stop every ' +
      'node first',
    load: async () => (await import('./store.ts')).copyToStore,
  },
  {
    name: 'store backup',
    args: [{ name: 'FILE' }],
    options: [flag('overwrite')],
    about:
      'write a backup to a file, while nodes run; it replaces no larger or ' +
      'other one without --overwrite',
    load: async () => (await import('./backup.ts')).writeBackup,
  },
  {
    name: 'store restore',
    args: [{ name: 'FILE' }],
    about: 'fill an empty store from a backup; stop every node first',
    load: async () => (await import('./backup.ts')).restoreBackup,
  },
  {
    name: 'store reseal',
    about:
      'after a change of the secret: encrypt all records with the first of ' +
      'USHER_SECRET',
    load: async () => (await import('./store.ts')).resealStore,
  },
]
