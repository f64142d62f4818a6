// The type of an optional feature: its members for the wrapper, for the
// sign-in, and for the pages.
//
// The folder features/: a file or folder for each optional feature, a function
// that returns its members, undefined where it is off. `app.ts` lists all of them.
// Not here: what every installation needs. No feature imports `app.ts`, and no
// file below features/ imports a feature.

import type Router from '@koa/router'
import type { Context } from 'koa'
import type { ClientMetadata } from '../config/schema/client.ts'
import type {
  Feature,
  LibraryProvider,
  PromptSettings,
} from '../oidc/feature.ts'
import type { Notifier } from '../operation/events.ts'
import type { Area } from '../pages/page-data.ts'
import type { PromptPage } from '../sign-in/interaction-pages.ts'
import type { Site } from '../sign-in/site.ts'

/** The router of the pages. */
export type Pages = Router

/**
 * An optional feature. Every member is optional, too: a feature has the members
 * that it needs.
 */
export interface PageFeature extends Feature, Notifier {
  /**
   * Metadata of a client that is not in the config folder, for pages. Undefined
   * when it has none.
   */
  describeClient?(
    provider: LibraryProvider,
    id: string,
    ctx: Pick<Context, 'ip'>,
  ): Promise<ClientMetadata | undefined>

  /**
   * By name. The page of a step before the session answers with `answerAfter`
   * (sign-in/flow.ts).
   */
  prompts?: Record<string, PromptSettings & { page(site: Site): PromptPage }>
  /** Entries of the account navigation. A sign-in may return to their pages. */
  areas?: Area[]
  /** Adds pages to the router. */
  addPages?(pages: Pages, site: Site): void
}
