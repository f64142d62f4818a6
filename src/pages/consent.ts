// Consent: what an application asks for, in words, and the person's answer to it.

import type { Context } from 'koa'
import type { Decision } from '../accounts/consents.ts'
import type { Detail } from '../config/schema/details.ts'
import type { Form } from '../http/forms.ts'
import { csrfSubject, type Interaction, type PromptPage } from './interaction.ts'
import type { PageData } from './page-data.ts'
import type { Parts } from './parts.ts'
import { scopeWords } from './scope-words.ts'
import type { Words } from './words.ts'

/** Without it there is no sign-in; everything else can be left out. */
const REQUIRED = 'openid'
const DAY = 24 * 3600

/** Who asks whom for what. */
interface Asked {
  clientId: string
  accountId: string
  person?: string
  /** As a consent names them. */
  scopes: string[]
  details?: Detail[]
}
type About = Pick<PageData['consent'], 'csrf' | 'host' | 'device' | 'request' | 'withdrawn'>

/** Answers with the page that asks; for what `decisionIn` reads. */
export function createConsentPage({ settings, views, consents, detailWords }: Parts) {
  const offlineNote = ({ t, number }: Words) =>
    t('consent.offline_note', { days: number(Math.ceil(settings.lifetimes.refresh_token / DAY)) })

  return async (ctx: Context, asked: Asked, about: About) => {
    const words = views.words(ctx)
    const { clientId, accountId, person, scopes, details = [] } = asked
    // Taken out of the folder since, or the account pages, which ask for nothing.
    const client =
      (await views.client(ctx, clientId)) ?? ctx.throw(400, { error: 'interaction_gone' })
    const before = await consents.find(accountId, clientId)
    views.page(ctx, 'consent', {
      ...about,
      client,
      person,
      scopes: scopes.map(name => {
        const { words: text, icon, at } = scopeWords(words, settings, name)
        return {
          name,
          words: text,
          icon,
          required: name === REQUIRED,
          checked: !before?.declined.includes(name),
          note: name === 'offline_access' ? offlineNote(words) : at,
        }
      }),
      details: details.flatMap(detail => detailWords(words, detail)),
      lifetime: scopes.includes('offline_access') ? undefined : words.t('consent.lifetime'),
    })
  }
}

/** Undefined for no. What was asked is remembered here; the form only says which of it is wanted. */
export function decisionIn(
  form: Form,
  { scopes, details, appearance, version }: Omit<Requested, 'details'> & Partial<Requested>,
): Decision | undefined {
  if (form.value('decision') !== 'allow') return undefined
  const wanted = form.getAll('scope')
  const isAllowed = (scope: string) => scope === REQUIRED || wanted.includes(scope)
  const declined = scopes.filter(scope => !isAllowed(scope))
  return { scopes: scopes.filter(isAllowed), declined, details, appearance, version }
}

export function consentPage(parts: Parts): PromptPage {
  const { csrf, directory } = parts
  const ask = createConsentPage(parts)
  return {
    prompt: 'consent',

    async show(ctx, interaction) {
      const { accountId = '', clientId, redirectUri, device, withdrawn } = interaction
      const person = (await directory.find(accountId))?.username
      const { scopes, details } = requestOf(interaction)
      await ask(
        ctx,
        { clientId, accountId, person, scopes, details },
        {
          csrf: csrf.token(csrfSubject(interaction)),
          host: redirectUri && hostOf(redirectUri),
          device,
          withdrawn,
        },
      )
    },

    async submit(_ctx, interaction, form) {
      const decision = decisionIn(form, requestOf(interaction))
      const { accountId } = interaction
      return decision ? { consent: { decision, accountId } } : { error: 'access_denied' }
    },
  }
}

interface Requested {
  scopes: string[]
  details: Detail[]
  appearance?: string
  version: number
}

function requestOf({ prompt }: Interaction): Requested {
  const { requestedScopes, requestedDetails: details = [], consentVersion } = prompt.details
  const { appearance } = prompt.details
  const isThere = Array.isArray(requestedScopes) && Array.isArray(details)
  if (!isThere || typeof consentVersion !== 'number') {
    throw new Error('the consent prompt says nothing of what is asked')
  }
  return {
    scopes: requestedScopes.map(String),
    details,
    ...(typeof appearance === 'string' && { appearance }),
    version: consentVersion,
  }
}

/** Where the answer goes, as people can read it: the host, or a native application's own scheme. */
export function hostOf(redirectUri: string): string {
  const { host, protocol } = new URL(redirectUri)
  return host || protocol.slice(0, -1)
}
