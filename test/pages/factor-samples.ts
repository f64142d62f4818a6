// The pages of second factors in every state.

import { describeSecret } from '../../src/features/factors/totp.ts'
import type { PageData } from '../../src/pages/page-data.ts'
import type { Words } from '../../src/pages/words.ts'
import { state } from './sample.ts'

/** A morning in spring. */
const TIME = 1_777_000_000
const app = { nonce: 'sample', ...describeSecret(Buffer.alloc(20, 7), 'Usher', 'ada') }
const codes = Array.from({ length: 10 }, (_, i) => `kq4v-9x2c-7ah${'abcdefghjk'[i]}`)

const passkey = JSON.stringify({ challenge: 'AAAA', rpId: 'preview.example' })
const addedApp = ({ t }: Words) => ({ type: 'totp' as const, id: 'a', name: t('factors.totp') })

type Security = PageData['security']
type Section = NonNullable<Security['factors']>

/** The factors of an account that has some of each kind. */
export function factorsSection(words: Words, changes: Partial<Section> = {}): Section {
  const { t, date } = words
  const created = t('factors.since', { date: date(TIME).words })
  const time = date(TIME).words
  const browser = t('sessions.browser', { browser: 'Chrome', system: 'Windows' })
  const apps = [
    { id: 'a', name: t('factors.totp'), created },
    { id: 'b', name: 'My phone', created, used: t('factors.used', { time }) },
  ]
  const used = t('factors.used_with', { time, browser })
  const passkeys = [
    { id: 'p', name: browser, created, used },
    { id: 'q', name: t('factors.passkey'), created },
  ]
  const left = words.plural('factors.left', 8)
  return { passkeys, apps, accepted: '{}', isLast: false, left, ...changes }
}

const verdictOf = ({ t }: Words, key: string) => ({
  text: t(`security.${key}`),
  isEnough: key !== 'no_factor',
})
const security = (words: Words, factors: Partial<Section>, more: Partial<Security> = {}) => ({
  verdict: verdictOf(
    words,
    factors.left === undefined && 'left' in factors ? 'no_factor' : 'enough',
  ),
  password: { changed: words.date(TIME) },
  factors: factorsSection(words, factors),
  ...more,
})
const none = { passkeys: [], apps: [], left: undefined }
const elsewhere = ({ plural }: Words, browsers = 1) => ({
  text: plural('account.elsewhere', browsers),
  end: '/account/sessions/end',
})

/** The page that asks before a factor is removed: one of several, or the last app. */
function removal(words: Words, type: 'passkey' | 'totp'): PageData['confirm'] {
  const { t } = words
  const isLast = type === 'totp'
  const names = words.list([t('factors.totp'), t('factors.passkey')])
  const remaining = [t('factors.remaining', { names }), words.plural('factors.left', 8)]
  return {
    title: t('factors.remove_title', { name: t(`factors.${type}`) }),
    effects: [t(`factors.remove_${type}`), ...(isLast ? [t('factors.remaining_none')] : remaining)],
    verdict: verdictOf(words, isLast ? 'no_factor' : 'enough'),
    confirm: t('sign_ins.remove'),
    back: '/account/security',
  }
}

export const factorStates = [
  state('security', 'security', words => security(words, {})),
  state('security-none', 'security', words => security(words, none)),
  state('security-added', 'security', words =>
    security(words, { apps: undefined }, { outcome: { text: words.t('factors.added') } }),
  ),
  state('security-removed', 'security', words => {
    const outcome = { text: words.t('factors.removed') }
    const left = words.plural('factors.left', 1)
    return security(words, { left }, { outcome, elsewhere: elsewhere(words) })
  }),
  ...(['renamed', 'unchanged'] as const).map(key =>
    state(`security-${key}`, 'security', words => {
      const outcome = { text: words.t(`factors.${key}`), isWrong: key === 'unchanged' }
      return security(words, { passkeys: undefined, accepted: undefined }, { outcome })
    }),
  ),
  state('security-last', 'security', words =>
    security(words, { isLast: true, apps: [], passkeys: factorsSection(words).passkeys?.slice(1) }),
  ),
  state('security-password', 'security', words => ({
    verdict: verdictOf(words, 'password_only'),
    password: {},
  })),
  state('security-outside', 'security', words => ({ verdict: verdictOf(words, 'elsewhere') })),
  state('remove-factor', 'confirm', words => removal(words, 'passkey')),
  state('remove-last-factor', 'confirm', words => removal(words, 'totp')),
  state('name-factor', 'name-factor', words => ({ ...addedApp(words), isAdded: false })),
  state('name-factor-added', 'name-factor', words => ({ ...addedApp(words), isAdded: true })),
  state('name-passkey-added', 'name-factor', ({ t }) => ({
    type: 'passkey',
    id: 'p',
    name: t('sessions.browser', { browser: 'Safari', system: 'iOS' }),
    isAdded: true,
  })),
  state('factor-app', 'new-factor', { app }),
  state('factor-app-wrong', 'new-factor', ({ t }) => ({ app, problem: t('factors.wrong') })),
  state('factor-app-clock', 'new-factor', ({ t }) => ({ app, problem: t('factors.clock') })),
  state('factor-passkey', 'new-factor', { passkey }),
  state('factor-passkey-failed', 'new-factor', ({ t }) => ({
    passkey,
    problem: t('factors.passkey_not_added'),
  })),
  state('add-factor', 'add-factor', { app }),
  state('add-factor-later', 'add-factor', words => ({
    app,
    later: words.t('factors.later_until', { date: words.date(TIME).words }),
  })),
  state('add-factor-passkey', 'add-factor', { passkey }),
  state('add-factor-both', 'add-factor', { app, passkey }),
  state('second-factor', 'second-factor', { hasApp: true, hasRecovery: true }),
  state('second-factor-wrong', 'second-factor', ({ t }) => ({
    hasApp: true,
    hasRecovery: true,
    problem: t('factors.wrong'),
    failed: '4kq2v9x0c7ah',
  })),
  state('second-factor-passkey', 'second-factor', { passkey, hasApp: false, hasRecovery: true }),
  state('second-factor-change', 'second-factor', ({ t }) => ({
    reason: t('factors.for_change_passkey'),
    passkey,
    hasApp: false,
    hasRecovery: true,
  })),
  state('second-factor-both', 'second-factor', { passkey, hasApp: true, hasRecovery: true }),
  state('second-factor-passkey-failed', 'second-factor', ({ t }) => ({
    passkey,
    hasApp: false,
    hasRecovery: false,
    problem: t('factors.passkey_failed'),
    failed: '4kq2v9x0c7ah',
  })),
  state('recovery-codes', 'recovery-codes', words => ({
    codes,
    added: addedApp(words),
    isSignIn: true,
  })),
  state('recovery-codes-elsewhere', 'recovery-codes', words => ({
    codes,
    added: { ...addedApp(words), type: 'passkey' },
    isSignIn: true,
    elsewhere: elsewhere(words),
  })),
  state('recovery-codes-account', 'recovery-codes', words => ({
    codes,
    added: addedApp(words),
    isSignIn: false,
  })),
  state('recovery-codes-renewed', 'recovery-codes', words => ({
    codes,
    isSignIn: false,
    elsewhere: elsewhere(words, 2),
  })),
  state('factor-added', 'recovery-codes', words => ({
    codes: [],
    added: addedApp(words),
    isSignIn: true,
  })),
]
