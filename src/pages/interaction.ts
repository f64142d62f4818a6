// Interactions: the pages of an authorization request. Each prompt has a page. This file finds the page of
// the current prompt, and accepts only forms that the page itself sent.

import type { Context } from 'koa'
import type { Decision } from '../accounts/consents.ts'
import { type Form, readForm } from '../http/forms.ts'
import { memberOf } from '../provider/feature.ts'
import type { AccountAccess } from './account-access.ts'
import { PLACES } from './page-data.ts'
import type { Parts } from './parts.ts'
import { setUser } from './views.ts'

/** The requesting device, as the user sees it. */
export interface Device {
  /** The user code that the user entered. */
  code: string
  /** In CIDR notation. */
  network: string
}

/** A pending interaction, from the provider. Nothing in it comes from the browser. */
export interface Interaction {
  uid: string
  prompt: { name: string; details: Record<string, unknown> }
  clientId: string
  /** Absent for a device, which polls the token endpoint. */
  redirectUri?: string
  device?: Device
  loginHint?: string
  /** Language tags, the preferred first. */
  uiLocales?: string
  /** The account that is signed in in this browser. */
  accountId?: string
  /** The user has just chosen to use another account. */
  another: boolean
  /** The user removed the client's access while the consent page was open. */
  withdrawn: boolean
}

/** The result of a page. `error` returns the user to the client with this error. */
interface Outcome {
  /** `ts`: epoch seconds of the sign-in, also if further pages follow. */
  login?: { accountId: string; amr: string[]; ts: number }
  /** `accountId`: the account that decided. */
  consent?: { decision: Decision; accountId?: string }
  select_account?: { another: boolean }
  error?: string
  error_description?: string
}

/** Interactions of the provider. */
export interface Interactions {
  /** Throws 400 if it is finished or expired, or belongs to another browser or account. */
  read(ctx: Context): Promise<Interaction>
  /** Returns the URL to which the browser goes next. */
  finish(ctx: Context, outcome: Outcome): Promise<string>
}

/** The page of a prompt. */
export interface PromptPage {
  /** Name of the prompt. */
  prompt: string
  show(ctx: Context, interaction: Interaction): Promise<void>
  /** Returns undefined if it answered with the page again. */
  submit(ctx: Context, interaction: Interaction, form: Form): Promise<Outcome | undefined>
}

/** Returns the handlers of the interaction URL. */
export function createInteractionPages(
  { views, csrf, directory }: Parts,
  { isSignedIn }: AccountAccess,
  interactions: Interactions,
  promptPages: PromptPage[],
) {
  const pageOf = (ctx: Context, { prompt }: Interaction) =>
    promptPages.find(page => page.prompt === prompt.name) ??
    ctx.throw(400, { error: 'interaction_gone' })

  async function read(ctx: Context): Promise<Interaction> {
    const interaction = await interactions.read(ctx)
    ctx.state.uiLocales = interaction.uiLocales
    ctx.state.clientId = interaction.clientId
    if (interaction.accountId) setUser(ctx, await directory.find(interaction.accountId))
    return interaction
  }

  /**
   * The Back button after a sign-in leads to an interaction that is finished. Redirects a browser with a
   * session to the home page of the client, or to the account. Throws `error` again without a session.
   */
  async function leadOn(ctx: Context, error: unknown): Promise<undefined> {
    if (memberOf(error, 'error') !== 'interaction_gone' || !(await isSignedIn(ctx))) throw error
    const client = views.ownClient(ctx, String(ctx.query.client_id))
    ctx.status = 303
    ctx.redirect(client?.client_uri ?? client?.initiate_login_uri ?? PLACES.home)
  }

  return {
    async show(ctx: Context) {
      const interaction = await read(ctx).catch(error => leadOn(ctx, error))
      if (interaction) await pageOf(ctx, interaction).show(ctx, interaction)
    },

    async submit(ctx: Context) {
      const form = await readForm(ctx)
      const interaction = await read(ctx)
      csrf.check(ctx, form, csrfSubject(interaction))
      const outcome = await pageOf(ctx, interaction).submit(ctx, interaction, form)
      if (outcome) views.navigate(ctx, await interactions.finish(ctx, outcome))
    },
  }
}

/** Returns the subject of the CSRF token of an interaction's forms. */
export const csrfSubject = ({ uid }: Interaction) => `interaction ${uid}`
