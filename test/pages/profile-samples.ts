// The pages on which users change their own name and address, or create an account, in every state, and a mail about
// the address.

import type { PageData } from '../../src/pages/page-data.ts'
import { LONG, state, USER } from './sample.ts'

const email = 'ada@example.org'
const PROFILE: PageData['profile'] = {
  fields: { name: USER.name, email },
  wrong: [],
  isSaved: false,
}

const signUp = {
  client: 'Wiki',
  email: '',
  domains: 'example.org',
  isWrong: false,
  isSent: false,
}

export const profileStates = [
  state('profile', 'profile', () => PROFILE),
  state('profile-name', 'profile', () => ({ ...PROFILE, fields: { name: LONG } })),
  state('profile-saved', 'profile', () => ({
    ...PROFILE,
    isSaved: true,
    pending: 'countess@example.org',
  })),
  state('profile-wrong', 'profile', () => ({ ...PROFILE, wrong: ['name', 'email'] })),
  ...[false, true].map(isDone =>
    state(isDone ? 'address-confirmed' : 'confirm-address', 'confirm-address', () => {
      return { email, isDone }
    }),
  ),
  state('sign-up', 'sign-up', () => signUp),
  state('sign-up-wrong', 'sign-up', () => ({ ...signUp, email: 'ada@example.com', isWrong: true })),
  state('sign-up-sent', 'sign-up', () => ({ ...signUp, isSent: true })),
  ...(['known', 'no_link'] as const).map(key =>
    state(`mail-${key.replace('_', '-')}`, 'mail', ({ t }) => ({
      subject: t(`mail.${key}`, { brand: 'Usher' }),
      paragraphs: [t(`mail.${key}_text`, { brand: 'Usher' })],
      link: 'https://id.example.org/account',
      end: t('mail.otherwise'),
    })),
  ),
]
