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
import { allowFormAnywhere, securityHeaders } from './http/security-headers.ts'
import { loadSigningKeys } from './keys/signing-keys.ts'
import { checkClients } from './oidc/clients.ts'
import { authorizeByPost, canonicalPaths, finishAnswers } from './oidc/endpoints.ts'
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

  const errorPages = createErrorPages(views, issuer, clients)
  const signOut = createSignOut(views)
  const app = createProvider({
    settings,
    secrets,
    records,
    directory,
    consents,
    keys,
    pages: {
      error: errorPages.show,
      signOut: signOut.ask,
      signedOut: signOut.done,
      formPost(ctx, redirectUri, fields) {
        allowFormAnywhere(ctx)
        views.handOver(ctx, redirectUri, fields)
      },
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

  const pages = new Router({ sensitive: true, strict: true })
    .get('/', ctx => ctx.redirect('/account'))
    .get('/interaction/:uid', interaction.show)
    .post('/interaction/:uid', interaction.submit)
    .get('/account', account.home)
    .get('/account/applications', account.applications)
    .post('/account/applications', account.removeApplication)
    .get('/account/signed-in', account.signedIn)
    .get('/errors', errorPages.explain)

  for (const { path, send } of Object.values(views.assets)) pages.get(path, send)

  app.use(securityHeaders({ https: issuer.startsWith('https:') }))
  app.use(health(readiness))
  app.use(requestLog(log))
  app.use(errors({ log, page: errorPages.show, errorUri: errorPages.errorUri }))
  app.use(edge(settings))
  app.use(limits)
  app.use(pages.routes())
  app.use(canonicalPaths)
  app.use(authorizeByPost)
  app.use(finishAnswers(views))
  return app
}
