// The pages of backchannel authentication requests in every state.

import type { PageData } from '../../src/pages/page-data.ts'
import type { Words } from '../../src/pages/words.ts'
import { LONG, state } from './sample.ts'

const MESSAGE = 'W4SCT'
const now = () => Date.now() / 1000
const times = ({ ago, ahead }: Words) => ({ since: ago(now() - 120), until: ahead(now() + 780) })

/** The data of the consent page of such a request. */
export const requestAsks = (words: Words) => ({
  host: undefined,
  request: { message: MESSAGE, ...times(words) },
})

/** `account`: the account page without a request. */
export function requestStates(account: (words: Words) => PageData['account']) {
  const list = (words: Words, done?: string): PageData['requests'] => {
    const wiki = { name: 'Wiki', message: MESSAGE, ...times(words), answer: '#' }
    const other = { ...wiki, name: LONG, message: LONG.repeat(2).slice(0, 100) }
    const bare = { ...wiki, message: undefined }
    return { requests: done ? [] : [wiki, other, bare], done }
  }
  return [
    ...[1, 2].map(count =>
      state(`account-waiting-${count}`, 'account', words => ({
        ...account(words),
        requests: words.plural('account.waiting', count),
      })),
    ),
    state('requests', 'requests', words => list(words)),
    ...['allowed', 'denied', 'gone', 'withdrawn'].map(key =>
      state(`requests-${key}`, 'requests', words =>
        list(words, words.t(`requests.${key}`, { client: 'Wiki' })),
      ),
    ),
  ]
}
