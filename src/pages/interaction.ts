// The detours of an authorization request through our pages. Each prompt has a page; this file
// finds the one that is due, and lets nothing through that was not asked by the page itself.

import type { Context } from 'koa'
import type { Decision } from '../accounts/consents.ts'
import { type Form, readForm } from '../http/forms.ts'
import { memberOf } from '../provider/feature.ts'
import { PLACES } from './page-data.ts'
import type { Parts } from './parts.ts'
import type { People } from './people.ts'

/** What a person is told of the device that asks. */
export interface Device {
  /** The one they entered, as the device shows it. */
  code: string
  /** In CIDR notation. */
  network: string
}

/** A pending detour, as the protocol's side knows it; nothing in it comes from the browser. */
export interface Interaction {
  uid: string
  prompt: { name: string; details: Record<string, unknown> }
  clientId: string
  /** Absent for a device, which waits elsewhere. */
  redirectUri?: string
  device?: Device
  loginHint?: string
  /** Language tags, the preferred first. */
  uiLocales?: string
  /** Who is signed in in this browser. */
  accountId?: string
  /** They have just said that they want to use another account. */
  another: boolean
  /** The person has just allowed it, and removed it again before that counted. */
  withdrawn: boolean
}

/** What a page found out; `error` sends the person back to the application with it. */
interface Outcome {
  /** `ts`: when they signed in; it stays that, however many pages follow. */
  login?: { accountId: string; amr: string[]; ts: number }
  /** `accountId`: whose decision it is. */
  consent?: { decision: Decision; accountId?: string }
  select_account?: { another: boolean }
  error?: string
  error_description?: string
}

export interface Interactions {
  /** Throws 400 when it is over, expired, or belongs to another browser or person. */
  read(ctx: Context): Promise<Interaction>
  /** Where to send the person next. */
  finish(ctx: Context, outcome: Outcome): Promise<string>
}

export interface PromptPage {
  /** Name of the prompt it answers. */
  prompt: string
  show(ctx: Context, interaction: Interaction): Promise<void>
  /** Undefined when it answered with a page of its own, to be tried again. */
  submit(ctx: Context, interaction: Interaction, form: Form): Promise<Outcome | undefined>
}

export function createInteractionPages(
  { views, csrf }: Parts,
  { isSignedIn }: People,
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

export const csrfSubject = ({ uid }: Interaction) => `interaction ${uid}`
