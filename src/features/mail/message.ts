// A letter as a message, in the language of its receiver.

import type { Settings } from '../../config/load.ts'
import { valuesOf } from '../../oidc/clients.ts'
import type { Views } from '../../pages/views.ts'
import type { Words } from '../../pages/words.ts'
import type { Letter, Queued } from './letters.ts'
import type { Message } from './smtp.ts'

declare module '../../pages/page-data.ts' {
  interface PageData {
    /** A mail as HTML. */
    mail: { subject: string; paragraphs: string[]; link: string; end: string }
  }
}

/** Returns the message of a letter, without its receiver. */
export function messageOf(
  letter: Letter,
  { id, lang }: Queued,
  { issuer, branding, mail }: Settings,
  views: Views,
): Message {
  const { account, key, path } = letter
  const [ownLang = ''] = account ? valuesOf(account.attributes, 'locale') : []
  const words = views.find(lang ?? ownLang) ?? views.english
  const brand = branding.name
  const subject = words.t(`mail.${key}`, { brand })
  const paragraphs = paragraphsOf(letter, words, brand)
  const link = issuer + path
  const end = lastLineOf(letter, words)
  return {
    from: { name: brand, address: mail?.from ?? '' },
    subject,
    // All attempts have the same id: a mailbox that gets two of them can tell.
    messageId: `<${id}@${new URL(issuer).hostname}>`,
    // RFC 3834 §5: no answer of a machine is wanted.
    headers: { 'Auto-Submitted': 'auto-generated' },
    text: [...paragraphs, link, end].join('\n\n'),
    html: views.render(words, 'mail', { subject, paragraphs, link, end }),
    // Quoted-printable breaks long lines, such as links, for programs that do
    // not decode it.
    textEncoding: 'base64',
  }
}

function paragraphsOf(letter: Letter, words: Words, brand: string): string[] {
  const { key, account, notice } = letter
  const { t } = words
  const about = t(`mail.${key}_text`, { brand, date: dateIn(letter, words) })
  const changes = (notice?.changes ?? []).map(change => t(`notice.${change}`))
  // Users choose their names: no mailbox gets the text of a stranger.
  const isOfOwner =
    key === 'invitation' || key === 'forgot' || notice?.isVerified
  if (!isOfOwner) return [about, ...changes]
  const { username = '', name = username } = account ?? {}
  const paragraphs = [
    t('mail.hello', { name }),
    about,
    ...changes,
    t('mail.username', { username }),
  ]
  return paragraphs.filter(Boolean)
}

function lastLineOf(letter: Letter, words: Words): string {
  if (letter.until) return words.t('mail.end', { date: dateIn(letter, words) })
  return letter.notice ? words.t('mail.notice_end') : words.t('mail.otherwise')
}

/** The time of the change, or the one until which the link is open. */
const dateIn = ({ notice, until }: Letter, words: Words) =>
  words.minute(notice?.at ?? until ?? 0)
