// The table of all commands. cli.ts reads help, arguments and options from the usage texts.

// biome-ignore format: a table
/**
 * All commands. `run`: the file in this folder, and its function. `usage`: the name, the arguments, and
 * then the options.
 */
export const TABLE: [run: string, usage: string, about: string][] = [
  ['accounts.add', 'accounts add --username U [--name N] [--email E] [--email-verified] [--attributes JSON] [--must-change] --password-stdin',
    'add an account; prints its usr_… alone on the first line. With --must-change the password is temporary, and without --password-stdin a generated one stands on the second line'],
  ['accounts.list', 'accounts list [--json]', 'all accounts'],
  ['accounts.show', 'accounts show ACCOUNT [--json]', 'one account: by its username or usr_…'],
  ['why.why', 'accounts why ACCOUNT [--ip ADDRESS] [--json]', 'why an account cannot sign in at the moment; with --ip, from an address as the log has it'],
  ['accounts.set', 'accounts set ACCOUNT [--username U] [--name N] [--email E] [--[no-]email-verified] [--attributes JSON]',
    'change the username, the claims or the attributes of an account'],
  ['accounts.list', 'accounts find TEXT [--json]', 'the accounts whose username, name or e-mail address contains a text'],
  ['accounts.link', 'accounts link ACCOUNT --upstream NAME --subject SUB', 'let a user of an upstream issuer, by the sub of its ID tokens, sign in to an account'],
  ['accounts.unlink', 'accounts unlink ACCOUNT --upstream NAME', 'reverse accounts link'],
  ['accounts.disable', 'accounts disable ACCOUNT', 'end every session and token of an account, and refuse its sign-ins'],
  ['accounts.enable', 'accounts enable ACCOUNT', 'accept sign-ins of a disabled account again'],
  ['accounts.password', 'accounts password ACCOUNT [--password-stdin] [--must-change]', 'set a password (a generated one without --password-stdin); with --must-change it is temporary; ends every session and token'],
  ['accounts.remove', 'accounts remove ACCOUNT --yes', 'remove an account and all its records'],
  ['transfer.importAccounts', 'accounts import [FILE]', 'add accounts from JSON Lines (standard input without FILE), with password hashes; existing accounts do not change'],
  ['transfer.exportAccounts', 'accounts export', 'all accounts as JSON Lines, with password hashes'],
  ['clients.add', 'clients add', 'how to add a client: write a file, make its secret, check the folder'],
  ['clients.list', 'clients list [--json]', 'the clients of config/clients, and the registered clients'],
  ['clients.show', 'clients show CLIENT_ID [--json]', 'one client, with all defaults'],
  ['clients.secret', 'clients secret NAME [--until DURATION | TIME] [--secret-stdin]', 'make a secret, print it once, and write its hash to clients/NAME.yaml; other secrets expire at --until, or never'],
  ['clients.invite', 'clients invite [--until DURATION | TIME] [--most N] [--policy without-pkce] [--json]', 'print an initial access token for dynamic registration, once; by default for 10 clients within 7 days'],
  ['clients.invitations', 'clients invitations [--json]', 'the initial access tokens: how many clients registered with each, and when it expires'],
  ['clients.uninvite', 'clients uninvite INVITATION', 'revoke an initial access token, by the handle in clients invitations; registered clients stay'],
  ['clients.remove', 'clients remove CLIENT_ID --yes', 'remove a registered client and revoke all its tokens'],
  ['config.check', 'config check [FOLDER] [--json]', 'all errors and warnings in the config folder'],
  ['explain.explain', 'config explain [KEY | CLIENT_ID | REQUEST_ID | -] [--json]', 'the setting in force, its file and its effect; why a request failed, by its id or its log line'],
  ['config.schema', 'config schema [FOLDER]', 'write the JSON Schemas for completion in editors'],
  ['doctor.doctor', 'doctor [--client CLIENT_ID --account USERNAME] [--json]', 'check the configuration, the secret, the store and the running provider, without writing to the store; with a client and an account, sign in as well (password on standard input)'],
  ['grants.list', 'grants list ACCOUNT [--json]', 'the consents of an account: scopes, since when, and last use'],
  ['grants.withdraw', 'grants withdraw ACCOUNT CLIENT_ID', 'withdraw a consent, like Remove access on the account page: revokes all tokens of the client for this account'],
  ['keys.list', 'keys list [--json]', 'the signing keys: next, current and retired, with their times'],
  ['keys.rotate', 'keys rotate [--now] [--json]', 'make new signing keys: published first, or with --now signing at once'],
  ['keys.retire', 'keys retire KID', 'remove a key from the JWKS now: its signatures are no longer valid'],
  ['sessions.list', 'sessions list ACCOUNT [--json]', 'the sessions of an account, one for each browser'],
  ['sessions.end', 'sessions end ACCOUNT [SESSION]', 'end one session of an account, by the handle in sessions list, or all of them'],
  ['pages.preview', 'pages preview [FOLDER] [--lang TAG,…]', 'write every page in every state and language to a folder, to view in a browser'],
  ['store.copy', 'store copy --from STORE --to STORE', 'copy all records to another store (sqlite:PATH, redis://…); stop every node first'],
  ['backup.backup', 'store backup FILE [--overwrite]', 'write a backup to a file, while nodes run; it replaces no larger or other one without --overwrite'],
  ['backup.restore', 'store restore FILE', 'fill an empty store from a backup; stop every node first'],
  ['store.reseal', 'store reseal', 'after a change of the secret: encrypt all records with the first of USHER_SECRET'],
]
