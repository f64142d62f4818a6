// Texts of clients, as logs and terminals may show them.

import { beginningOf } from './display-text.ts'

const MAX_SHOWN_CHARACTERS = 200

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
 * The text as it is stored and shown on a terminal: without what may be a
 * secret, at most `MAX_SHOWN_CHARACTERS` long. Compare it with other texts that
 * went through here.
 */
export function harmless(value: string): string {
  const shown = value
    .replace(SUSPECT, hideSecret)
    .replace(/[\p{C}\p{Zl}\p{Zp}]/gu, ' ')
  return shown.length > MAX_SHOWN_CHARACTERS
    ? `${beginningOf(shown, MAX_SHOWN_CHARACTERS)}…`
    : shown
}
