// One state of a page, with what stands on it.

import type { PageData } from '../../src/pages/page-data.ts'
import type { Views } from '../../src/pages/views.ts'
import type { Words } from '../../src/pages/words.ts'

/** The signed-in user of all samples. */
export const USER = { username: 'ada', name: 'Ada Lovelace' }

const SHOWN = { user: USER, csrf: 'sample', signOut: '#' }

export interface State {
  name: string
  template: keyof PageData
  render(views: Views, words: Words): string
}

export function state<T extends keyof PageData>(
  name: string,
  template: T,
  data: (words: Words) => PageData[T],
): State {
  return {
    name,
    template,
    render: (views, words) => views.render(words, template, data(words), SHOWN),
  }
}

/** As long as may be, without a place to break it. */
export const LONG = 'Donaudampfschifffahrtsgesellschaftskapitänsmütze'.repeat(2).slice(0, 80)
