// A state of a page with sample data.

import { type Area, type PageData, PLACES } from '../../src/pages/page-data.ts'
import { AREAS, areasInOrder, type Views } from '../../src/pages/views.ts'
import type { Words } from '../../src/pages/words.ts'

/** The signed-in user of all samples. */
export const USER = { username: 'ada', name: 'Ada Lovelace' }

/** The account navigation with the entries of every feature. */
const areas: Area[] = areasInOrder([
  ...AREAS,
  { path: PLACES.profile, icon: 'pen', label: t => t('profile.title') },
  { path: PLACES.requests, icon: 'bell', label: t => t('account.requests') },
])
const SHOWN = {
  user: USER,
  csrf: 'sample',
  signOut: '#',
  areas,
  waiting: 2,
}

export interface State {
  name: string
  template: keyof PageData
  render(views: Views, words: Words): string
}

/** `data`: what the template shows, or a function that returns it. */
export function state<T extends keyof PageData>(
  name: string,
  template: T,
  data: PageData[T] | ((words: Words) => PageData[T]),
): State {
  const dataIn = typeof data === 'function' ? data : () => data
  return {
    name,
    template,
    render: (views, words) => views.render(words, template, dataIn(words), SHOWN),
  }
}

/** The longest permitted name, without a position for a line break. */
export const LONG = 'Donaudampfschifffahrtsgesellschaftskapitänsmütze'.repeat(2).slice(0, 80)
