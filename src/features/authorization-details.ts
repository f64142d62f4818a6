// Authorization details (RFC 9396): which a client may request and where, what the user allowed, and
// which of them a token carries. The user is asked each time (provider/grants.ts).

import { isDeepStrictEqual } from 'node:util'
import { type Client, errors, type KoaContextWithOIDC } from 'oidc-provider'
import type { Settings } from '../config/load.ts'
import { createValidator, type Detail } from '../config/schema/details.ts'
import { longParameter } from '../http/limits.ts'
import type { Feature } from '../provider/feature.ts'
import { decisionOf, sentDetails } from '../provider/grants.ts'

type Oidc = KoaContextWithOIDC['oidc']
/** The code or refresh token from which an access token is issued. */
interface Source {
  rar?: Detail[]
}

const MAX_DETAILS = 10
/** Endpoints of requests that a consent page follows, and the token endpoint, which adds nothing. */
const ROUTES = ['authorization', 'pushed_authorization_request', 'device_authorization', 'token']

/** See `createAuthorizationDetails`. */
export type AuthorizationDetails = ReturnType<typeof createAuthorizationDetails>

/** Returns the feature, and how resource indicators find the API of a detail. */
export function createAuthorizationDetails(settings: Settings) {
  const { details: types, features } = settings
  const validators = new Map(
    Object.entries(types).map(([type, file]) => [type, createValidator(file)]),
  )
  const resourceOf = ({ type }: Detail) => types[type]?.resource

  // A confidential client pushes them, so that no browser can change them.
  function validate({ oidc }: KoaContextWithOIDC, detail: Detail, client: Client): void {
    const { route, params, entities } = oidc
    if (!ROUTES.includes(route)) {
      throw new errors.InvalidRequest('authorization_details cannot be asked for here')
    }
    const isInFront = route === 'authorization' && !entities.PushedAuthorizationRequest
    if (isInFront && client.tokenEndpointAuthMethod !== 'none') {
      throw new errors.InvalidRequest('authorization_details have to be pushed by this client')
    }
    if (!mayUse(client, detail.type)) refuse(`${detail.type} is not for this client`)
    const problem = longParameter({ ...params })
    if (problem) refuse(problem)
    const sent = sentDetails(oidc)
    if (sent.length > MAX_DETAILS) refuse(`more than ${MAX_DETAILS} authorization details`)
    if (sent.filter(other => isDeepStrictEqual(other, detail)).length > 1) {
      refuse('the same authorization details twice')
    }
    const wrong = validators.get(detail.type)?.(detail)
    if (wrong) refuse(`${detail.type}: ${wrong}`)
    const resource = resourceOf(detail)
    const asked: unknown[] = [params?.resource ?? []].flat()
    if (asked.length && !asked.includes(resource)) {
      refuse(`${detail.type} is for ${resource}, and resource does not name that`)
    }
  }

  const feature: Feature = {
    settings: {
      richAuthorizationRequests: {
        enabled: features.rich_authorization_requests,
        types: Object.fromEntries(Object.keys(types).map(type => [type, { validate }])),
        authorizationDetailsForGrantSource: ({ oidc }) => decisionOf(oidc)?.details,
        // A token request gets all that were allowed, or asks for some (RFC 9396 §6).
        authorizationDetailsForAccessToken({ oidc }, { resourceServer }, source: Source = {}) {
          const { rar: granted = [] } = source
          const asked = sentDetails(oidc)
          if (asked.some(detail => !granted.some(other => isDeepStrictEqual(detail, other)))) {
            refuse('authorization_details must be of those that the user allowed')
          }
          const isFor = (detail: Detail) => resourceOf(detail) === resourceServer?.identifier()
          const wanted = asked.length ? asked : granted
          return wanted.filter(detail => isFor(detail) && mayUse(oidc.client, detail.type))
        },
        authorizationDetailsForIntrospection: (_ctx, { rar = [] }) =>
          rar.filter(detail => resourceOf(detail) !== undefined),
      },
    },
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

/** The file of a client in the config folder allows a type. Other clients have no `consent`, and no types. */
const mayUse = (client: Client | undefined, type: string) =>
  Boolean(client?.consent && client.authorizationDetailsTypes?.includes(type))

function refuse(description: string): never {
  throw new errors.InvalidAuthorizationDetails(description)
}
