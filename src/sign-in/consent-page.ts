// The consent page: the scopes and authorization details that a client
// requests, and the user's answer.

import type { Context } from 'koa'
import type { Settings } from '../config/load.ts'
import type { ClientMetadata } from '../config/schema/client.ts'
import { describedIn, PLACE, valuesIn } from '../config/schema/details.ts'
import { type Decision, type Detail, readKey } from '../oidc/consents.ts'
import type { Interaction } from '../oidc/interactions.ts'
import { lifetimesOf } from '../oidc/tokens.ts'
import { LOOPBACK_HOSTS } from '../oidc/vocabulary.ts'
import type { Form } from '../operation/forms.ts'
import type { DetailInWords, PageData } from '../pages/page-data.ts'
import type { Words } from '../pages/words.ts'
import type { Site } from './site.ts'

/**
 * Whether users cannot decline a scope: sign-in needs it, or `required_scopes`
 * of the client file has it.
 */
const isRequired = (key: string, required: string[] = []) =>
  key === 'openid' || required.includes(readKey(key).scope)
const DAY_SECONDS = 24 * 3600

/** A client has no redirect URIs while its document cannot be fetched. */
const signsOf = ({
  client_id,
  redirect_uris = [],
}: Partial<ClientMetadata>) => ({
  publisher: URL.parse(client_id ?? '')?.host,
  // Any program on the device can take its place.
  isLocal: redirect_uris.every(uri =>
    LOOPBACK_HOSTS.has(new URL(uri).hostname),
  ),
})

/** A request for consent, as the prompt has it. */
type Requested = Omit<Decision, 'declined'>
type About = Pick<PageData['consent'], 'host' | 'device' | 'request'> & {
  withdrawn?: boolean
}

/** Shows the consent page. `decisionIn` reads its form. */
export async function showConsent(
  { settings, views, consents }: Site,
  ctx: Context,
  { clientId, accountId = '' }: { clientId: string; accountId?: string },
  { scopes, details = [] }: Pick<Requested, 'scopes' | 'details'>,
  { withdrawn = false, ...about }: About,
) {
  const words = views.words(ctx)
  // Undefined for a client that was removed, and for the account pages, which
  // need no consent.
  const client =
    (await views.client(ctx, clientId)) ??
    ctx.throw(400, { error: 'interaction_gone' })
  const before = await consents.find(accountId, clientId)
  const { refresh_token } = lifetimesOf(settings.lifetimes, client)
  const days = words.number(Math.ceil(refresh_token / DAY_SECONDS))
  views.page(ctx, 'consent', {
    ...about,
    withdrawn,
    client,
    unchecked: client.isUnchecked ? signsOf(client) : undefined,
    scopes: scopes.map(name => {
      const { at, ...shown } = scopeWords(words, settings, name)
      return {
        ...shown,
        name,
        required: isRequired(name, client.required_scopes),
        checked: !before?.declined.includes(name),
        note:
          name === 'offline_access'
            ? words.t('consent.offline_note', { days })
            : at,
      }
    }),
    details: details.map(detail => detailWords(words, settings, detail)),
    lifetime: scopes.includes('offline_access')
      ? undefined
      : lifetimeOf(words, client, days),
  })
}

const lifetimeOf = (
  { t }: Words,
  client: { refresh_tokens?: string },
  days: string,
) =>
  client.refresh_tokens === 'always'
    ? t('consent.lasting', { days })
    : t('consent.lifetime')

/**
 * Returns undefined if the user denied. The form can only select from the
 * requested scopes. `required`: of the client.
 */
export function decisionIn(
  form: Form,
  { scopes, details, appearance, version }: Requested,
  required?: string[],
): Decision | undefined {
  if (form.value('decision') !== 'allow') return undefined
  const wanted = form.getAll('scope')
  const isAllowed = (scope: string) =>
    isRequired(scope, required) || wanted.includes(scope)
  const declined = scopes.filter(scope => !isAllowed(scope))
  return {
    scopes: scopes.filter(isAllowed),
    declined,
    details,
    appearance,
    version,
  }
}

/** Returns the page of the consent prompt. */
export function consentPage(site: Site) {
  return {
    show(ctx: Context, interaction: Interaction) {
      const { redirectUri, device, withdrawn } = interaction
      const host = redirectUri === undefined ? undefined : hostOf(redirectUri)
      return showConsent(site, ctx, interaction, requestOf(interaction), {
        host,
        device,
        withdrawn,
      })
    },

    async submit(ctx: Context, interaction: Interaction, form: Form) {
      const { accountId, clientId } = interaction
      const client = site.views.configuredClient(ctx, clientId)
      const decision = decisionIn(
        form,
        requestOf(interaction),
        client?.required_scopes,
      )
      return decision
        ? { consent: { decision, accountId } }
        : { error: 'access_denied' }
    },
  }
}

/** Returns what oidc/policy.ts stored with the prompt. */
const requestOf = ({ prompt }: Interaction) => prompt.details as Requested

/**
 * Returns the host of a redirect URI, or the scheme of a native application.
 */
export function hostOf(redirectUri: string): string {
  const { host, protocol } = new URL(redirectUri)
  return host || protocol.slice(0, -1)
}

/**
 * Icons of icon.eta for the scopes of OpenID Connect; others get the shield.
 */
export const SCOPE_ICONS: Record<string, string> = {
  openid: 'key',
  profile: 'person',
  email: 'mail',
  phone: 'phone',
  address: 'pin',
  offline_access: 'clock',
}

/**
 * Returns text and icon of a scope, by its key in a consent. `at`: the API of
 * the scope, if any.
 */
export function scopeWords(
  languages: Words,
  {
    scopes,
    claims,
    resources,
  }: Pick<Settings, 'scopes' | 'claims' | 'resources'>,
  key: string,
): { words: string; icon: string; at?: string } {
  const { t, list } = languages
  const { scope: name, resource } = readKey(key)
  if (resource !== undefined) {
    const file = resources[resource]
    const description = languages.textOf(file?.scopes[name]?.description)
    return {
      words: description || name,
      icon: 'unlock',
      at: file?.resource_name ?? resource,
    }
  }
  const given = Object.keys(claims).filter(
    claim => claims[claim]?.scope === name,
  )
  const text =
    languages.textOf(scopes[name]?.description) ||
    t(`scope.${name}`) ||
    t('scope.other', {
      claims: list(given.map(claim => claim.replaceAll('_', ' '))) || name,
    })
  return { words: text, icon: SCOPE_ICONS[name] ?? 'shield' }
}

/**
 * Describes a detail on the pages: the operator's sentence, and each value that
 * it leaves out with its label.
 */
export function detailWords(
  words: Words,
  { details, resources }: Pick<Settings, 'details' | 'resources'>,
  detail: Detail,
): DetailInWords {
  const { t, number, list } = words
  const file = details[detail.type]
  const values = new Map(valuesIn(detail))

  const label = (path: string) => words.textOf(file?.labels[path])

  function valueWords(path: string): string {
    const one = (value: unknown) => {
      if (typeof value === 'number') return number(value)
      if (typeof value === 'boolean')
        return t(value ? 'detail.yes' : 'detail.no')
      return label(`${path}.${value}`) || String(value)
    }
    return list([values.get(path) ?? ''].flat().map(one))
  }

  function propertyName(path: string): string {
    const described =
      file && describedIn(file.schema).find(property => property.path === path)
    return label(path) || described?.title || path
  }

  // PLACE splits a sentence into texts and, between them, the names of
  // properties.
  const parts = (words.textOf(file?.description) || detail.type).split(PLACE)
  const isPlace = (_: string, i: number) => i % 2 === 1
  const said = parts.filter(isPlace)
  return {
    sentence: parts.map((part, i) =>
      isPlace(part, i)
        ? { text: valueWords(part), isValue: true }
        : { text: part, isValue: false },
    ),
    facts: [...values.keys()]
      .filter(path => !said.includes(path))
      .map(path => ({ label: propertyName(path), value: valueWords(path) })),
    at: resources[file?.resource ?? '']?.resource_name ?? '',
  }
}
