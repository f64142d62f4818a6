// Warnings about files and keys that are valid and have no effect. Each row says why. Keys that need a feature are errors
// of their own (client.ts, provider.ts).

import { basename, join } from 'node:path'
import { PASSWORD } from '../../oidc/vocabulary.ts'
import { REDIS_DEFAULTS } from '../../store/redis/settings.ts'
import type { ValidFile } from '../files.ts'
import type { Finding } from '../report/finding.ts'
import { noEffect } from '../report/wording.ts'
import type { ClientFile } from '../schema/client.ts'
import type { DetailFile } from '../schema/details.ts'
import { shippedTags } from '../schema/locale.ts'
import type { ResourceFile } from '../schema/resource.ts'
import { hasPasskeys, type UpstreamFile } from '../schema/upstream.ts'
import type { UsherFile } from '../schema/usher.ts'

/** The files of a folder. */
interface Files {
  usher: ValidFile<UsherFile>
  clients: ValidFile<ClientFile>[]
  apis: ValidFile<ResourceFile>[]
  details: ValidFile<DetailFile>[]
  upstreams: ValidFile<UpstreamFile>[]
  /** Files of locales/. */
  words: ValidFile<object>[]
  /** The files in pages/, by name. */
  pages: Record<string, string>
}

/** Whether a key is without effect, the key as `a.b`, and the reason. */
type Row = readonly [isIdle: unknown, key: string, reason: string]

/** Returns the warnings about all files. */
export function noEffectFindings(files: Files, folder: string): Finding[] {
  const { usher, clients, apis, details, upstreams, words, pages } = files
  const settings = usher.value
  const tags = [...shippedTags, ...words.map(({ file }) => basename(file, '.yaml'))]
  return [
    ...idleKeys(usher, usherRows(settings)),
    ...clients.flatMap(file => idleKeys(file, clientRows(file, settings, tags))),
    ...apis.flatMap(file => idleKeys(file, resourceRows(file.value))),
    ...details.flatMap(file => idleKeys(file, detailRows(settings))),
    ...upstreams.flatMap(file => idleKeys(file, upstreamRows(file, settings))),
    ...words.flatMap(file => emptyFile(file)),
    ...Object.keys(pages).flatMap(name => idlePage(name, settings, folder)),
  ]
}

/** Returns the warnings about keys that are written in this file. */
function idleKeys({ file, at, origin }: ValidFile<object>, rows: Row[]): Finding[] {
  return rows.flatMap(([isIdle, key, reason]) => {
    if (!isIdle) return []
    const path = key.split('.')
    // A key of `defaults` is for other clients.
    const isWritten = origin(path)?.startsWith(`${file}:`)
    return isWritten ? [at(path, 'no-effect', noEffect(reason))] : []
  })
}

function usherRows(settings: UsherFile): Row[] {
  const { store, redis, features, keys, sign_in, branding, accounts } = settings
  // The shipped file has the defaults.
  const hasRedis = JSON.stringify(redis) !== JSON.stringify(REDIS_DEFAULTS)
  const isLocal = store.startsWith('sqlite:')
  const isOff = sign_in.second_factor === 'off'
  const isOptional = sign_in.second_factor === 'optional' && !sign_in.second_factor_required_for
  const isImported = keys.import !== undefined || keys.module !== undefined
  const hasNoPassword = sign_in.methods?.includes(PASSWORD) === false
  const ownKeys = 'the keys of keys.import or keys.module are not rotated here'
  return [
    [isLocal && hasRedis, 'redis', 'the store is SQLite: `store`, or USHER_STORE'],
    [isImported, 'keys.rotate_every', ownKeys],
    [!features.mtls, 'client_certificates', 'features.mtls is off'],
    [!features.ciba, 'security.ciba_requests', 'features.ciba is off'],
    [isOff, 'sign_in.second_factor_grace', 'sign_in.second_factor is off'],
    [isOptional, 'sign_in.second_factor_grace', 'no second factor is required of anyone'],
    [!hasPasskeys(sign_in), 'sign_in.former_hosts', 'sign_in.methods has no passkey'],
    [branding.logo_dark && !branding.logo, 'branding.logo_dark', 'there is no branding.logo'],
    [hasNoPassword, 'branding.links.forgot_password', 'sign_in.methods has no password'],
    [accounts.module, 'mail', 'accounts.module keeps the accounts, and their passwords'],
  ]
}

const CODE = 'authorization_code'
const NO_CODE = `grant_types has no ${CODE}`
/** Keys of a certificate that tls_client_auth compares. */
const CERTIFICATE = /^tls_client_auth_/
const CODE_KEYS = ['redirect_uris', 'response_types', 'response_modes'] as const

function clientRows(file: ValidFile<ClientFile>, settings: UsherFile, tags: string[]): Row[] {
  const { value, written } = file
  const { grant_types, backchannel_logout_uri, subject_type } = value
  const hasCode = grant_types.includes(CODE)
  const names = Object.keys(written)
  const certificates = names.filter(name => CERTIFICATE.test(name))
  const isIssued = value.token_endpoint_auth_method === 'tls_client_auth'
  const pings = value.backchannel_token_delivery_mode === 'ping'
  const signsOut = settings.features.rp_initiated_logout
  return [
    ...CODE_KEYS.map(key => [!hasCode, key, NO_CODE] as const),
    [!signsOut, 'post_logout_redirect_uris', 'features.rp_initiated_logout is off'],
    [
      !backchannel_logout_uri,
      'backchannel_logout_session_required',
      'there is no backchannel_logout_uri',
    ],
    [subject_type === 'public', 'sector_identifier_uri', 'subject_type is public'],
    [
      !pings,
      'backchannel_client_notification_endpoint',
      'backchannel_token_delivery_mode is not ping',
    ],
    ...certificates.map(
      key => [!isIssued, key, 'token_endpoint_auth_method is not tls_client_auth'] as const,
    ),
    ...names.map(key => {
      const [, tag = ''] = key.split('#')
      const isSpoken = !tag || tags.some(known => isPartOf(known, tag) || isPartOf(tag, known))
      return [
        !isSpoken,
        key,
        `no page is in ${tag}: locales/${tag}.yaml adds the language`,
      ] as const
    }),
  ]
}

/** `de` is a part of `de-CH` (RFC 4647 §3.4). */
const isPartOf = (tag: string, longer: string) =>
  `${longer.toLowerCase()}-`.startsWith(`${tag.toLowerCase()}-`)

function resourceRows({ token_format }: ResourceFile): Row[] {
  return [[token_format === 'opaque', 'token_signing_alg', 'token_format is opaque']]
}

function detailRows({ features }: UsherFile): Row[] {
  const reason = 'features.rich_authorization_requests is off'
  return [[!features.rich_authorization_requests, 'type', reason]]
}

function upstreamRows({ file, value }: ValidFile<UpstreamFile>, { sign_in }: UsherFile): Row[] {
  const name = basename(file, '.yaml')
  const isNamed = sign_in.methods?.includes(name) ?? true
  const reason = `sign_in.methods does not name ${name}, and assertions is false`
  return [[!isNamed && !value.assertions, 'issuer', reason]]
}

/** A file of texts without a text. */
function emptyFile({ isEmpty, at }: ValidFile<object>): Finding[] {
  return isEmpty ? [at([], 'no-effect', noEffect('the file is empty'))] : []
}

/** Templates of pages that need a setting: whether it is on, and its name. */
const PAGES: Record<string, [isShown: (settings: UsherFile) => unknown, needed: string]> = {
  device: [({ features }) => features.device_flow, 'features.device_flow'],
  'device-done': [({ features }) => features.device_flow, 'features.device_flow'],
  requests: [({ features }) => features.ciba, 'features.ciba'],
  forgot: [({ mail }) => mail, '`mail`'],
  mail: [({ mail }) => mail, '`mail`'],
  'sign-up': [({ sign_up }) => sign_up, '`sign_up`'],
  'passkey-button': [({ sign_in }) => hasPasskeys(sign_in), 'passkey in sign_in.methods'],
}

/** A template of a page that is never shown. */
function idlePage(file: string, settings: UsherFile, folder: string): Finding[] {
  const row = PAGES[basename(file, '.eta')]
  if (!row) return []
  const [isShown, needed] = row
  if (isShown(settings)) return []
  const message = noEffect(`its page needs a setting that is off: ${needed}`)
  return [{ file: join(folder, 'pages', file), rule: 'no-effect', message }]
}
