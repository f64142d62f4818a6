// The pages on which users change their own name and address, or create an account, in every state.

import type { PageData } from '../../src/pages/page-data.ts'
import { LONG, state, USER } from './sample.ts'

const email = 'ada@example.org'
const PROFILE: PageData['profile'] = {
  fields: { name: USER.name, email },
  wrong: [],
  isSaved: false,
  isRequested: false,
  isUnconfirmed: false,
  isUnchanged: false,
}

const signUp = {
  client: 'Wiki',
  email: '',
  domains: 'example.org',
  isWrong: false,
  isSent: false,
}

const ADDRESS = { email, username: 'ada', isOwner: false, isDone: false }

export const profileStates = [
  state('profile', 'profile', PROFILE),
  state('profile-name', 'profile', { ...PROFILE, fields: { name: LONG } }),
  state('profile-saved', 'profile', {
    ...PROFILE,
    isSaved: true,
    isRequested: true,
    pending: 'countess@example.org',
  }),
  state('profile-pending', 'profile', { ...PROFILE, pending: 'countess@example.org' }),
  state('profile-unchanged', 'profile', { ...PROFILE, isUnconfirmed: true, isUnchanged: true }),
  state('confirm-own-address', 'confirm-own-address', { email, isSent: false }),
  state('confirm-own-address-sent', 'confirm-own-address', { email, isSent: true }),
  state('profile-wrong', 'profile', { ...PROFILE, wrong: ['name', 'email'] }),
  state('confirm-address-sign-in', 'confirm-address', ADDRESS),
  state('confirm-address', 'confirm-address', { ...ADDRESS, isOwner: true }),
  state('address-confirmed', 'confirm-address', { ...ADDRESS, isOwner: true, isDone: true }),
  state('sign-up', 'sign-up', signUp),
  state('sign-up-wrong', 'sign-up', { ...signUp, email: 'ada@example.com', isWrong: true }),
  state('sign-up-sent', 'sign-up', { ...signUp, isSent: true }),
]
