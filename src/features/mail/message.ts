// A letter as a message, in the language of its receiver: as text for a
// terminal, and as HTML with one button.

import type { Settings } from '../../config/load.ts'
import { inkOn, readableIn } from '../../config/rules/pages.ts'
import { valuesOf } from '../../oidc/clients.ts'
import type { Views } from '../../pages/views.ts'
import type { Words } from '../../pages/words.ts'
import type { Letter, Queued } from './letters.ts'
import type { Message } from './smtp.ts'

declare module '../../pages/page-data.ts' {
  interface PageData {
    /** A mail as HTML. */
    mail: Content & { colours: MailColours }
  }
}

/** The texts of a mail. */
interface Content {
  subject: string
  /** The sentence that a list of mails shows beside the subject. */
  preview: string
  paragraphs: string[]
  /** The changes of a notice, a sentence each. */
  changes: string[]
  /** The username, as a sentence; empty for a mail to a stranger. */
  username: string
  /** The text of the button. */
  action: string
  link: string
  end: string
}

/** The colours of the button, in the light and the dark scheme. */
interface MailColours {
  accent: string
  onAccent: string
  accentDark: string
  onAccentDark: string
}

/** `--accent` of the stylesheet, in both schemes. */
const ACCENT = '#1d4ed8'
const ACCENT_DARK = '#9db8ff'
/** Lines of text for a terminal (RFC 5322 §2.1.1 recommends 78). */
const LINE_CHARS = 72

/** Returns the message of a letter, without its receiver. */
export function messageOf(
  letter: Letter,
  { id, lang }: Queued,
  { issuer, branding, mail }: Settings,
  views: Views,
): Message {
  const { account } = letter
  const [ownLang = ''] = account ? valuesOf(account.attributes, 'locale') : []
  const words = views.find(lang ?? ownLang) ?? views.english()
  const brand = branding.name
  const content = contentOf(letter, words, brand, issuer + letter.path)
  const colours = coloursOf(branding)
  return {
    from: { name: brand, address: mail?.from ?? '' },
    subject: content.subject,
    // All attempts have the same id: a mailbox that gets two of them can tell.
    messageId: `<${id}@${new URL(issuer).hostname}>`,
    // RFC 3834 §5: no answer of a machine is wanted.
    headers: { 'Auto-Submitted': 'auto-generated' },
    text: textOf(content),
    html: views.render(words, 'mail', { ...content, colours }),
    // Quoted-printable breaks long lines, such as links, for programs that do
    // not decode it.
    textEncoding: 'base64',
  }
}

/** Returns what the mail of a letter says. */
export function contentOf(
  letter: Letter,
  words: Words,
  brand: string,
  link: string,
): Content {
  const { key, account, notice } = letter
  const { t } = words
  const about = t(`mail.${key}_text`, { brand, date: dateIn(letter, words) })
  const changes = (notice?.changes ?? []).map(change => t(`notice.${change}`))
  // Users choose their names: no mailbox gets the text of a stranger.
  const isOfOwner =
    key === 'invitation' || key === 'forgot' || notice?.isVerified
  const { username = '', name = username } = account ?? {}
  const paragraphs = isOfOwner ? [t('mail.hello', { name }), about] : [about]
  return {
    subject: subjectOf(letter, changes, words, brand),
    preview: paragraphs.join(' '),
    paragraphs,
    changes,
    username: isOfOwner ? t('mail.username', { username }) : '',
    action: t(`mail.${key}_action`),
    link,
    end: lastLineOf(letter, words),
  }
}

/** Returns the subject. That of a notice about one change names the change. */
function subjectOf(
  { key }: Letter,
  changes: string[],
  { t }: Words,
  brand: string,
): string {
  const [change = '', ...others] = changes
  if (!change || others.length) return t(`mail.${key}`, { brand })
  return `${brand}: ${change}`
}

/** Returns the text part: short lines, and the link on a line of its own. */
function textOf(content: Content): string {
  const { paragraphs, changes, username, action, link, end } = content
  const list = changes.map(change => wrapped(`- ${change}`)).join('\n')
  const parts = [
    ...paragraphs.map(wrapped),
    list,
    wrapped(username),
    `${wrapped(action)}:\n${link}`,
    wrapped(end),
  ]
  return parts.filter(Boolean).join('\n\n')
}

/** Returns a paragraph in lines, which break at spaces. */
function wrapped(paragraph: string): string {
  const lines: string[] = []
  let line = ''
  for (const word of paragraph.split(' ')) {
    const longer = line ? `${line} ${word}` : word
    if (line && longer.length > LINE_CHARS) {
      lines.push(line)
      line = word
    } else {
      line = longer
    }
  }
  return [...lines, line].join('\n')
}

/** Returns the colours of mails with this branding. */
export function coloursOf({
  accent,
  accent_dark,
}: Pick<Settings['branding'], 'accent' | 'accent_dark'>): MailColours {
  const light = accent ?? ACCENT
  const dark = accent_dark ?? accent
  const accentDark = dark ? readableIn('dark', dark) : ACCENT_DARK
  return {
    accent: light,
    onAccent: inkOn(light),
    accentDark,
    onAccentDark: inkOn(accentDark),
  }
}

function lastLineOf(letter: Letter, words: Words): string {
  if (letter.until) return words.t('mail.end', { date: dateIn(letter, words) })
  return letter.notice ? words.t('mail.notice_end') : words.t('mail.otherwise')
}

/** The time of the change, or the one until which the link is open. */
const dateIn = ({ notice, until }: Letter, words: Words) =>
  words.minute(notice?.at ?? until ?? 0)
