// A scope as people read it: the operator's words, ours, or the claims it gives.

import { readKey } from '../accounts/consents.ts'
import type { Settings } from '../config/load.ts'
import type { Words } from './words.ts'

type Description = string | Record<string, string>

/** An operator's text in the language of these words, or in English; empty when there is neither. */
export const inWords = ({ pick }: Pick<Words, 'pick'>, text: Description = '') =>
  typeof text === 'string' ? text : pick(text) || text.en || ''

/** Icons of icon.eta for the scopes of OpenID Connect; others get the shield. */
export const SCOPE_ICONS: Record<string, string> = {
  openid: 'key',
  profile: 'person',
  email: 'mail',
  phone: 'phone',
  address: 'pin',
  offline_access: 'clock',
}

/** Words and icon of a scope as a consent names it; `at` is the API it belongs to, if any. */
export function scopeWords(
  languages: Words,
  { scopes, claims, resources }: Pick<Settings, 'scopes' | 'claims' | 'resources'>,
  key: string,
): { words: string; icon: string; at?: string } {
  const { t, list } = languages
  const { scope: name, resource } = readKey(key)
  if (resource !== undefined) {
    const file = resources[resource]
    const description = inWords(languages, file?.scopes[name]?.description)
    return { words: description || name, icon: 'unlock', at: file?.resource_name ?? resource }
  }
  const given = Object.keys(claims).filter(claim => claims[claim]?.scope === name)
  const text =
    inWords(languages, scopes[name]?.description) ||
    t(`scope.${name}`) ||
    t('scope.other', { claims: list(given.map(claim => claim.replaceAll('_', ' '))) || name })
  return { words: text, icon: SCOPE_ICONS[name] ?? 'shield' }
}
