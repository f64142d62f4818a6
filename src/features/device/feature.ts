// The device flow (RFC 8628): its pages, its codes, and the client info of the device.

import type { Settings } from '../../config/load.ts'
import { DEVICE_GRANT } from '../../config/schema/client.ts'
import { note } from '../../http/audit.ts'
import { clientInfoOf } from '../../http/client-info.ts'
import type { PageFeature } from '../../pages/routes.ts'
import type { Views } from '../../pages/views.ts'
import type { ShowError } from '../../provider/configuration.ts'
import type { Finisher } from '../../provider/feature.ts'
import { INTERVAL_SECONDS, slowDownPending } from '../../provider/polling.ts'
import type { Adapter } from '../../state/adapter.ts'
import { taggedId } from '../../state/grants.ts'
import type { Records } from '../../storage/records.ts'
import { StoreUnavailable } from '../../storage/store.ts'
import { createDevicePages, guardDevicePage } from './page.ts'

interface Surroundings {
  settings: Settings
  records: Records
  views: Views
  showError: ShowError
}

/** Returns the device flow, with its page for the user code. */
export function deviceFlow({ settings, records, views, showError }: Surroundings): PageFeature {
  const { device_flow: enabled } = settings.features
  const pages = createDevicePages(views)
  return {
    settings: {
      deviceFlow: {
        enabled,
        deviceInfo: ctx => ({ ...clientInfoOf(ctx) }),
        userCodeInputSource(ctx, _form, out, thrown) {
          const { session } = ctx.oidc
          if (session?.accountId && pages.enter(ctx, thrown)) return
          // The error changed a new session without a user, which cannot be saved.
          if (session && !session.accountId) Object.assign(session, { touched: false })
          if (out && thrown) return showError(ctx, out, thrown)
        },
        // Our form confirms at once, because the consent page asks. For other forms, our form is shown.
        userCodeConfirmSource: ctx => void pages.enter(ctx),
        successSource(ctx) {
          const { clientId, accountId, deviceInfo } = ctx.oidc.entities.DeviceCode ?? {}
          const about = { client_id: clientId, account: accountId, network: deviceInfo?.network }
          note(ctx, 'device_connected', about)
          pages.end(ctx, 'done')
        },
      },
    },
    adapters: { DeviceCode: deviceCodeAdapter(records) },
    grantHandlers: { [DEVICE_GRANT]: handler => slowDownPending(records, handler) },
    answers: { device_authorization: finish },
    guard: ({ access }) =>
      enabled ? guardDevicePage(access, views, records) : (_ctx, next) => next(),
  }
}

// The library leaves `interval` out, and gives the user the host name of a client's mTLS request.
const finish: Finisher = (ctx, oidc) => {
  if (ctx.status !== 200) return
  const body = ctx.body as Record<string, string>
  const forPeople = ['verification_uri', 'verification_uri_complete'].map(name => {
    const { pathname, search } = new URL(body[name] ?? '', oidc?.issuer)
    return [name, `${oidc?.issuer}${pathname}${search}`]
  })
  ctx.body = { ...body, interval: INTERVAL_SECONDS, ...Object.fromEntries(forPeople) }
}

interface DeviceCode {
  userCode?: unknown
  /** A user has entered the code. */
  inFlight?: unknown
  /** The session of that user. */
  sessionUid?: unknown
  accountId?: unknown
  error?: unknown
  [key: string]: unknown
}

/** The members of `Protocol` in state/adapter.ts that device codes need. */
interface Protocol {
  request(): { session?: { uid: string } } | undefined
  alreadyUsed(model: string): Error
}

/**
 * Returns the methods for device codes; the plain adapter has the others. The session that enters the user
 * code holds it: no other session can allow or deny it, and the first decision is final. The library reads
 * a code and writes it later, so that the store decides.
 */
export function deviceCodeAdapter(records: Records) {
  return ({ find }: Pick<Adapter, 'find'>, { request, alreadyUsed }: Protocol) => {
    const ownUid = () => request()?.session?.uid
    const isHeld = ({ inFlight, sessionUid }: DeviceCode) => inFlight && sessionUid !== ownUid()

    return {
      async upsert(id: string, payload: DeviceCode, ttl?: number) {
        const { userCode, inFlight, error } = payload
        // Only the user decides: another error is none.
        if (error && error !== 'access_denied') return
        if (typeof userCode === 'string') await claimUserCode(records, userCode, id, ttl)
        const isSaved = await records.update<DeviceCode>(
          'DeviceCode',
          taggedId(id),
          ({ value, version }) => {
            const isOver = value ? value.accountId || value.error || isHeld(value) : version > 0
            return isOver
              ? undefined
              : { ...payload, ...(inFlight === true && { sessionUid: ownUid() }) }
          },
          { ttl },
        )
        if (!isSaved) throw alreadyUsed('DeviceCode')
      },

      // The session that holds it may enter it again: a tab was closed, or a page expired.
      async findByUserCode(userCode: string) {
        const { value } = await records.read<{ id: string }>('UserCode', userCode)
        const found = value && (await find(value.id))
        return found && { ...found, inFlight: isHeld(found) }
      },
    }
  }
}

/** A user code leads to one device code. A device that gets the code of another asks again. */
async function claimUserCode(records: Records, userCode: string, id: string, ttl?: number) {
  const claim = (value?: { id: string }) => (value && value.id !== id ? undefined : { id })
  const isClaimed = await records.update<{ id: string }>(
    'UserCode',
    userCode,
    ({ value }) => claim(value),
    { ttl },
  )
  if (!isClaimed) throw new StoreUnavailable('this user code is in use')
}
