// Authorization details (RFC 9396): which a client may request and where, what
// the user allowed, and which of them a token carries. The user is asked each
// time (oidc/grants.ts).

import { isDeepStrictEqual } from 'node:util'
import {
  type Client,
  errors,
  interactionPolicy,
  type KoaContextWithOIDC,
} from 'oidc-provider'
import type { Settings } from '../config/load.ts'
import { plainWords } from '../config/report/wording.ts'
import {
  type DetailFile,
  propertiesOf,
  valuesIn,
} from '../config/schema/details.ts'
import { BOUNDS } from '../oidc/bounds.ts'
import type { Detail } from '../oidc/consents.ts'
import type { Oidc } from '../oidc/dependencies.ts'
import { displayTextProblem } from '../oidc/display-text.ts'
import type { Feature } from '../oidc/feature.ts'
import { decisionOf, sentDetails } from '../oidc/grants.ts'
import { longParameter } from '../oidc/requests.ts'

const MAX_DETAILS = BOUNDS.details.max
const MAX_TEXT_CHARS = 500

/**
 * Returns the feature. resources.ts finds the API of a request by its details.
 */
export function authorizationDetails({
  details: types,
  features,
}: Settings): Feature {
  const validations = Object.values(types).map(file => [
    file.type,
    { validate: validation(file) },
  ])
  return {
    settings: {
      richAuthorizationRequests: {
        enabled: features.rich_authorization_requests,
        types: Object.fromEntries(validations),
        authorizationDetailsForGrantSource: ({ oidc }) =>
          decisionOf(oidc)?.details,
        authorizationDetailsForAccessToken: (
          { oidc },
          { resourceServer },
          source,
        ) => {
          const api = resourceServer?.identifier()
          return detailsForToken(oidc, source?.rar ?? []).filter(
            ({ type }) =>
              types[type]?.resource === api && mayUse(oidc.client, type),
          )
        },
        authorizationDetailsForIntrospection: (_ctx, { rar = [] }) =>
          rar.filter(({ type }) => types[type]?.resource),
      },
    },
    checks: { consent: [undecided] },
  }
}

/**
 * Returns the details that a token request asks for, by default all that the
 * user allowed (RFC 9396 §6). Refuses others.
 */
function detailsForToken(oidc: Oidc, granted: Detail[]): Detail[] {
  const asked = sentDetails(oidc)
  const isGranted = (detail: Detail) =>
    granted.some(other => isDeepStrictEqual(detail, other))
  if (!asked.every(isGranted))
    refuse('authorization_details must be of those that the user allowed')
  return asked.length ? asked : granted
}

/**
 * Without a recorded decision: the access was removed while the page was open,
 * or another user answered.
 */
const undecided = new interactionPolicy.Check(
  'authorization_details',
  'the user has not allowed the authorization details',
  'consent_required',
  ({ oidc: { params, grant }, oidc }) =>
    Boolean(params?.authorization_details) && !(grant?.jti && decisionOf(oidc)),
)

/**
 * Returns the validation of a type: first what its client may send, and where,
 * then the detail itself.
 */
function validation(file: DetailFile) {
  const { type } = file
  const problemIn = createValidator(file)
  return (
    { oidc }: KoaContextWithOIDC,
    detail: Detail,
    client: Client,
  ): void => {
    refuseRoute(oidc, client)
    if (!mayUse(client, type)) refuse(`${type} is not for this client`)
    const longProblem = longParameter({ ...oidc.params })
    if (longProblem) refuse(longProblem)
    const sent = sentDetails(oidc)
    if (sent.length > MAX_DETAILS)
      refuse(`more than ${MAX_DETAILS} authorization details`)
    const problem = problemIn(detail)
    if (problem) refuse(`${type}: ${problem}`)
    if (sent.filter(other => isDeepStrictEqual(other, detail)).length > 1) {
      refuse('the same authorization details twice')
    }
    refuseResource(oidc, file)
  }
}

/** A confidential client pushes details, so that no browser can change them. */
function refuseRoute({ route, entities }: Oidc, client: Client): void {
  // The page of a backchannel request does not show details.
  if (route === 'backchannel_authentication') {
    throw new errors.InvalidRequest(
      'authorization_details cannot be asked for here',
    )
  }
  const isInFront =
    route === 'authorization' && !entities.PushedAuthorizationRequest
  if (isInFront && client.tokenEndpointAuthMethod !== 'none') {
    throw new errors.InvalidRequest(
      'authorization_details have to be pushed by this client',
    )
  }
}

/** A request that names APIs has to name that of the type. */
function refuseResource(
  { params }: Oidc,
  { type, resource }: DetailFile,
): void {
  const asked: unknown[] = [params?.resource ?? []].flat()
  if (asked.length && !asked.includes(resource)) {
    refuse(`${type} is for ${resource}, and resource does not name that`)
  }
}

/**
 * The file of a client in the config folder allows a type. Other clients have
 * no `consent`, and no types.
 */
export const mayUse = (client: Client | undefined, type: string) =>
  Boolean(client?.consent && client.authorizationDetailsTypes?.includes(type))

function refuse(description: string): never {
  throw new errors.InvalidAuthorizationDetails(description)
}

/**
 * Returns the function that says why a detail is not a valid one of this type,
 * or that nothing is wrong.
 */
export function createValidator(
  file: DetailFile,
): (detail: Detail) => string | undefined {
  const validator = propertiesOf(file)
  return detail => {
    const { type: _, ...properties } = detail
    const issue = validator.safeParse(properties, { error: plainWords }).error
      ?.issues[0]
    if (issue?.code === 'unrecognized_keys') {
      return `there is no property ${forErrorDescription([...issue.path, issue.keys[0]].join('.'))}`
    }
    if (issue?.code === 'invalid_format')
      return `${issue.path.join('.')} has another format`
    return issue
      ? `${issue.path.join('.')} ${issue.message}`
      : unreadableIn(detail)
  }
}

/**
 * Makes a name that the client chose fit for an error description (RFC 6749
 * §5.2).
 */
const forErrorDescription = (text: string) =>
  text.replace(/[^\x20-\x7E]|["\\]/g, '?').slice(0, 60)

/**
 * Says which value the page cannot show: the user allows what the page shows.
 * Undefined if it can show all.
 */
function unreadableIn(detail: Detail): string | undefined {
  for (const [path, value] of valuesIn(detail)) {
    const values = Array.isArray(value) && value.length ? value : [value]
    const problem = values.map(unreadable).find(Boolean)
    if (problem) return `${path} ${problem}`
  }
  return undefined
}

function unreadable(value: unknown): string | undefined {
  if (typeof value === 'string')
    return displayTextProblem(value, MAX_TEXT_CHARS)
  if (typeof value === 'object') return 'is empty'
  // Such numbers are written as 1e21 or 1e-7.
  return /\de/.test(String(value)) ? 'has too many digits' : undefined
}
