// Authorization details (RFC 9396), as the library asks about them: what a client may ask for, and where;
// what of it was allowed, and what of that is in a token. People are asked each time (policy.ts).

import { isDeepStrictEqual } from 'node:util'
import {
  type RichAuthorizationRequestsActiveConfiguration as Active,
  type Client,
  errors,
  type KoaContextWithOIDC,
} from 'oidc-provider'
import type { Decision } from '../../accounts/consents.ts'
import type { Settings } from '../../config/load.ts'
import { type Detail, detailProblem, MOST_DETAILS } from '../../config/schema/details.ts'
import { longParameter } from '../../http/limits.ts'

type Oidc = KoaContextWithOIDC['oidc']
type Feature = Active & Required<Pick<Active, 'authorizationDetailsForIntrospection'>>
/** What a token is made of: a code, a refresh token. */
interface Source {
  rar?: Detail[]
}

/** Where a person is asked next, on a page that shows them; and where nothing is added to that. */
const PLACES = ['authorization', 'pushed_authorization_request', 'device_authorization', 'token']

export type AuthorizationDetails = ReturnType<typeof createAuthorizationDetails>

export function createAuthorizationDetails({ details: types, features, clients }: Settings) {
  const allowed = new Map(
    clients.map(client => [client.client_id, client.authorization_details_types]),
  )
  // An operator's word in a file: what clients say of themselves elsewhere is not asked.
  const mayUse = (client: Client | undefined, type: string) =>
    allowed.get(client?.clientId ?? '')?.includes(type) ?? false

  const resourceOf = ({ type }: Detail) =>
    Object.hasOwn(types, type) ? types[type]?.resource : undefined

  /** Those a client of ours asks for are shown to the person as it sent them (OT5, ASVS 10.4.15). */
  function validate({ oidc }: KoaContextWithOIDC, detail: Detail, client: Client): void {
    const { route, params, entities } = oidc
    if (!PLACES.includes(route)) {
      throw new errors.InvalidRequest('authorization_details cannot be asked for here')
    }
    const isInFront = route === 'authorization' && !entities.PushedAuthorizationRequest
    if (isInFront && client.tokenEndpointAuthMethod !== 'none') {
      throw new errors.InvalidRequest('authorization_details have to be pushed by this client')
    }
    if (!mayUse(client, detail.type)) refuse(`${detail.type} is not for this client`)
    sentDetails(oidc)
    const file = types[detail.type]
    const problem = file && detailProblem(file, detail)
    if (problem) refuse(`${detail.type}: ${problem}`)
    const asked: unknown[] = [params?.resource ?? []].flat()
    if (asked.length && !asked.includes(file?.resource)) {
      refuse(`${detail.type} is for ${file?.resource}, and resource does not name that`)
    }
  }

  /** What is asked for at the token endpoint: all that was allowed, or some of it (RFC 9396 §6). */
  function wanted({ oidc }: KoaContextWithOIDC, source: Source | undefined): Detail[] {
    const granted = source?.rar ?? []
    const asked = sentDetails(oidc)
    if (asked.some(detail => !granted.some(other => isDeepStrictEqual(detail, other)))) {
      refuse('the authorization details were not allowed by anybody')
    }
    return asked.length ? asked : granted
  }

  const feature: Feature = {
    enabled: features.rich_authorization_requests,
    types: Object.fromEntries(Object.keys(types).map(type => [type, { validate }])),
    authorizationDetailsForGrantSource: ({ oidc }) => decisionOf(oidc)?.details,
    authorizationDetailsForAccessToken(ctx, { resourceServer }, source) {
      const { client } = ctx.oidc
      const isFor = (detail: Detail) => resourceOf(detail) === resourceServer?.identifier()
      return wanted(ctx, source).filter(detail => isFor(detail) && mayUse(client, detail.type))
    },
    authorizationDetailsForIntrospection: (_ctx, { rar = [] }) =>
      rar.filter(detail => resourceOf(detail) !== undefined),
  }

  return {
    feature,

    /** A client that asks for details names their API by that. */
    defaultResource({ oidc }: KoaContextWithOIDC, _client: Client, oneOf?: readonly string[]) {
      if (oneOf) return oneOf
      const [first, ...others] = new Set(
        sentDetails(oidc).flatMap(detail => resourceOf(detail) ?? []),
      )
      return first !== undefined && others.length ? [first, ...others] : first
    },

    /** Whether the token is for the API whose details were allowed, though that is not asked for. */
    isForApi: ({ oidc }: KoaContextWithOIDC, source: Source) =>
      Boolean(source.rar?.some(resourceOf)) && !oidc.params?.scope,

    checkRefresh: (ctx: KoaContextWithOIDC, source: Source) => void wanted(ctx, source),

    mayBeAskedFor: (resource: string, client: Client) =>
      Object.values(types).some(file => file.resource === resource && mayUse(client, file.type)),

    /** Whether details of the API are what the request is about. */
    areFor(resource: string, oidc: Oidc): boolean {
      const { RefreshToken, AuthorizationCode, DeviceCode } = oidc.entities
      const { rar = sentDetails(oidc) } = RefreshToken ?? AuthorizationCode ?? DeviceCode ?? {}
      return rar.some(detail => resourceOf(detail) === resource)
    },
  }
}

/** As the request has them; throws for what is none. */
export function sentDetails({ params }: Oidc): Detail[] {
  const text = params?.authorization_details
  if (text === undefined) return []
  const problem = longParameter({ authorization_details: text })
  if (problem) refuse(problem)
  const details = parse(String(text))
  if (!Array.isArray(details) || !details.every(isDetail)) {
    return refuse('authorization_details is a JSON array of objects, each with a type')
  }
  if (details.length > MOST_DETAILS) refuse(`more than ${MOST_DETAILS} authorization details`)
  const isAgain = (detail: Detail, i: number) =>
    details.slice(0, i).some(other => isDeepStrictEqual(detail, other))
  if (details.some(isAgain)) refuse('the same authorization details twice')
  return details
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const isDetail = (value: unknown): value is Detail => typeof Object(value).type === 'string'

/** What the person has just answered: whoever signs in after it has not. */
export function decisionOf({ result, session }: Oidc): Decision | undefined {
  const { decision, accountId } = Object(result?.consent)
  return accountId === session?.accountId ? decision : undefined
}

function refuse(description: string): never {
  throw new errors.InvalidAuthorizationDetails(description)
}
