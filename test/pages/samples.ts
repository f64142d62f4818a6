// Every page in every state with sample data, for the preview and for an operator's templates. A test checks
// that each text of the pages is on one of them.

import { FACTORS, USER_EVENTS, WITH_FACTOR } from '../../src/account/activity.ts'
import { CODES } from '../../src/pages/error.ts'
import { type PageData, PLACES, type ShownActivity } from '../../src/pages/page-data.ts'
import { markOf } from '../../src/pages/views.ts'
import type { Words } from '../../src/pages/words.ts'
import { SCOPE_ICONS } from '../../src/sign-in/consent-page.ts'
import { allowed, payment } from './detail-samples.ts'
import { deviceAsks, deviceStates } from './device-samples.ts'
import { errorStates } from './error-samples.ts'
import { factorStates } from './factor-samples.ts'
import { mailStates } from './mail-samples.ts'
import { profileStates } from './profile-samples.ts'
import { requestAsks, requestStates } from './request-samples.ts'
import { LONG, type State, state, USER } from './sample.ts'

const CLIENT = {
  client_name: 'Wiki',
  client_uri: 'https://wiki.example.org/',
  policy_uri: 'https://wiki.example.org/privacy',
  tos_uri: 'https://wiki.example.org/terms',
  isUnchecked: false,
}
const REQUEST_ID = '4kq2v9x0c7ah'
const DAY = 86_400
/** A morning in spring. */
const TIME = 1_777_000_000

const LOGO = `data:image/svg+xml,${encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><circle cx="12" cy="12" r="10" fill="#14663a"/></svg>',
)}`
const METHODS = [
  { name: 'example', label: 'Sign in with Example', logo: LOGO },
  { name: 'other', label: 'Sign in with another organisation, which has a long name' },
]
const PASSKEY = { options: JSON.stringify({ challenge: 'AAAA', rpId: 'preview.example' }) }
const signIn = {
  client: CLIENT.client_name,
  username: '',
  again: false,
  hasPassword: true,
  byEmail: false,
  methods: [],
}

function consent(
  { t, number }: Words,
  more: Partial<PageData['consent']> = {},
): PageData['consent'] {
  const scope = (name: string, note?: string) => ({
    name,
    words: t(`scope.${name}`),
    required: name === 'openid',
    checked: name !== 'phone',
    icon: SCOPE_ICONS[name] ?? 'unlock',
    note,
  })
  const offline = scope('offline_access', t('consent.offline_note', { days: number(90) }))
  return {
    client: CLIENT,
    host: 'wiki.example.org',
    scopes: [
      ...['openid', 'profile', 'email', 'phone', 'address'].map(name => scope(name)),
      offline,
      { ...scope('https://files.example.org files:read', 'Files'), words: 'Read your files' },
    ],
    details: [],
    withdrawn: false,
    ...more,
  }
}

function application({ t, date, plural }: Words): PageData['applications']['applications'][0] {
  return {
    name: CLIENT.client_name,
    mark: markOf('wiki', CLIENT.client_name),
    client_uri: CLIENT.client_uri,
    host: 'wiki.example.org',
    registered: true,
    isUnchecked: false,
    implicit: false,
    scopes: ['openid', 'profile', 'offline_access'].map(scope => ({
      words: t(`scope.${scope}`),
      icon: SCOPE_ICONS[scope] ?? 'shield',
    })),
    details: [],
    actors: 'Orders, Billing',
    since: date(TIME - 30 * DAY),
    lastUsed: date(TIME),
    inUse: plural('applications.in_use', 2),
    removal: PLACES.removal,
  }
}

const paying = (words: Words) => ({ ...application(words), ...allowed(words, TIME) })
const implicit = (words: Words) => ({
  ...application(words),
  name: 'Intranet',
  mark: markOf('intranet', 'Intranet', LOGO),
  implicit: true,
  inUse: words.plural('applications.in_use', 1),
})

const unchecked = (words: Words) => ({
  ...application(words),
  client_uri: undefined,
  name: 'Notes',
  mark: markOf('notes', 'Notes'),
  isUnchecked: true,
})

const gone = (words: Words) => ({
  ...application(words),
  name: LONG,
  mark: markOf(LONG, LONG),
  client_uri: undefined,
  host: undefined,
  registered: false,
  scopes: [
    {
      words: words.t('scope.other', { claims: words.list(['department', 'cost center']) }),
      icon: 'shield',
    },
  ],
  inUse: words.t('applications.not_in_use'),
})

function removal({ t }: Words, after: string): PageData['confirm'] {
  return {
    title: t('applications.question', { client: CLIENT.client_name }),
    effects: [t('applications.effect'), after],
    confirm: t('applications.remove'),
    back: PLACES.applications,
  }
}

function signOutThere({ t }: Words, title: string, effect: string): PageData['confirm'] {
  return {
    title,
    effects: [effect, t('sessions.effect')],
    kept: t('sessions.kept'),
    confirm: t('sessions.sign_out'),
    back: PLACES.sessions,
  }
}

const browserName = ({ t }: Words) => t('sessions.browser', { browser: 'Firefox', system: 'Linux' })

/** The page of an account with sign-in methods. */
function methods({ t }: Words, result?: string): PageData['security'] {
  const isWrong = result === 'failed' || result === 'taken'
  return {
    verdict: { text: t('security.password_only'), isEnough: true },
    password: {},
    methods: {
      methods: METHODS.map(method => ({ ...method, isLinked: method.name === 'example' })),
      isLast: false,
    },
    outcome: result ? { text: t(`sign_ins.${result}`), isWrong } : undefined,
  }
}

function sessions(words: Words, done?: string): PageData['sessions'] {
  const { t, date } = words
  const here = {
    name: browserName(words),
    network: '203.0.113.x',
    isPhone: false,
    since: date(TIME - DAY),
    lastUsed: date(TIME),
    clients: [CLIENT.client_name, LONG],
    end: PLACES.end,
  }
  const phone = { ...here, name: 'Safari', network: '2001:db8:1234:x', isPhone: true }
  const unknown = { ...here, name: t('sessions.unknown'), network: undefined, clients: [] }
  const many = Array.from({ length: 3 }, (_, i) => ({ ...here, since: date(TIME - i * DAY) }))
  const groups = [
    { end: PLACES.end, sessions: [phone] },
    { end: PLACES.end, count: t('sessions.count', { count: '3' }), sessions: many },
    { end: PLACES.end, sessions: [unknown] },
  ]
  return {
    here,
    groups: done ? [] : groups,
    activity: entries(words).slice(0, 5),
    endOthers: '#',
    done,
  }
}

function entries(words: Words): ShownActivity[] {
  const { t, date } = words
  const at = date(TIME)
  const where = t('sessions.network', { network: '203.0.113.x' })
  const byUser = [CLIENT.client_name, browserName(words), where]
  const ofEvents = USER_EVENTS.map(event => {
    const isOfOperator = ['password_set', 'account_changed'].includes(event)
    const attempts =
      event === 'sign_in_failed' ? [t('activity.attempts', { count: '3' }), ...byUser] : byUser
    return { event, text: t(`activity.${event}`), facts: isOfOperator ? [] : attempts, at }
  })
  const ofFactors = WITH_FACTOR.flatMap(event =>
    FACTORS.map(factor => ({ event, text: t(`activity.${event}_${factor}`), facts: byUser, at })),
  ).filter(({ text }) => text !== '')
  const event = 'sign_in_succeeded'
  const host = 'login.example.org'
  return [
    { event, text: t('activity.sign_in_succeeded_password'), facts: byUser, at },
    { event, text: t('activity.sign_in_succeeded_upstream', { host }), facts: byUser, at },
    ...ofFactors,
    ...ofEvents,
  ]
}

function activity(words: Words): PageData['activity'] {
  const all = entries(words).map(entry => ({ ...entry, at: words.time(TIME) }))
  const days = [all.slice(0, 4), all.slice(4)]
  return {
    days: days.map((some, i) => ({ day: words.date(TIME - i * DAY), entries: some })),
  }
}

const password = (problems: PageData['password']['problems'] = {}) => ({
  problems,
})

const NAMES = ['Calendar', 'Expenses and travel', 'Intranet', 'Mail', 'Notes', LONG, 'Wiki']

type Account = PageData['account']

/** The overview of an account with this protection. */
function account(
  words: Words,
  verdict = 'enough',
  changes: Partial<Account> = {},
  codesLeft = 8,
): Account {
  const { t, plural, date, number } = words
  const isEnough = !['no_factor', 'no_codes'].includes(verdict)
  const hasFactors = verdict === 'enough' || verdict === 'no_codes'
  const add = hasFactors ? undefined : t('factors.add')
  const row = (icon: string, label: string, value: string, path: string, action?: string) => ({
    icon,
    label,
    value,
    path,
    action,
  })
  const left = plural('security.left', verdict === 'no_codes' ? 0 : codesLeft)
  const renew = verdict === 'no_codes' ? t('factors.renew') : undefined
  const count = hasFactors ? number(1) : t('security.none')
  const changed = t('security.changed', { date: date(TIME).words })
  const devices = plural('security.devices', hasFactors ? 3 : 1)
  const codes = row('codes', t('factors.codes_title'), left, PLACES.security, renew)
  return {
    facts: [
      { label: t('account.username'), value: USER.username },
      { label: t('account.email'), value: 'ada@example.org' },
    ],
    edit: PLACES.profile,
    security: {
      verdict: { text: t(`security.${verdict}`), isEnough },
      rows: [
        row('key', t('account.password'), hasFactors ? changed : t('security.set'), '#'),
        row('fingerprint', t('factors.passkeys'), count, '#', add),
        row('phone', t('factors.apps'), count, '#', add),
        ...(hasFactors ? [codes] : []),
        row('monitor', t('sessions.devices'), devices, PLACES.sessions),
      ],
    },
    applications: NAMES.map(name => ({
      name,
      url: '#',
      mark: markOf(name, name, name === 'Intranet' ? LOGO : undefined),
    })),
    activity: entries(words).slice(0, 2),
    ...changes,
  }
}

/** The overview of an account that has just begun. */
const newcomer = (words: Words) => account(words, 'no_factor', { applications: [], activity: [] })

/** The overview with everything that a user should look at. */
function alarming(words: Words): Account {
  const { t, date } = words
  const shown = account(words, 'no_factor')
  const from = t('sessions.network', { network: '203.0.113.x' })
  const place = `${browserName(words)}, ${from}`
  const newSignIn = t('activity.new_sign_in', { place, time: date(TIME).words })
  const email = `ada@example.org (${t('account.unverified')})`
  return {
    ...shown,
    facts: [...shown.facts.slice(0, 1), { label: t('account.email'), value: email }],
    confirm: PLACES.confirmAddress,
    security: { ...shown.security, newSignIn },
  }
}

/** The problems of a new password, which the page shows next to its field. */
const PASSWORD_PROBLEMS = ['too_short', 'too_long', 'too_common', 'too_personal', 'unchanged']

export const STATES: State[] = [
  state('sign-in', 'sign-in', signIn),
  state('sign-in-account', 'sign-in', ({ t }) => ({
    ...signIn,
    client: t('account.title'),
    isAccount: true,
  })),
  state('sign-in-long-name', 'sign-in', { ...signIn, client: LONG, username: USER.username }),
  state('sign-in-unchecked', 'sign-in', { ...signIn, uncheckedHost: 'app.example.org' }),
  state('sign-in-failed', 'sign-in', words => ({
    ...signIn,
    username: USER.username,
    problem: words.t('sign_in.failed'),
    failed: REQUEST_ID,
    passwordFailed: true,
    mustAsk: true,
  })),
  state('sign-in-again', 'sign-in', { ...signIn, username: USER.username, again: true }),
  state('sign-in-change', 'sign-in', {
    ...signIn,
    username: USER.username,
    again: true,
    isForChange: true,
  }),
  state('sign-in-expects-other', 'sign-in', { ...signIn, expectsOther: true }),
  state('sign-in-sign-up', 'sign-in', { ...signIn, canSignUp: true }),
  state('sign-in-email', 'sign-in', { ...signIn, byEmail: true }),
  state('sign-in-methods', 'sign-in', { ...signIn, methods: METHODS }),
  state('sign-in-passkey', 'sign-in', { ...signIn, passkey: PASSKEY }),
  state('sign-in-passkey-failed', 'sign-in', ({ t }) => ({
    ...signIn,
    methods: METHODS,
    passkey: PASSKEY,
    problem: t('sign_in.passkey_failed'),
    failed: REQUEST_ID,
  })),
  state('sign-in-passkey-only', 'sign-in', { ...signIn, hasPassword: false, passkey: PASSKEY }),
  ...['failed', 'old', 'unavailable', 'unknown'].map(problem =>
    state(`sign-in-upstream-${problem}`, 'sign-in', words => ({
      ...signIn,
      hasPassword: false,
      methods: METHODS,
      problem: words.t(`sign_in.upstream_${problem}`, { host: 'login.example.org' }),
      failed: REQUEST_ID,
    })),
  ),
  state('select-account', 'select-account', { client: CLIENT.client_name }),
  ...[false, true].map(isOff =>
    state(isOff ? 'no-access-off' : 'no-access', 'no-access', {
      client: CLIENT.client_name,
      isOff,
      reference: REQUEST_ID,
    }),
  ),
  state('consent', 'consent', words => consent(words)),
  state('consent-short', 'consent', words =>
    consent(words, {
      client: { client_name: LONG, isUnchecked: false },
      host: 'com.example.app',
      scopes: [
        ...consent(words).scopes.slice(0, 2),
        ...consent(words)
          .scopes.slice(5, 6)
          .map(scope => ({ ...scope, required: true })),
      ],
      lifetime: words.t('consent.lifetime'),
    }),
  ),
  state('consent-lasting', 'consent', words =>
    consent(words, {
      scopes: consent(words).scopes.slice(0, 1),
      lifetime: words.t('consent.lasting', { days: words.number(90) }),
    }),
  ),
  state('consent-withdrawn', 'consent', words => consent(words, { withdrawn: true })),
  state('consent-unchecked', 'consent', words =>
    consent(words, {
      client: { ...CLIENT, isUnchecked: true },
      scopes: consent(words).scopes.slice(0, 2),
      lifetime: words.t('consent.lasting', { days: words.number(90) }),
    }),
  ),
  state('consent-published', 'consent', words =>
    consent(words, {
      client: { ...CLIENT, isUnchecked: true },
      unchecked: { publisher: 'agents.example.net', isLocal: true },
      scopes: consent(words).scopes.slice(0, 2),
    }),
  ),
  state('consent-details', 'consent', words =>
    consent(words, {
      details: [payment(words), { ...payment(words, LONG), facts: [] }],
      scopes: consent(words).scopes.slice(0, 1),
    }),
  ),
  state('consent-device', 'consent', words => consent(words, deviceAsks)),
  state('consent-request', 'consent', words => consent(words, requestAsks(words))),
  ...deviceStates,
  ...requestStates(words => account(words)),
  state('navigate', 'navigate', { url: '#on' }),
  state('hand-over', 'hand-over', { action: '#', fields: { code: 'sample' } }),
  state('account', 'account', words => account(words)),
  state('account-one-code', 'account', words => account(words, 'enough', {}, 1)),
  state('account-new', 'account', newcomer),
  state('account-alarming', 'account', alarming),
  ...['no_codes', 'passkey_beside', 'password_only', 'elsewhere'].map(verdict =>
    state(`account-${verdict.replace('_', '-')}`, 'account', words => account(words, verdict)),
  ),
  state('applications', 'applications', words => ({
    applications: [paying(words), implicit(words), unchecked(words), gone(words)],
  })),
  state('applications-removed', 'applications', words => ({
    applications: [implicit(words)],
    removed: CLIENT.client_name,
  })),
  state('applications-none', 'applications', { applications: [] }),
  state('remove', 'confirm', words => removal(words, words.t('applications.again'))),
  state('remove-implicit', 'confirm', words =>
    removal(words, words.t('applications.implicit_again', { brand: 'Usher' })),
  ),
  state('remove-lingering', 'confirm', words =>
    removal(words, words.t('applications.lingers', { apis: 'Calendar', minutes: '10' })),
  ),
  ...['added', 'removed', 'failed', 'taken'].map(result =>
    state(`methods-${result}`, 'security', words => methods(words, result)),
  ),
  state('methods-last', 'security', words => {
    const { methods: shown = { methods: [] } } = methods(words)
    const verdict = { text: words.t('security.elsewhere'), isEnough: true }
    return { verdict, methods: { ...shown, isLast: true } }
  }),
  state('activity', 'activity', activity),
  state('activity-none', 'activity', { days: [] }),
  state('sessions', 'sessions', words => sessions(words)),
  state('sessions-ended', 'sessions', words => sessions(words, words.t('sessions.ended'))),
  state('sessions-ended-others', 'sessions', words =>
    sessions(words, words.t('sessions.ended_others')),
  ),
  state('end', 'confirm', words =>
    signOutThere(
      words,
      words.t('sessions.question', { browser: browserName(words) }),
      words.t('sessions.question_text', { date: words.date(TIME).words }),
    ),
  ),
  state('end-others', 'confirm', words => ({
    ...signOutThere(words, words.t('sessions.question_others'), words.plural('sessions.others', 3)),
    confirm: words.t('sessions.end_others'),
  })),
  state('end-others-one', 'confirm', words =>
    signOutThere(words, words.t('sessions.question_others'), words.plural('sessions.others', 1)),
  ),
  state('password', 'password', password()),
  state('password-wrong', 'password', ({ t }) =>
    password({ current: t('password.wrong'), repeat: t('password.differs') }),
  ),
  ...PASSWORD_PROBLEMS.map(key =>
    state(`password-${key.replace('_', '-')}`, 'password', ({ t }) =>
      password({ password: t(`password.${key}`) }),
    ),
  ),
  state('new-password', 'new-password', password()),
  state('new-password-wrong', 'new-password', ({ t }) =>
    password({ password: t('password.too_short'), repeat: t('password.differs') }),
  ),
  ...[true, false].flatMap(isNew => [
    state(isNew ? 'welcome' : 'welcome-again', 'welcome', {
      isNew,
      resetsFactors: !isNew,
      problems: {},
    }),
    state(isNew ? 'welcome-done' : 'welcome-done-again', 'welcome-done', {
      isNew,
      signIn: '/account',
    }),
  ]),
  state('welcome-wrong', 'welcome', ({ t }) => ({
    isNew: true,
    resetsFactors: false,
    problems: { password: t('password.too_common'), repeat: t('password.differs') },
  })),
  ...profileStates,
  ...[false, true].map(isSent => state(isSent ? 'forgot-sent' : 'forgot', 'forgot', { isSent })),
  ...mailStates,
  state('password-changed', 'password-changed', {}),
  ...factorStates,
  state('sign-out', 'sign-out', { action: '#', xsrf: 'sample' }),
  state('sign-out-asked', 'sign-out', { action: '#', xsrf: 'sample', client: CLIENT.client_name }),
  state('sign-out-hinted', 'sign-out', {
    action: '#',
    xsrf: 'sample',
    client: CLIENT.client_name,
    isHinted: true,
  }),
  state('sign-out-upstream', 'sign-out', {
    action: '#',
    xsrf: 'sample',
    upstream: 'login.microsoftonline.com',
  }),
  state('signed-out', 'signed-out', { client: CLIENT, stayed: false }),
  state('stayed', 'signed-out', { stayed: true }),
  ...errorStates,
  state('errors', 'errors', { codes: CODES }),
]
