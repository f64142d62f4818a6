// Texts that people read: names, descriptions, translations, and the texts of
// clients in logs. Some scripts need invisible characters to be written
// correctly, so the rules of identifiers, such as usernames, do not apply here.

/**
 * Scripts whose letters change their form beside a joiner: those of Arabic, and
 * those of India and its neighbours.
 */
const JOINING_SCRIPTS = [
  'Adlm',
  'Arab',
  'Mand',
  'Mani',
  'Mong',
  'Nkoo',
  'Phag',
  'Rohg',
  'Sogd',
  'Syrc',
  'Beng',
  'Cakm',
  'Deva',
  'Gran',
  'Gujr',
  'Guru',
  'Knda',
  'Kthi',
  'Limb',
  'Mlym',
  'Modi',
  'Mtei',
  'Newa',
  'Orya',
  'Saur',
  'Sidd',
  'Sinh',
  'Takr',
  'Taml',
  'Telu',
  'Tibt',
  'Tirh',
  'Bali',
  'Batk',
  'Bugi',
  'Cham',
  'Java',
  'Khmr',
  'Lana',
  'Mymr',
  'Rjng',
  'Sund',
  'Tglg',
]
const IN_JOINING_SCRIPT = `[[${JOINING_SCRIPTS.map(name => `\\p{scx=${name}}`).join('')}]&&[\\p{L}\\p{M}]]`
/**
 * Marks that remove the vowel of a letter: Canonical_Combining_Class 9 of
 * Unicode, which JavaScript cannot name.
 */
const VIRAMA = [
  String.raw`[\u094D\u09CD\u0A4D\u0ACD\u0B4D\u0BCD\u0C4D\u0CCD\u0D3B\u0D3C\u0D4D\u0DCA\u0E3A\u0EBA\u0F84\u1039`,
  String.raw`\u103A\u1714\u1715\u1734\u17D2\u1A60\u1B44\u1BAA\u1BAB\u1BF2\u1BF3\u2D7F\uA806\uA82C\uA8C4\uA953`,
  String.raw`\uA9C0\uAAF6\uABED\u{10A3F}\u{11046}\u{11070}\u{1107F}\u{110B9}\u{11133}\u{11134}\u{111C0}\u{11235}`,
  String.raw`\u{112EA}\u{1134D}\u{11442}\u{114C2}\u{115BF}\u{1163F}\u{116B6}\u{1172B}\u{11839}]`,
].join('')

/**
 * Invisible characters that a text needs. Each looks at its neighbours only, so
 * that the time is linear.
 *
 *   joiners           between letters of a joining script, or after a virama (RFC 5892 A.1, A.2): Persian, Malayalam
 *   emoji             a joiner between two, and the tags of a flag
 *   variation         of a Han character (Japanese names), of a Mongolian letter
 */
const NEEDED = [
  `(?<=${IN_JOINING_SCRIPT})[\\u200C\\u200D](?=${IN_JOINING_SCRIPT})`,
  `(?<=${VIRAMA})[\\u200C\\u200D]`,
  String.raw`(?<=\p{ExtPict}[\p{EMod}\uFE0F]?)\u200D(?=\p{ExtPict})`,
  String.raw`\p{RGI_Emoji_Tag_Sequence}`,
  String.raw`(?<=\p{scx=Han})[\uFE00-\uFE02\u{E0100}-\u{E01EF}]`,
  String.raw`(?<=\p{scx=Mong})[\u180B-\u180F]`,
]
const NEEDED_CHARACTERS = new RegExp(`(${NEEDED.join('|')})`, 'gv')

/**
 * Invisible characters, and those that change line or direction. DI:
 * Default_Ignorable_Code_Point. The last three are no spaces and show nothing:
 * a Braille pattern, an object replacement and a musical symbol. U+FE0E and
 * U+FE0F say whether a symbol is shown as text or as an emoji.
 */
const INVISIBLE =
  /[[\p{C}\p{Zl}\p{Zp}\p{DI}\u2800\uFFFC\u{1D159}]--[\uFE0E\uFE0F]]/gv
const CONTROL = /[[\p{C}\p{Zl}\p{Zp}]--\n]/gv
/**
 * Joiners, direction marks, byte order marks: keyboards and directories add
 * them unseen.
 */
const ZERO_WIDTH = /[\u00AD\u200B-\u200F\u2060\uFEFF]/gv

/**
 * Burmese and Tibetan put up to six marks on a letter. Marks for all scripts
 * are put on others to cover lines.
 */
const MANY_MARKS = /[\p{M}&&\p{sc=Zinh}]{4}|\p{M}{8}/v

/** `RegExp.test` would begin where the last match of a global one ended. */
const isIn = (text: string, pattern: RegExp) => text.search(pattern) >= 0

/**
 * The characters of a text, as Unicode counts them: an emoji is one or a few.
 */
const countOf = (text: string) => [...text].length

/**
 * Returns why users must not be shown this text, as the end of a sentence;
 * undefined if they may be. This is the rule for every text of a client that a
 * page shows. Each pattern looks at a bounded number of characters from each
 * position, so that the time is linear.
 */
export function displayTextProblem(
  text: string,
  maxLength: number,
): string | undefined {
  if (!text) return 'must have at least one character'
  const isLong = text.length > maxLength
  // A character has at most two units.
  if (text.length > 2 * maxLength || (isLong && countOf(text) > maxLength)) {
    return `is at most ${maxLength} characters long`
  }
  if (
    isIn(text, INVISIBLE) &&
    isIn(text.replace(NEEDED_CHARACTERS, ''), INVISIBLE)
  ) {
    return 'has no control characters, line breaks or invisible characters'
  }
  if (/^[\p{Zs}\p{M}]|\p{Zs}{2}|\p{Zs}$/u.test(text)) {
    return 'has no space at its beginning or end, and no two spaces in a row'
  }
  return MANY_MARKS.test(text)
    ? 'has at most three combining marks in a row'
    : undefined
}

/**
 * Replaces what the pattern finds, except for the invisible characters that the
 * text needs.
 */
function replaceSpare(text: string, pattern: RegExp, by: string): string {
  // Most texts have no match. The search for needed characters takes longer.
  if (!isIn(text, pattern)) return text
  // Every second part is a match: that of the group.
  const parts = text.split(NEEDED_CHARACTERS)
  return parts
    .map((part, i) => (i % 2 ? part : part.replace(pattern, by)))
    .join('')
}

const withoutSpareSpaces = (text: string) => text.replace(/\s+/g, ' ').trim()

/**
 * Returns an identifier as it is compared: without zero-width characters, and
 * without spaces at its ends.
 */
export const tidy = (text: string) =>
  withoutSpareSpaces(text.replace(ZERO_WIDTH, ''))

/**
 * Returns the name of a person or thing without spare spaces and zero-width
 * characters that it does not need.
 */
export const tidyName = (text: string) =>
  withoutSpareSpaces(replaceSpare(text, ZERO_WIDTH, ''))

/**
 * Returns a text of users, clients or issuers that cannot control the terminal
 * (CWE-150): `?` replaces what could. Line breaks stay.
 */
export const forTerminal = (text: string) => replaceSpare(text, CONTROL, '?')

/**
 * Returns a name that a user typed, as pages show it: a space replaces what
 * cannot be shown.
 */
export const shownName = (text: string) =>
  withoutSpareSpaces(replaceSpare(tidyName(text), INVISIBLE, ' '))

/** The longest emoji, a family with skin colours, has fewer. */
const MAX_GRAPHEME_UNITS = 64

/**
 * Returns the beginning of a text. It is at most `maxLength` units long, and
 * ends with a whole character.
 */
export function beginningOf(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text
  let end = 0
  const graphemes = new Intl.Segmenter()
  for (const { index, segment } of graphemes.segment(
    text.slice(0, maxLength + MAX_GRAPHEME_UNITS),
  )) {
    if (index + segment.length > maxLength) break
    end = index + segment.length
  }
  return text.slice(0, end)
}

const MAX_REDACTED_CHARS = 200

/**
 * User name and password of a URL, values of its query, and runs that may be
 * random.
 */
const SUSPECT = /(?<=:\/\/)[^/\s]*@|(?<=[?&#][^=&#\s]*=)[^&#\s]+|([\w-]{20,})/g

/**
 * A long run with a digit and a capital may be random; each run is read once,
 * as a whole.
 */
const hideSecret = (_found: string, run = '') =>
  run && !(/\d/.test(run) && /[A-Z]/.test(run))
    ? run.replace(/[0-9a-f]{32,}/g, '•')
    : '•'

/**
 * Returns a text of a client as logs and terminals may show it: without what may
 * be a secret, and at most `MAX_REDACTED_CHARS` long. Compare it with other
 * redacted texts only.
 */
export function redact(value: string): string {
  const shown = value
    .replace(SUSPECT, hideSecret)
    .replace(/[\p{C}\p{Zl}\p{Zp}]/gu, ' ')
  return shown.length > MAX_REDACTED_CHARS
    ? `${beginningOf(shown, MAX_REDACTED_CHARS)}…`
    : shown
}
