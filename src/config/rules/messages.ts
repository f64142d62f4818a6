// The words of rules that look at several keys or files, in messages.json. The rules are beside this file, by
// kind of file. A warning is about a setting that is valid but unsafe: it says the risk, the fix, and the clause
// of the specification.

import { basename } from 'node:path'
import type { Finding, Locate } from '../report/finding.ts'
import { didYouMean } from '../report/wording.ts'
import messages from './messages.json' with { type: 'json' }

/** Whether the findings of a rule are warnings: settings that are valid but unsafe. */
export const isWarning = (rule: string) => Object.hasOwn(messages.warnings, rule)

const ALL = { ...messages.errors, ...messages.warnings }

/** Whether a rule is broken, its name, and the key that the finding is about, as `a.b.0`. */
type Check = readonly [isBroken: unknown, rule: keyof typeof ALL, key: string]

/**
 * Returns a finding for each broken rule, with its message. `NAME` in a message becomes the name of the
 * file, as commands expect it.
 */
export function findingsOf({ file, at }: { file: string; at: Locate }, checks: Check[]): Finding[] {
  const broken = checks.filter(([isBroken]) => isBroken)
  return broken.map(([, rule, key]) =>
    at(key.split('.'), rule, ALL[rule].replace('NAME', basename(file, '.yaml'))),
  )
}

/** Returns the finding about a file that nothing reads: its name is probably misspelt. */
export function strayFile(file: string, known: string[]): Finding {
  const message = `nothing reads this${didYouMean(basename(file), known)}`
  return { file, rule: 'stray-file', message }
}
