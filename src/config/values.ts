// Values that stand in more than one file.

import { z } from 'zod'

/** Text that pages show. */
export const words = (longest: number) =>
  z
    .string()
    .max(longest, `is at most ${longest} characters long`)
    .regex(/^\P{C}+$/u, 'must have at least one character, and no control characters')

export const webUrl = z.url({ protocol: /^https?$/ })

export const scopeName = z
  .string()
  .regex(
    /^[\x21\x23-\x5B\x5D-\x7E]+$/,
    'a scope has no spaces, quotes or backslashes (RFC 6749 §3.3)',
  )
  .refine(name => !(name in Object.prototype), 'is a name that JavaScript keeps for itself')
