// Schema of upstreams/NAME.yaml: an OpenID Connect issuer at which users sign
// in.

import { z } from 'zod'
import {
  PASSKEY,
  PASSWORD_ACR,
  PHISHING_RESISTANT_ACR,
  TWO_FACTOR_ACR,
} from '../../oidc/vocabulary.ts'
import {
  matching,
  path,
  scopeName,
  section,
  VSCHARS,
  wordsByLanguage,
} from './values.ts'

const FIELD =
  'an upstream claim becomes username, name, email or attributes.NAME'
const field = matching(/^(username|name|email|attributes\.\S+)$/, FIELD)
const issuer = z
  .url({
    protocol: /^https?$/,
    error: 'is an https URL, as the iss of its ID tokens',
  })
  .refine(url => !/[?#]/.test(url), 'an issuer has neither query nor fragment')
/** The domain of e-mail addresses, in lower case. */
export const domain = matching(
  /^[a-z\d-]+(\.[a-z\d-]+)+$/i,
  'a domain: example.org',
).toLowerCase()
const acrValue = matching(
  /^[\x21-\x7E]+$/,
  'an acr value is visible ASCII characters',
)
const claimName = z.string().min(1)
const OIDC_CLAIMS = {
  username: 'preferred_username',
  name: 'name',
  email: 'email',
}

/** Schema of an upstream file. */
export const upstreamSchema = z.strictObject({
  issuer,
  client_id: matching(
    VSCHARS,
    'a client_id is visible ASCII characters (RFC 6749 A.1)',
  ),
  client_secret_file: path.optional(),
  private_key_file: path.optional(),
  scopes: z.array(scopeName).default(['openid', 'profile', 'email']),
  label: wordsByLanguage(60),
  branding: section({ logo: path.optional() }),
  accounts: z.enum(['create', 'link']).default('link'),
  link_by_verified_email: z.boolean().default(false),
  allow: section({
    email_domains: z.array(domain).min(1).optional(),
    claims: z.record(claimName, z.string()).default({}),
  }),
  claims: z.record(field, claimName).default(OIDC_CLAIMS),
  acr: z.record(acrValue, acrValue).default({}),
  sign_out: z.enum(['none', 'offer', 'return']).default('offer'),
  domains: z.array(domain).default([]),
  second_factor: z.enum(['ask', 'exempt']).default('ask'),
  assertions: z.boolean().default(false),
})

/** Whether users can add passkeys, and sign in with them. */
export const hasPasskeys = ({ methods }: { methods?: string[] }) =>
  methods?.includes(PASSKEY) ?? false

/** An upstream file with defaults. */
export type UpstreamFile = z.output<typeof upstreamSchema>

/**
 * An upstream with its name, and the contents of the file with its credentials.
 */
export interface Upstream extends UpstreamFile {
  name: string
  clientSecret?: string
  /** PKCS #8, PEM. */
  secretKey?: string
}

/**
 * For `acr_values_supported` in discovery: those of Usher's own sign-in, and
 * those of upstreams.
 */
export function acrValuesOf(
  upstreams: Record<string, Pick<UpstreamFile, 'acr'>>,
  sign_in: { methods?: string[]; second_factor: string },
): string[] {
  const passkeys = hasPasskeys(sign_in)
    ? [TWO_FACTOR_ACR, PHISHING_RESISTANT_ACR]
    : []
  const codes = sign_in.second_factor === 'off' ? [] : [TWO_FACTOR_ACR]
  const theirs = Object.values(upstreams).flatMap(({ acr }) =>
    Object.values(acr),
  )
  return [...new Set([PASSWORD_ACR, ...codes, ...passkeys, ...theirs])]
}
