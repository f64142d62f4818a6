// The metadata that a client may register itself with (RFC 7591 §2), or publish in a client ID metadata
// document: part of what a client file may have, validated by the same schema and rules.

import { errors } from 'oidc-provider'
import type { Settings } from '../config/load.ts'
import type { Locate } from '../config/report/finding.ts'
import { plainWords } from '../config/report/wording.ts'
import { clientFindings } from '../config/rules/client.ts'
import type { ClientMetadata } from '../config/schema/client.ts'
import { registrationSchema, withDefaults } from '../config/schema/registration.ts'

const MAX_METADATA_BYTES = 16 * 1024
const MAX_NAME_LENGTH = 80

const OPERATORS = 'is for the operator of this provider to say'
/** Refused, because a client that asks for it relies on it. Any other unknown key is left out. */
const REFUSED: Record<string, string> = {
  client_secret_hashes: OPERATORS,
  consent: OPERATORS,
  profile: OPERATORS,
  require_pkce: OPERATORS,
  backchannel_logout_uri: 'is not for clients that register themselves',
  sector_identifier_uri: 'is not fetched: the redirect_uris of a pairwise client have one host',
  software_statement: 'is not read: send the metadata themselves',
}

const refuse = (message: string) => new errors.InvalidClientMetadata(message)

/** Returns the metadata of a client that registers itself; throws `InvalidClientMetadata` (RFC 7591 §3.2.2). */
export function readMetadata(
  sent: Record<string, unknown>,
  client_id: string,
  settings: Settings,
): ClientMetadata {
  const given = Object.fromEntries(Object.entries(sent).filter(([, value]) => value !== null))
  const refused = Object.keys(REFUSED).find(key => Object.hasOwn(given, key))
  if (refused) throw refuse(`${refused} ${REFUSED[refused]}`)
  const written = { client_name: nameFrom(given.redirect_uris), ...given, client_id }
  const { data, error } = registrationSchema.safeParse(written, { error: plainWords })
  const [issue] = error?.issues ?? []
  if (!data) throw refuse(`${issue?.path.join('.')} ${issue?.message}`)
  const metadata = withDefaults(data)

  const scopes = scopesOf(settings)
  const unknown = metadata.scope?.split(' ').some(name => !scopes.includes(name))
  if (unknown) throw refuse(`scope is of ${scopes.join(' ')}`)
  const at: Locate = (path, rule, message) => ({ file: '', key: path.join('.'), rule, message })
  const findings = clientFindings({ file: '', value: metadata, written, at }, settings)
  // The library makes the secret.
  const finding = findings.find(({ rule }) => rule !== 'secret-missing')
  if (finding) throw refuse(`${finding.key} ${finding.message}`)
  if (isTaken(metadata.client_name, settings)) {
    throw refuse('client_name is the name of this provider or of another application')
  }
  if (JSON.stringify(metadata).length > MAX_METADATA_BYTES) {
    throw refuse(`the metadata are longer than ${MAX_METADATA_BYTES} bytes`)
  }
  return metadata
}

/** Every scope that a client may have. */
export const scopesOf = ({ scopes, resources }: Settings) =>
  [scopes, ...Object.values(resources).map(api => api.scopes)].flatMap(Object.keys)

/** Whether users would take it for the provider, or for a client of the config folder. */
function isTaken(name: string, { clients, branding }: Settings): boolean {
  const names = clients.flatMap(client =>
    Object.entries(client).flatMap(([key, value]) =>
      /^client_name(#|$)/.test(key) ? [String(value)] : [],
    ),
  )
  return [branding.name, ...names].some(taken => lettersOf(taken) === lettersOf(name))
}

/** A name without case, accents, spaces and punctuation, for comparing what a reader sees. */
function lettersOf(name: string): string {
  const plain = name.normalize('NFKD').toLowerCase()
  return plain.replace(/[^\p{L}\p{N}]/gu, '') || plain
}

/** A client without a name has that of its host. */
function nameFrom(redirectUris: unknown): string {
  const [first] = Array.isArray(redirectUris) ? redirectUris : []
  const { host, protocol } = (typeof first === 'string' && URL.parse(first)) || {}
  return (host || protocol?.slice(0, -1) || 'Application').slice(0, MAX_NAME_LENGTH)
}
