// Warnings about files and keys that are valid and have no effect. Each row
// says why. Keys that need a feature are errors of their own
// (client-features.ts, usher.ts).

import { basename, join } from 'node:path'
import { isMethodUsed, PASSWORD } from '../../oidc/vocabulary.ts'
import { REDIS_DEFAULTS } from '../../store/redis/settings.ts'
import type { ValidFile } from '../files.ts'
import type { Finding } from '../report/finding.ts'
import { noEffect } from '../report/wording.ts'
import { type ClientFile, clientSchema } from '../schema/client.ts'
import type { DetailFile } from '../schema/details.ts'
import { shippedTags } from '../schema/locale.ts'
import type { ResourceFile } from '../schema/resource.ts'
import { hasPasskeys, type UpstreamFile } from '../schema/upstream.ts'
import type { UsherFile } from '../schema/usher.ts'
import type { KeyOf } from './rule.ts'

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

/** A key that can be without effect. `Context`: what else the row looks at. */
interface IdleKey<Value, Context> {
  at: KeyOf<Value>
  /** Whether the key has no effect. */
  when(value: Value, context: Context): unknown
  because: string
}

/** Returns the warnings about all files. */
export function noEffectFindings(files: Files, folder: string): Finding[] {
  const { usher, clients, apis, details, upstreams, words, pages } = files
  const settings = usher.value
  const tags = [
    ...shippedTags,
    ...words.map(({ file }) => basename(file, '.yaml')),
  ]
  return [
    ...idleKeys(USHER, usher, undefined),
    ...clients.flatMap(file => idleKeys(CLIENT, file, settings)),
    ...clients.flatMap(file => unspokenLanguages(file, tags)),
    ...apis.flatMap(file => idleKeys(RESOURCE, file, undefined)),
    ...details.flatMap(file => idleKeys(DETAIL, file, settings)),
    ...upstreams.flatMap(file => idleUpstream(file, settings)),
    ...words.flatMap(file => emptyFile(file)),
    ...Object.keys(pages).flatMap(name => idlePage(name, settings, folder)),
  ]
}

function idleKeys<Value, Context>(
  rows: IdleKey<Value, Context>[],
  file: ValidFile<Value>,
  context: Context,
): Finding[] {
  const idle = rows.filter(({ when }) => when(file.value, context))
  return idle.flatMap(({ at, because }) => idleKey(file, at, because))
}

/**
 * Returns the warning about a key, if it is written in this file. A key of
 * `defaults` is for other clients.
 */
function idleKey(
  file: ValidFile<unknown>,
  key: string,
  because: string,
): Finding[] {
  const path = key.split('.')
  const isWritten = file.origin(path)?.startsWith(`${file.file}:`)
  return isWritten ? [file.at(path, 'no-effect', noEffect(because))] : []
}

const USHER: IdleKey<UsherFile, undefined>[] = [
  {
    at: 'redis',
    // The shipped file has the defaults.
    when: ({ store, redis }) =>
      store.startsWith('sqlite:') &&
      JSON.stringify(redis) !== JSON.stringify(REDIS_DEFAULTS),
    because: 'the store is SQLite: `store`, or USHER_STORE',
  },
  {
    at: 'keys.rotate_every',
    when: ({ keys }) => keys.import !== undefined || keys.module !== undefined,
    because: 'the keys of keys.import or keys.module are not rotated here',
  },
  {
    at: 'client_certificates',
    when: ({ features }) => !features.mtls,
    because: 'features.mtls is off',
  },
  {
    at: 'security.ciba_requests',
    when: ({ features }) => !features.ciba,
    because: 'features.ciba is off',
  },
  {
    at: 'sign_in.second_factor_grace',
    when: ({ sign_in }) => sign_in.second_factor === 'off',
    because: 'sign_in.second_factor is off',
  },
  {
    at: 'sign_in.second_factor_grace',
    when: ({ sign_in }) =>
      sign_in.second_factor === 'optional' &&
      !sign_in.second_factor_required_for,
    because: 'no second factor is required of anyone',
  },
  {
    at: 'sign_in.former_hosts',
    when: ({ sign_in }) => !hasPasskeys(sign_in),
    because: 'sign_in.methods has no passkey',
  },
  {
    at: 'branding.logo_dark',
    when: ({ branding }) => branding.logo_dark && !branding.logo,
    because: 'there is no branding.logo',
  },
  {
    at: 'branding.links.forgot_password',
    when: ({ sign_in }) => !isMethodUsed(sign_in, PASSWORD),
    because: 'sign_in.methods has no password',
  },
  {
    at: 'mail',
    when: ({ accounts }) => accounts.module,
    because: 'accounts.module keeps the accounts, and their passwords',
  },
]

/** Keys that only the authorization code grant uses. */
const OF_CODE = ['redirect_uris', 'response_types', 'response_modes'] as const
/** Keys of a certificate that tls_client_auth compares. */
const OF_CERTIFICATE = clientSchema
  .keyof()
  .options.filter(key => key.startsWith('tls_client_auth_'))

const CLIENT: IdleKey<ClientFile, UsherFile>[] = [
  ...OF_CODE.map(at => ({
    at,
    when: ({ grant_types }: ClientFile) =>
      !grant_types.includes('authorization_code'),
    because: 'grant_types has no authorization_code',
  })),
  {
    at: 'post_logout_redirect_uris',
    when: (_, { features }) => !features.rp_initiated_logout,
    because: 'features.rp_initiated_logout is off',
  },
  {
    at: 'backchannel_logout_session_required',
    when: ({ backchannel_logout_uri }) => !backchannel_logout_uri,
    because: 'there is no backchannel_logout_uri',
  },
  {
    at: 'sector_identifier_uri',
    when: ({ subject_type }) => subject_type === 'public',
    because: 'subject_type is public',
  },
  {
    at: 'backchannel_client_notification_endpoint',
    when: ({ backchannel_token_delivery_mode }) =>
      backchannel_token_delivery_mode !== 'ping',
    because: 'backchannel_token_delivery_mode is not ping',
  },
  ...OF_CERTIFICATE.map(at => ({
    at,
    when: (client: ClientFile) =>
      client.token_endpoint_auth_method !== 'tls_client_auth',
    because: 'token_endpoint_auth_method is not tls_client_auth',
  })),
]

/**
 * Returns the warnings about texts in languages that no page has:
 * `client_name#de`.
 */
function unspokenLanguages(
  file: ValidFile<ClientFile>,
  tags: string[],
): Finding[] {
  return Object.keys(file.written).flatMap(key => {
    const [, tag] = key.split('#')
    const isSpoken =
      !tag || tags.some(known => isPartOf(known, tag) || isPartOf(tag, known))
    if (isSpoken) return []
    return idleKey(
      file,
      key,
      `no page is in ${tag}: locales/${tag}.yaml adds the language`,
    )
  })
}

/** `de` is a part of `de-CH` (RFC 4647 §3.4). */
const isPartOf = (tag: string, longer: string) =>
  `${longer.toLowerCase()}-`.startsWith(`${tag.toLowerCase()}-`)

const RESOURCE: IdleKey<ResourceFile, undefined>[] = [
  {
    at: 'token_signing_alg',
    when: ({ token_format }) => token_format === 'opaque',
    because: 'token_format is opaque',
  },
]

const DETAIL: IdleKey<Pick<DetailFile, 'type'>, UsherFile>[] = [
  {
    at: 'type',
    when: (_, { features }) => !features.rich_authorization_requests,
    because: 'features.rich_authorization_requests is off',
  },
]

/**
 * An issuer at which no user can sign in, and whose assertions are not
 * accepted.
 */
function idleUpstream(
  file: ValidFile<UpstreamFile>,
  { sign_in }: UsherFile,
): Finding[] {
  const name = basename(file.file, '.yaml')
  const isNamed = isMethodUsed(sign_in, name)
  if (isNamed || file.value.assertions) return []
  const because = `sign_in.methods does not name ${name}, and assertions is false`
  return idleKey(file, 'issuer', because)
}

/** A file of texts without a text. */
function emptyFile({ isEmpty, at }: ValidFile<object>): Finding[] {
  return isEmpty ? [at([], 'no-effect', noEffect('the file is empty'))] : []
}

/** Templates of pages that need a setting. */
const PAGES: {
  pages: string[]
  isShown: (settings: UsherFile) => unknown
  needs: string
}[] = [
  {
    pages: ['device', 'device-done'],
    isShown: ({ features }) => features.device_flow,
    needs: 'features.device_flow',
  },
  {
    pages: ['requests'],
    isShown: ({ features }) => features.ciba,
    needs: 'features.ciba',
  },
  {
    pages: ['forgot', 'mail'],
    isShown: settings => settings.mail,
    needs: '`mail`',
  },
  {
    pages: ['sign-up'],
    isShown: settings => settings.sign_up,
    needs: '`sign_up`',
  },
  {
    pages: ['passkey-button'],
    isShown: ({ sign_in }) => hasPasskeys(sign_in),
    needs: 'passkey in sign_in.methods',
  },
]

/** A template of a page that is never shown. */
function idlePage(
  file: string,
  settings: UsherFile,
  folder: string,
): Finding[] {
  const row = PAGES.find(({ pages }) => pages.includes(basename(file, '.eta')))
  if (!row || row.isShown(settings)) return []
  const message = noEffect(`its page needs a setting that is off: ${row.needs}`)
  return [{ file: join(folder, 'pages', file), rule: 'no-effect', message }]
}
