// Clients whose client_id is the URL of a document about them (OAuth Client ID
// Metadata Document, a draft). The library fetches it through
// operation/egress.ts, 5 KiB in 2.5 s without redirects, and caches it. The
// metadata rules are those of registered clients.

import { AsyncLocalStorage } from 'node:async_hooks'
import { type Client, errors, type KoaContextWithOIDC } from 'oidc-provider'
import type { PageFeature } from '../../account/page-feature.ts'
import type { Settings } from '../../config/load.ts'
import type { ClientMetadata } from '../../config/schema/client.ts'
import { BOUNDS } from '../../oidc/bounds.ts'
import type { Fetch } from '../../oidc/dependencies.ts'
import type { LibraryFeatures } from '../../oidc/feature.ts'
import { addOfflineAccess } from '../../oidc/requests.ts'
import { networkOf } from '../../operation/client-info.ts'
import type { Environment } from '../../operation/environment.ts'
import { createQuotas } from '../../operation/limits.ts'
import { faultOf } from '../../operation/logger.ts'
import { outageIn, PeerUnavailable } from '../../store/reasons.ts'
import { mapOf, readJson, required } from '../../store/values.ts'
import { invalidMetadata, readMetadata, usableMetadata } from './metadata.ts'

const MAX_DOCUMENT_BYTES = BOUNDS.documents.max
const CACHE_SECONDS = { min: 60, max: 3600 }

/** Returns the feature client ID metadata documents. */
export function clientDocuments({
  settings,
  log,
}: Pick<Environment, 'settings' | 'log'>): PageFeature {
  const set = settings.features.client_id_metadata_documents
  const { hosts, refresh_tokens } = set || {}
  // By network, and by network and host: no network can keep others from new
  // documents.
  const ofNetwork = createQuotas(BOUNDS.documentsOfNetwork)
  const atHost = createQuotas(BOUNDS.documentsAtHost)
  /**
   * The IP address of a page's request, in which the library has no context.
   */
  const pageAddress = new AsyncLocalStorage<string>()
  const clientIdMetadataDocument: LibraryFeatures['clientIdMetadataDocument'] =
    {
      enabled: Boolean(set),
      ack: 'draft-02',
      cacheDuration: CACHE_SECONDS,
      allowFetch(ctx: KoaContextWithOIDC | undefined, id) {
        const { host, hostname } = new URL(id)
        if (isTooLong(id, hostname)) throw new errors.InvalidClient(TOO_LONG)
        if (hosts?.includes(host) === false) return false
        // After an error the library looks for the client once more.
        if (ctx?.state.isDocumentFetched) return false
        if (ctx) ctx.state.isDocumentFetched = true
        const network = networkOf(ctx?.ip ?? pageAddress.getStore() ?? '')
        const networkAtHost = `${network} ${host}`
        // Both are looked at before one is counted: a request that is refused
        // adds no key.
        if (ofNetwork.hasRoom(network) && atHost.hasRoom(networkAtHost)) {
          ofNetwork.take(network)
          atHost.take(networkAtHost)
          return true
        }
        const error = new errors.TemporarilyUnavailable(
          'too many unknown applications are asked for',
        )
        throw Object.assign(error, { status: 503, statusCode: 503 })
      },
      allowClient: (_ctx, client) => Boolean(metadataOf(client, settings)),
    }
  return {
    settings: {
      clientIdMetadataDocument,
      rpMetadataChoices: { enabled: Boolean(set) },
    },
    register(provider) {
      // With `hosts`, the operator vouches for the documents.
      if (set && !hosts) provider.on('authorization.error', keepFromStranger)
    },
    prepareRequest({ oidc }) {
      const isDocument = oidc.client?.clientIdMetadataDocument
      if (isDocument && refresh_tokens === 'always') addOfflineAccess(oidc)
    },
    async describeClient({ Client }, id, { ip }) {
      if (!id.startsWith('https://')) return undefined
      try {
        return metadataOf(
          required(await pageAddress.run(ip, () => Client.find(id))),
          settings,
        )
      } catch (error) {
        const outage = outageIn(error)
        if (outage && !(outage instanceof PeerUnavailable)) throw outage
        log.warn(
          { client_id: id, fault: faultOf(error) },
          'no metadata document of a client',
        )
        // Without its document, the client has no name but its id.
        return outage && ({ client_id: id, client_name: id } as ClientMetadata)
      }
    },
  }
}

/**
 * Shows an error to the user, in place of its redirect to a client that any
 * stranger can publish, before a user has answered a page of the request.
 * Otherwise a wrong request would make a link to the provider lead anywhere
 * (RFC 9700 §4.11.2). A frame, whose page would not be shown, gets the error: it
 * cannot be taken for the provider.
 */
function keepFromStranger(ctx: KoaContextWithOIDC, error: object): void {
  const { client, route } = ctx.oidc
  const isFramed = !['', 'document'].includes(ctx.get('Sec-Fetch-Dest'))
  const isUnanswered = route === 'authorization' && !isFramed
  if (!client?.clientIdMetadataDocument || !isUnanswered) return
  // The library shows errors that have no redirect.
  Object.assign(error, { allow_redirect: false })
  ctx.status = 400
}

/** The address of a document, as text of a stranger that is kept in memory. */
const isTooLong = (id: string, hostname: string) =>
  Buffer.byteLength(id) > BOUNDS.documentAddresses.max ||
  hostname.length > BOUNDS.documentHosts.max
const TOO_LONG = `client_id is longer than ${BOUNDS.documentAddresses.max} bytes, or its host than ${BOUNDS.documentHosts.max} characters`

/**
 * Returns a `fetch` that completes metadata documents. Other answers stay as
 * they are.
 */
export function completeDocuments(settings: Settings, send: Fetch): Fetch {
  return async (input, options) => {
    const response = await send(input, options)
    return response.status === 200
      ? complete(response, String(input), settings)
      : response
  }
}

/**
 * Completes a metadata document before the library makes a client of it, which
 * has other defaults. A document names its own address.
 */
async function complete(
  response: Response,
  address: string,
  settings: Settings,
): Promise<Response> {
  const text = await response.clone().text()
  const document = mapOf(readJson(text))
  if (document.client_id !== address) return response
  // The library would only say that the stream of the response is locked.
  if (Buffer.byteLength(text) > MAX_DOCUMENT_BYTES)
    throw new Error('too large: over 5 KiB')
  // A document has no secret. A client that names no method is a public client.
  const { token_endpoint_auth_method = 'none', ...given } = usableMetadata(
    document,
    settings,
  )
  const completed = { ...given, token_endpoint_auth_method }
  return new Response(JSON.stringify(completed), { headers: response.headers })
}

function metadataOf(client: Client, settings: Settings): ClientMetadata {
  const sent = Object.entries(client.metadata()).filter(
    ([, value]) => value !== undefined,
  )
  const metadata = readMetadata(
    Object.fromEntries(sent),
    client.clientId,
    settings,
  )
  // A document changes without notice; the sector of its client must not.
  const { host } = new URL(client.clientId)
  if (
    metadata.subject_type === 'pairwise' &&
    client.sectorIdentifier !== host
  ) {
    throw invalidMetadata(
      'redirect_uris of a pairwise client have the host of its client_id',
    )
  }
  return metadata
}
