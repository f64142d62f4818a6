// The mails, as HTML.

import { NOTICES } from '../../src/account/mail-queue.ts'
import type { Letter } from '../../src/features/mail/letters.ts'
import { coloursOf, contentOf } from '../../src/features/mail/message.ts'
import { state, USER } from './sample.ts'

/** A morning in spring. */
const TIME = 1_777_000_000
const ISSUER = 'https://id.example.org'
const account = {
  ...USER,
  id: 'usr_00000000000000000000000000',
  email_verified: true,
  attributes: {},
  enabled: true,
  created: TIME,
  updated: TIME,
}
const to = 'ada@example.org'
const link = { path: `/welcome/${'x'.repeat(65)}`, until: TIME }
const notice = { changes: [...NOTICES], to, isVerified: true, at: TIME }
const home = '/account'

const LETTERS: Letter[] = [
  { key: 'invitation', to, account, ...link },
  { key: 'forgot', to, account, ...link },
  { key: 'address', to, account, ...link },
  { key: 'sign_up', to, ...link },
  { key: 'known', to, path: home },
  { key: 'no_link', to, path: home },
  { key: 'notice', to, account, path: home, notice },
]

export const mailStates = LETTERS.map(letter =>
  state(`mail-${letter.key.replace('_', '-')}`, 'mail', words => ({
    ...contentOf(letter, words, 'Usher', ISSUER + letter.path),
    colours: coloursOf({}),
  })),
)
