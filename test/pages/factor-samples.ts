// The pages of second factors in every state.

import { describeSecret } from '../../src/features/factors/totp.ts'
import type { PageData } from '../../src/pages/page-data.ts'
import type { Words } from '../../src/pages/words.ts'
import { state } from './sample.ts'

/** A morning in spring. */
const TIME = 1_777_000_000
const area = '/account/factors'
const app = { nonce: 'sample', ...describeSecret(Buffer.alloc(20, 7), 'Usher', 'ada') }
const codes = Array.from({ length: 10 }, (_, i) => `kq4v-9x2c-7ah${'abcdefghjk'[i]}`)

function list(words: Words, changes: Partial<PageData['factors']> = {}): PageData['factors'] {
  const created = words.date(TIME)
  const factors = [
    { id: 'a', name: words.t('factors.totp'), created },
    { id: 'b', name: 'My phone', created, used: { ...created, where: 'Firefox, Android' } },
  ]
  return { factors, isLast: false, left: words.plural('factors.left', 8), ...changes }
}

export const factorStates = [
  state('factors', 'factors', words => list(words)),
  state('factors-none', 'factors', words => list(words, { factors: [] })),
  state('factors-removed', 'factors', words =>
    list(words, { outcome: words.t('factors.removed'), left: words.plural('factors.left', 1) }),
  ),
  state('factors-last', 'factors', words =>
    list(words, { isLast: true, factors: list(words).factors.slice(1) }),
  ),
  state('factor-app', 'factor-app', () => ({ app })),
  state('factor-app-wrong', 'factor-app', ({ t }) => ({ app, problem: t('factors.wrong') })),
  state('add-factor', 'add-factor', () => ({ app })),
  state('add-factor-later', 'add-factor', words => ({
    app,
    later: words.t('factors.later_until', { date: words.date(TIME).words }),
  })),
  state('second-factor', 'second-factor', () => ({ hasRecovery: true })),
  state('second-factor-wrong', 'second-factor', ({ t }) => ({
    hasRecovery: true,
    problem: t('factors.wrong'),
    failed: '4kq2v9x0c7ah',
  })),
  state('recovery-codes', 'recovery-codes', () => ({ codes })),
  state('recovery-codes-account', 'recovery-codes', () => ({ codes, area })),
  state('factor-added', 'recovery-codes', () => ({ codes: [] })),
]
