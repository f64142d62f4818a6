// Consent: what an application asks for, in words, and the person's answer to it.

import type { Context } from 'koa'
import type { Detail } from '../config/detail-schema.ts'
import { detailWords } from './detail-words.ts'
import { csrfSubject, type Interaction, type Screen } from './interaction.ts'
import type { Parts } from './parts.ts'
import { scopeWords } from './scope-words.ts'
import type { Words } from './words.ts'

/** Without it there is no sign-in; everything else can be left out. */
const REQUIRED = 'openid'
const DAY = 24 * 3600

export function consentScreen(parts: Parts): Screen {
  const { settings, views, csrf, directory, consents } = parts
  async function show(ctx: Context, interaction: Interaction) {
    const words = views.words(ctx)
    const { t } = words
    const { scopes, details } = requestOf(interaction)
    const { accountId = '', clientId, withdrawn } = interaction
    // Taken out of the folder since, or the account pages, which ask for nothing.
    const client =
      (await views.client(ctx, clientId)) ?? ctx.throw(400, { error: 'interaction_gone' })
    const person = await directory.find(accountId)
    const before = await consents.find(accountId, clientId)
    views.page(ctx, 'consent', {
      csrf: csrf.token(csrfSubject(interaction)),
      client,
      host: interaction.redirectUri && hostOf(interaction.redirectUri),
      device: interaction.device,
      person: person?.username,
      scopes: scopes.map(name => {
        const { words: text, at } = scopeWords(words, settings, name)
        return {
          name,
          words: text,
          required: name === REQUIRED,
          checked: !before?.declined.includes(name),
          note: name === 'offline_access' ? offlineNote(words) : at,
        }
      }),
      details: details.map(detail => detailWords(words, settings, detail)),
      lifetime: scopes.includes('offline_access') ? undefined : t('consent.lifetime'),
      withdrawn,
    })
  }

  const offlineNote = ({ t, number }: Words) =>
    t('consent.offline_note', { days: number(Math.ceil(settings.lifetimes.refresh_token / DAY)) })

  return {
    prompt: 'consent',
    show,

    // What was asked is what the interaction remembers; the form only says which of it is wanted.
    async submit(_ctx, interaction, form) {
      const { scopes, details, version } = requestOf(interaction)
      if (form.value('decision') !== 'allow') return { error: 'access_denied' }

      const wanted = form.getAll('scope')
      const isAllowed = (scope: string) => scope === REQUIRED || wanted.includes(scope)
      const declined = scopes.filter(scope => !isAllowed(scope))
      const decision = { scopes: scopes.filter(isAllowed), declined, details, version }
      return { consent: { decision, accountId: interaction.accountId } }
    },
  }
}

interface Requested {
  scopes: string[]
  details: Detail[]
  version: number
}

function requestOf({ prompt }: Interaction): Requested {
  const { requestedScopes, requestedDetails: details = [], consentVersion } = prompt.details
  const isThere = Array.isArray(requestedScopes) && Array.isArray(details)
  if (!isThere || typeof consentVersion !== 'number') {
    throw new Error('the consent prompt says nothing of what is asked')
  }
  return { scopes: requestedScopes.map(String), details, version: consentVersion }
}

/** Where the answer goes, as people can read it: the host, or a native application's own scheme. */
export function hostOf(redirectUri: string): string {
  const { host, protocol } = new URL(redirectUri)
  return host || protocol.slice(0, -1)
}
