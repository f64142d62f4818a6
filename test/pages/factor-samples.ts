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

const passkey = JSON.stringify({ challenge: 'AAAA', rpId: 'preview.example' })

function list(words: Words, changes: Partial<PageData['factors']> = {}): PageData['factors'] {
  const created = words.date(TIME)
  const factors = [
    { id: 'a', type: 'totp' as const, name: words.t('factors.totp'), created },
    {
      id: 'b',
      type: 'totp' as const,
      name: 'My phone',
      created,
      used: { ...created, where: 'Firefox, Android' },
    },
  ]
  const title = words.t('factors.title')
  const left = words.plural('factors.left', 8)
  return { title, factors, hasApps: true, isLast: false, left, ...changes }
}

function passkeys(words: Words, changes: Partial<PageData['factors']> = {}): PageData['factors'] {
  const created = words.date(TIME)
  const factors = [
    {
      id: 'p',
      type: 'passkey' as const,
      name: words.t('factors.passkey'),
      created,
      used: { ...created, where: 'Chrome, Windows' },
    },
    ...list(words).factors.slice(1),
  ]
  const title = words.t('factors.title_passkeys')
  return list(words, { title, factors, passkeys: '{}', ...changes })
}

export const factorStates = [
  state('factors', 'factors', words => list(words)),
  state('factors-none', 'factors', words => list(words, { factors: [] })),
  state('factors-removed', 'factors', words =>
    list(words, {
      outcome: words.t('factors.removed'),
      left: words.plural('factors.left', 1),
      elsewhere: { text: words.plural('account.elsewhere', 1), end: '/account/sessions/end' },
    }),
  ),
  state('factors-last', 'factors', words =>
    list(words, { isLast: true, factors: list(words).factors.slice(1) }),
  ),
  state('factors-passkeys', 'factors', words => passkeys(words)),
  state('factors-passkeys-none', 'factors', words =>
    passkeys(words, { factors: [], hasApps: false, title: words.t('factors.passkeys') }),
  ),
  state('factor-app', 'new-factor', () => ({ app })),
  state('factor-app-wrong', 'new-factor', ({ t }) => ({ app, problem: t('factors.wrong') })),
  state('factor-app-clock', 'new-factor', ({ t }) => ({ app, problem: t('factors.clock') })),
  state('factor-passkey', 'new-factor', () => ({ passkey })),
  state('factor-passkey-failed', 'new-factor', ({ t }) => ({
    passkey,
    problem: t('factors.passkey_not_added'),
  })),
  state('add-factor', 'add-factor', () => ({ app })),
  state('add-factor-later', 'add-factor', words => ({
    app,
    later: words.t('factors.later_until', { date: words.date(TIME).words }),
  })),
  state('add-factor-passkey', 'add-factor', () => ({ passkey })),
  state('add-factor-both', 'add-factor', () => ({ app, passkey })),
  state('second-factor', 'second-factor', () => ({ hasApp: true, hasRecovery: true })),
  state('second-factor-wrong', 'second-factor', ({ t }) => ({
    hasApp: true,
    hasRecovery: true,
    problem: t('factors.wrong'),
    failed: '4kq2v9x0c7ah',
  })),
  state('second-factor-passkey', 'second-factor', () => ({
    passkey,
    hasApp: false,
    hasRecovery: true,
  })),
  state('second-factor-change', 'second-factor', ({ t }) => ({
    reason: t('factors.for_change_passkey'),
    passkey,
    hasApp: false,
    hasRecovery: true,
  })),
  state('second-factor-both', 'second-factor', () => ({
    passkey,
    hasApp: true,
    hasRecovery: true,
  })),
  state('second-factor-passkey-failed', 'second-factor', ({ t }) => ({
    passkey,
    hasApp: false,
    hasRecovery: false,
    problem: t('factors.passkey_failed'),
    failed: '4kq2v9x0c7ah',
  })),
  state('recovery-codes', 'recovery-codes', () => ({ codes })),
  state('recovery-codes-elsewhere', 'recovery-codes', ({ plural }) => ({
    codes,
    elsewhere: { text: plural('account.elsewhere', 2), end: '/account/sessions/end' },
  })),
  state('recovery-codes-account', 'recovery-codes', () => ({ codes, area })),
  state('factor-added', 'recovery-codes', () => ({ codes: [] })),
]
