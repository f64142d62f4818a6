// Templates: ours, and the operator's in their place.

import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { Eta } from 'eta'

export const TEMPLATES = `${import.meta.dirname}/templates`

/** `own`: texts by the name of the file. `debug` makes errors name file and line. */
export function createTemplates(own: Record<string, string>, { debug = false } = {}): Eta {
  const eta = new Eta({ views: TEMPLATES, cache: true, autoEscape: true, autoTrim: false, debug })
  eta.readFile = path => own[basename(path)] ?? readFileSync(path, 'utf8')
  return eta
}
