// Rules about the files of upstreams/, and about the methods of sign-in that other files name.

import { isIP } from 'node:net'
import { basename, resolve } from 'node:path'
import { PASSKEY, PASSWORD } from '../../oidc/vocabulary.ts'
import type { ValidFile } from '../files.ts'
import type { Finding } from '../report/finding.ts'
import { findingsOf, unknownNames } from '../report/wording.ts'
import { readText } from '../report/yaml.ts'
import { type ClientFile, NO_VSCHARS } from '../schema/client.ts'
import { schemeProblem } from '../schema/redirect-uri.ts'
import { hasPasskeys, type Upstream, type UpstreamFile } from '../schema/upstream.ts'
import type { UsherFile } from '../schema/usher.ts'
import { VSCHARS } from '../schema/values.ts'
import type { Context } from './client.ts'
import { readPrivateKey } from './provider.ts'

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
/** Names with another meaning: the password, buttons of the sign-in page, values of `amr`. */
const TAKEN_NAMES = [PASSWORD, PASSKEY, 'continue', 'cancel', ...AMR]

/** Returns the upstreams by name, with the contents of the files that they name. */
export function readUpstreams(files: File[], folder: string, findings: Finding[]) {
  const upstreams = files.map(({ file, value, at }): [string, Upstream] => {
    const name = basename(file, '.yaml')
    const { client_secret_file: secret, private_key_file: pem } = value
    const { text, problem = secretProblem(text) } = secret ? readText(resolve(folder, secret)) : {}
    const own = pem ? readPrivateKey(resolve(folder, pem)) : {}
    if (problem) findings.push(at(['client_secret_file'], 'file', `its file ${problem}`))
    if (own.problem) findings.push(at(['private_key_file'], 'signing-key', own.problem))
    return [name, { ...value, name, clientSecret: text?.trim(), secretKey: own.pem }]
  })
  return Object.fromEntries(upstreams)
}

/** Returns why the content of a file cannot be a secret of a client. */
function secretProblem(text?: string): string | undefined {
  const secret = text?.trim()
  if (secret === undefined || VSCHARS.test(secret)) return undefined
  return secret === '' ? 'is empty' : NO_VSCHARS
}

/** Returns the findings about an upstream, with the warnings. */
export function upstreamFindings(file: File, context: Context): Finding[] {
  const { accounts, development, upstreams } = context
  const { client_secret_file, private_key_file, issuer, allow, claims } = file.value
  const isOpen = !allow.email_domains && !Object.keys(allow.claims).length
  const isByEmail = file.value.link_by_verified_email && !allow.email_domains
  const isOneOfMany = Object.keys(upstreams).length > 1
  const isUnverified = isOneOfMany && claims.email && !allow.email_domains
  const name = basename(file.file, '.yaml')
  const isName = /^[a-z][a-z\d-]*$/.test(name) && !TAKEN_NAMES.includes(name)
  const isPlain = schemeProblem(issuer, { native: false, loopbackIssuer: development })
  return findingsOf(file, [
    [isPlain, 'plain-http', 'issuer'],
    [!isName, 'upstream-name', 'issuer'],
    [accounts.module, 'upstream-accounts', 'issuer'],
    [!client_secret_file === !private_key_file, 'upstream-credentials', 'client_secret_file'],
    [isByEmail, 'upstream-email', 'link_by_verified_email'],
    [isUnverified, 'upstream-addresses', 'claims.email'],
    [file.value.accounts === 'create' && isOpen, 'upstream-open', 'accounts'],
  ])
}

const NO_METHOD = ['sign-in-method', 'there is no method of sign-in {name}'] as const

/** Returns the findings about `sign_in.methods`, and about `require_sign_in` of clients. */
export function methodFindings(usher: Usher, clients: Client[], upstreams: object): Finding[] {
  const others = [PASSWORD, ...Object.keys(upstreams)]
  const { issuer = '', sign_in } = usher.value
  const { methods = others } = sign_in
  const isAddress = isIP(URL.parse(issuer)?.hostname.replace(/^\[|\]$/g, '') ?? '') > 0
  return [
    ...findingsOf(usher, [
      [!methods.some(name => name !== PASSKEY), 'passkey-alone', 'sign_in.methods'],
      [hasPasskeys(sign_in) && isAddress, 'passkey-address', 'issuer'],
    ]),
    ...unknownNames(usher.at, ['sign_in', 'methods'], methods, [...others, PASSKEY], NO_METHOD),
    ...clients.flatMap(({ value, at }) =>
      unknownNames(at, ['require_sign_in'], value.require_sign_in, methods, NO_METHOD),
    ),
  ]
}
