// What the library tells of, as the log hears it.

import type { EventEmitter } from 'node:events'
import { type errors, type KoaContextWithOIDC, Provider } from 'oidc-provider'
import type { Logger } from 'pino'
import type { Metrics } from '../http/metrics.ts'
import { faultOf } from '../http/request-log.ts'

// Listeners must not throw, and what they are handed holds raw tokens: only names go on from here.
export function logEvents(provider: Provider, log: Logger) {
  const note = (ctx: KoaContextWithOIDC, thrown: Partial<errors.OIDCProviderError>) => {
    const { error, error_detail, error_description } = thrown
    Object.assign(ctx.state.log, { error, detail: error_detail ?? error_description })
  }
  const emitter: EventEmitter = provider
  for (const event of ERROR_EVENTS) emitter.on(event, note)
  emitter.on('server_error', (ctx: KoaContextWithOIDC, err: Error) => {
    log.error({ id: ctx.state.requestId, fault: faultOf(err) }, 'request failed')
  })
  emitter.on('error', (err: NodeJS.ErrnoException) => {
    const isCallers = /^(HPE_|ECONN|EPIPE)/.test(err.code ?? '')
    if (!isCallers) log.error({ fault: faultOf(err) }, 'request failed')
  })
}

/** Facts of security, once each whatever is repeated; the account is named for whoever has to act. */
export function refreshTokenEvents(log: Logger, metrics: Metrics) {
  const told = ({ clientId, accountId }: Record<string, unknown>) => ({
    id: Provider.ctx?.state.requestId,
    client_id: clientId,
    account: accountId,
  })
  return {
    onReuse(token: Record<string, unknown>) {
      metrics.refreshTokenAgain('reuse')
      log.warn({ event: 'refresh_reuse', ...told(token) }, 'a used refresh token came again')
    },
    onReplay(token: Record<string, unknown>) {
      metrics.refreshTokenAgain('replay')
      log.info({ event: 'refresh_replay', ...told(token) }, 'a refresh was answered again')
    },
  }
}

const ERROR_EVENTS = [
  'authorization.error',
  'end_session.error',
  'end_session_confirm.error',
  'grant.error',
  'introspection.error',
  'pushed_authorization_request.error',
  'revocation.error',
  'userinfo.error',
]
