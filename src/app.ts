// The whole service on one screen: what stands before a request, our pages, and the library.

import Router from '@koa/router'
import type { Logger } from 'pino'
import { createConsents } from './accounts/consents.ts'
import { createDirectory } from './accounts/directory.ts'
import type { Settings } from './config/settings.ts'
import { edge } from './http/edge.ts'
import { errors } from './http/errors.ts'
import { createCsrf } from './http/forms.ts'
import { health, type Readiness } from './http/health.ts'
import { limits } from './http/limits.ts'
import { requestLog } from './http/request-log.ts'
import { securityHeaders } from './http/security-headers.ts'
import { loadSigningKeys } from './keys/signing-keys.ts'
import { checkClients } from './oidc/clients.ts'
import {
  authorizeByPost,
  canonicalPaths,
  finishAnswers,
  LONGEST_REQUEST,
} from './oidc/endpoints.ts'
import { createInteractions, createSessionReader } from './oidc/interactions.ts'
import { ACCOUNT_CLIENT } from './oidc/policy.ts'
import { createProvider, ROUTES } from './oidc/provider.ts'
import { createAccountPages } from './pages/account.ts'
import { createConsent } from './pages/consent.ts'
import { createErrorPages } from './pages/error.ts'
import { createInteractionPages } from './pages/interaction.ts'
import { createSignIn } from './pages/sign-in.ts'
import { createSignOut } from './pages/sign-out.ts'
import { createViews } from './pages/views.ts'
import type { Records } from './store/records.ts'
import { deriveKey } from './store/seal.ts'

export interface Environment {
  settings: Settings
  secrets: Uint8Array[]
  records: Records
  log: Logger
  readiness: Readiness
}

/** Makes the service; throws a `ConfigError` for clients the library would refuse later. */
export async function createApp({ settings, secrets, records, log, readiness }: Environment) {
  const { issuer } = settings
  const directory = createDirectory(records)
  const consents = createConsents(records)
  const keys = await loadSigningKeys(records)
  const csrf = createCsrf(deriveKey(secrets[0] ?? new Uint8Array(), 'csrf'))
  const views = createViews(settings)
  const clients = new Map(settings.clients.map(client => [client.client_id, client]))

  const errorPages = createErrorPages(views, issuer)
  const signOut = createSignOut(views)
  const app = createProvider({
    settings,
    secrets,
    records,
    directory,
    consents,
    keys,
    pages: {
      error: (ctx, out) =>
        errorPages.show(ctx, out, clients.get(String(ctx.oidc.client?.clientId))),
      signOut: signOut.ask,
      signedOut: signOut.done,
    },
    log,
  })
  await checkClients(app, settings)

  const interaction = createInteractionPages({
    views,
    csrf,
    interactions: createInteractions(app),
    screens: [
      createSignIn({ views, csrf, directory, clients }),
      createConsent({ settings, views, csrf, directory, consents }),
    ],
  })
  const account = createAccountPages({
    settings,
    views,
    csrf,
    directory,
    consents,
    session: createSessionReader(app),
    clientId: ACCOUNT_CLIENT,
    paths: ROUTES,
  })

  const pages = new Router()
    .get('/', ctx => ctx.redirect('/account'))
    .get('/interaction/:uid', interaction.show)
    .post('/interaction/:uid', interaction.submit)
    .get('/account', account.home)
    .get('/account/applications', account.applications)
    .post('/account/applications', account.removeApplication)
    .get('/account/signed-in', account.signedIn)
    .get('/errors', errorPages.explain)
    .get(views.stylesheet.path, views.sendStylesheet)

  app.use(health(readiness))
  app.use(requestLog(log))
  app.use(securityHeaders({ https: issuer.startsWith('https:') }))
  app.use(errors({ log, page: errorPages.show, errorUri: errorPages.errorUri }))
  app.use(edge(settings))
  app.use(limits({ url: LONGEST_REQUEST, parameters: LONGEST_PARAMETERS }))
  app.use(pages.routes())
  app.use(canonicalPaths)
  app.use(authorizeByPost)
  app.use(finishAnswers(views))
  return app
}

/** Characters. */
const LONGEST_PARAMETERS = { state: 1024, nonce: 512, scope: 1024, claims: 2048 }
