// A scope as people read it: the operator's words, ours, or the claims it gives.

import type { Settings } from '../config/settings.ts'
import type { Words } from './words.ts'

export function scopeWords(
  { t, list, pick }: Words,
  { scopes, claims }: Pick<Settings, 'scopes' | 'claims'>,
  name: string,
): string {
  const given = Object.keys(claims).filter(claim => claims[claim]?.scope === name)
  const { description = '' } = scopes[name] ?? {}
  return (
    (typeof description === 'string' ? description : pick(description) || description.en) ||
    t(`scope.${name}`) ||
    t('scope.other', { claims: list(given.map(claim => claim.replaceAll('_', ' '))) || name })
  )
}
