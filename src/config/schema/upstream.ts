// Schema of upstreams/NAME.yaml: an OpenID Connect issuer at which users sign in.

import { z } from 'zod'
import { matching, path, scopeName, wordsByLanguage } from './values.ts'

/** The name of the method of sign-in that is not an upstream. */
export const PASSWORD = 'password'

const FIELD = 'an upstream claim becomes username, name, email or attributes.NAME'
const field = matching(/^(username|name|email|attributes\.\S+)$/, FIELD)
const issuer = z
  .url({ protocol: /^https?$/, error: 'is an https URL, as the iss of its ID tokens' })
  .refine(url => !/[?#]/.test(url), 'an issuer has neither query nor fragment')
const domain = matching(/^[a-z\d-]+(\.[a-z\d-]+)+$/i, 'is a domain: example.org').toLowerCase()
const claimName = z.string().min(1)

// biome-ignore format: a table
/** Schema of an upstream file. */
export const upstreamSchema = z.strictObject({
  issuer: issuer.describe('The issuer, byte for byte as the iss of its ID tokens. Its discovery document is read from it. A host that is not public must be in egress.allow of usher.yaml'),
  client_id: z.string().min(1).describe('The client_id of Usher at this issuer'),
  client_secret_file: path.optional().describe('A file that contains the client secret; the path is relative to the config folder'),
  private_key_file: path.optional().describe('A file that contains a private key, PEM or JWK, for private_key_jwt instead of a secret'),
  scopes: z.array(scopeName).default(['openid', 'profile', 'email']).describe('The scopes that are requested'),
  label: wordsByLanguage(60).describe('The text of the button on the sign-in page: Sign in with Example'),
  branding: z
    .strictObject({ logo: path.optional().describe('An SVG or PNG of at most 256 KiB, shown on the button') })
    .prefault({})
    .describe('How the button looks'),
  accounts: z.enum(['create', 'link']).default('link').describe('create: the first sign-in of a user adds an account. link: only users whose account is linked to this issuer can sign in: under Sign-in methods on the account page, or by usher accounts link'),
  link_by_verified_email: z.boolean().default(false).describe('Whether the first sign-in links an account that has the same verified e-mail address. A person who controls an address at this issuer can then sign in to the account that has it'),
  allow: z.strictObject({
    email_domains: z.array(domain).min(1).optional().describe('Users whose verified e-mail address is in one of these domains'),
    claims: z.record(claimName, z.string().describe('The value of this claim')).default({}).describe('Users whose ID token has each of these claims with this value, or with a list that contains it: { hd: example.org }'),
  }).prefault({}).describe('Which users may sign in; absent: every user of the issuer'),
  claims: z.record(field, claimName.describe('The claim for this field')).default({ username: 'preferred_username', name: 'name', email: 'email' }).describe('The claim of the ID token for each field of the account: username, name, email or attributes.NAME. Every sign-in updates the fields, except username'),
  acr: z.record(z.string().min(1), z.string().min(1).describe('Our acr for this acr of the issuer')).default({}).describe('The acr of this provider for an acr of the issuer. Clients request ours in acr_values, and the issuer gets its own'),
  sign_out: z.enum(['none', 'offer', 'return']).default('offer').describe('Whether users who sign out can sign out at the issuer, too, if it has an end_session_endpoint. offer: the browser then stays at the issuer. return: it comes back, for which https://…/sign-in/NAME/signed-out must be registered there as a post-logout redirect URI'),
  domains: z.array(domain).default([]).describe('A login_hint in one of these domains goes to this issuer without the sign-in page'),
})

// biome-ignore format: a table
/** Schema of `sign_in` in usher.yaml. */
export const signInSchema = z.strictObject({
  by: z.array(z.enum(['username', 'email'])).default(['username']).refine(by => by.includes('username'), 'usernames cannot be left out').describe('What users can enter on the sign-in page. email: also the verified e-mail address of an account, if no other account has it verified, and if it is not a username'),
  methods: z.array(z.string()).min(1).optional().describe('The methods of sign-in: password, and names of files in upstreams/. Absent: password and every upstream'),
})

/** An upstream file with defaults. */
export type UpstreamFile = z.output<typeof upstreamSchema>

/** An upstream with its name, and the contents of the file with its credentials. */
export interface Upstream extends UpstreamFile {
  name: string
  clientSecret?: string
  /** PKCS #8, PEM. */
  secretKey?: string
}
