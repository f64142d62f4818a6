// Clients whose client_id is the address of a document about them (OAuth Client ID Metadata Document, a
// draft). The library fetches it through http/egress.ts, 5 KiB in 2.5 s without redirects, and keeps it;
// such a client may be what one may be that registers itself.

import {
  type Client,
  type Configuration,
  errors,
  type KoaContextWithOIDC,
  type Provider,
} from 'oidc-provider'
import type { Settings } from '../config/load.ts'
import { judgeRegistration } from '../config/rules/registration.ts'
import type { ClientMetadata } from '../config/schema/client.ts'
import { createQuota } from '../http/quota.ts'

type ClientDocuments = NonNullable<
  NonNullable<Configuration['features']>['clientIdMetadataDocument']
>

/** A minute: whoever asks for what is not kept has us ask somebody else. */
const FETCHES = 120
/** Seconds that a document counts, whatever it came with. */
const KEPT = { min: 60, max: 3600 }

export function clientDocuments(settings: Settings): ClientDocuments {
  const hasRoom = createQuota(FETCHES, 60, () => {})
  return {
    enabled: settings.features.client_id_metadata_documents,
    ack: 'draft-02',
    cacheDuration: KEPT,
    allowFetch(ctx: KoaContextWithOIDC | undefined) {
      // An error has the library look for the client once more.
      if (ctx?.state.isDocumentFetched) return false
      if (ctx) ctx.state.isDocumentFetched = true
      if (!hasRoom()) throw busy()
      return true
    },
    allowClient(_ctx, client) {
      // Where it says nothing the library takes every mode there is.
      Object.assign(client, { responseModes: judge(client, settings).response_modes })
      return true
    },
  }
}

/** For pages; whoever cannot be reached, or is not what it may be, is nobody. */
export async function findByDocument(
  { Client }: Provider,
  settings: Settings,
  id: string,
): Promise<ClientMetadata | undefined> {
  if (!settings.features.client_id_metadata_documents || !id.startsWith('https://'))
    return undefined
  const client = await Client.find(id).catch(() => undefined)
  return client && judge(client, settings)
}

function judge(client: Client, settings: Settings): ClientMetadata {
  if (client.jwksUri) {
    throw new errors.InvalidClientMetadata('jwks_uri is not fetched: the keys stand in jwks')
  }
  const said = Object.entries(client.metadata()).filter(([, value]) => value !== undefined)
  const own = { client_id: client.clientId }
  const judgement = judgeRegistration(Object.fromEntries(said), own, settings)
  if ('refusal' in judgement) throw new errors.InvalidClientMetadata(judgement.refusal)
  return judgement.metadata
}

function busy() {
  const error = new errors.TemporarilyUnavailable('too many unknown applications are asked for')
  return Object.assign(error, { status: 503, statusCode: 503 })
}
