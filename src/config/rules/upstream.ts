// Rules about the files of upstreams/, and about the methods of sign-in that
// other files name.

import { isIP } from 'node:net'
import { basename, resolve } from 'node:path'
import { PASSKEY, PASSWORD } from '../../oidc/vocabulary.ts'
import { readText } from '../disk.ts'
import type { ValidFile } from '../files.ts'
import type { Finding } from '../report/finding.ts'
import { unknownNames } from '../report/wording.ts'
import { type ClientFile, NO_VSCHARS } from '../schema/client.ts'
import { schemeProblem } from '../schema/redirect-uri.ts'
import {
  hasPasskeys,
  type Upstream,
  type UpstreamFile,
} from '../schema/upstream.ts'
import type { UsherFile } from '../schema/usher.ts'
import { VSCHARS } from '../schema/values.ts'
import type { Context } from './client.ts'
import { brokenRules, type Rule } from './rule.ts'
import { readPrivateKey } from './signing-keys.ts'

type File = ValidFile<UpstreamFile>
type Usher = ValidFile<UsherFile>
type Client = ValidFile<ClientFile>

/** Values of `amr` (RFC 8176 §2). */
const AMR = [
  'face',
  'fpt',
  'geo',
  'hwk',
  'iris',
  'kba',
  'mca',
  'mfa',
  'otp',
  'pin',
  'pop',
  'pwd',
  'rba',
  'retina',
  'sc',
  'sms',
  'swk',
  'tel',
  'user',
  'vbm',
  'wia',
]
/**
 * Names with another meaning: the password, buttons of the sign-in page, values
 * of `amr`.
 */
const TAKEN_NAMES = [PASSWORD, PASSKEY, 'continue', 'cancel', ...AMR]

/**
 * Returns the upstreams by name, with the contents of the files that they name.
 */
export function readUpstreams(
  files: File[],
  folder: string,
  findings: Finding[],
) {
  const upstreams: Record<string, Upstream> = {}
  for (const { file, value, at } of files) {
    const name = basename(file, '.yaml')
    const secret = readSecret(value.client_secret_file, folder)
    if (secret.problem) {
      findings.push(
        at(['client_secret_file'], 'file', `its file ${secret.problem}`),
      )
    }
    const pem = value.private_key_file
    const key = pem ? readPrivateKey(resolve(folder, pem)) : {}
    if (key.problem)
      findings.push(at(['private_key_file'], 'signing-key', key.problem))
    upstreams[name] = {
      ...value,
      name,
      clientSecret: secret.text,
      secretKey: key.pem,
    }
  }
  return upstreams
}

/** Returns the secret in a file, or what is wrong with it. */
function readSecret(file: string | undefined, folder: string) {
  if (!file) return {}
  const { text, problem } = readText(resolve(folder, file))
  if (text === undefined) return { problem }
  const secret = text.trim()
  return { text: secret, problem: secretProblem(secret) }
}

/** Returns why a text cannot be the secret of a client. */
function secretProblem(secret: string): string | undefined {
  if (VSCHARS.test(secret)) return undefined
  return secret === '' ? 'is empty' : NO_VSCHARS
}

/** Returns the findings about an upstream, with the warnings. */
export function upstreamFindings(file: File, context: Context): Finding[] {
  const name = basename(file.file, '.yaml')
  return brokenRules(RULES, file, { ...context, name })
}

const isName = (name: string) =>
  /^[a-z][a-z\d-]*$/.test(name) && !TAKEN_NAMES.includes(name)

/** Whether every user of the issuer may sign in. */
const isOpen = ({ allow }: UpstreamFile) =>
  !allow.email_domains && Object.keys(allow.claims).length === 0

const RULES: Rule<UpstreamFile, Context & { name: string }>[] = [
  {
    rule: 'plain-http',
    at: 'issuer',
    when: ({ issuer }, { development }) =>
      schemeProblem(issuer, { native: false, loopbackIssuer: development }),
  },
  {
    rule: 'upstream-name',
    at: 'issuer',
    when: (_, { name }) => !isName(name),
  },
  {
    rule: 'upstream-accounts',
    at: 'issuer',
    when: (_, { accounts }) => accounts.module,
  },
  {
    rule: 'upstream-credentials',
    at: 'client_secret_file',
    when: ({ client_secret_file, private_key_file }) =>
      Boolean(client_secret_file) === Boolean(private_key_file),
  },
  {
    rule: 'upstream-email',
    at: 'link_by_verified_email',
    when: ({ link_by_verified_email, allow }) =>
      link_by_verified_email && !allow.email_domains,
  },
  {
    rule: 'upstream-addresses',
    at: 'claims.email',
    when: ({ claims, allow }, { upstreams }) =>
      claims.email && !allow.email_domains && Object.keys(upstreams).length > 1,
  },
  {
    rule: 'upstream-open',
    at: 'accounts',
    when: upstream => upstream.accounts === 'create' && isOpen(upstream),
  },
]

const NO_METHOD = [
  'sign-in-method',
  'there is no method of sign-in {name}',
] as const

/**
 * Returns the findings about `sign_in.methods`, and about `require_sign_in` of
 * clients.
 */
export function methodFindings(
  usher: Usher,
  clients: Client[],
  upstreams: object,
): Finding[] {
  const others = [PASSWORD, ...Object.keys(upstreams)]
  const { methods = others } = usher.value.sign_in
  return [
    ...brokenRules(METHOD_RULES, usher, { methods }),
    ...unknownNames(
      usher.at,
      ['sign_in', 'methods'],
      methods,
      [...others, PASSKEY],
      NO_METHOD,
    ),
    ...clients.flatMap(({ value, at }) =>
      unknownNames(
        at,
        ['require_sign_in'],
        value.require_sign_in,
        methods,
        NO_METHOD,
      ),
    ),
  ]
}

const METHOD_RULES: Rule<UsherFile, { methods: string[] }>[] = [
  {
    rule: 'passkey-alone',
    at: 'sign_in.methods',
    when: (_, { methods }) => methods.every(name => name === PASSKEY),
  },
  {
    rule: 'passkey-address',
    at: 'issuer',
    when: ({ sign_in, issuer }) => hasPasskeys(sign_in) && isAddress(issuer),
  },
]

/** Whether the host of a URL is an IP address. */
function isAddress(url = ''): boolean {
  const host = URL.parse(url)?.hostname ?? ''
  return isIP(host.replace(/^\[|\]$/g, '')) > 0
}
