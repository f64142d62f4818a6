// Templates: Usher's own, and the operator's in their place. Checks the
// operator's templates before they take effect: code that the engine cannot
// compile.

import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { Script } from 'node:vm'
import { Eta } from 'eta'
import type { Settings } from '../config/load.ts'
import { ConfigError, type Finding } from '../config/report/finding.ts'
import { THEME } from '../config/rules/pages.ts'

const TEMPLATES = `${import.meta.dirname}/templates`

/**
 * Returns the template engine. `own`: the operator's texts by file name.
 * `debug`: errors name file and line.
 */
export function createTemplates(
  own: Record<string, string>,
  { debug = false } = {},
): Eta {
  const eta = new Eta({
    views: TEMPLATES,
    cache: true,
    autoEscape: true,
    autoTrim: false,
    debug,
  })
  eta.readFile = path => own[basename(path)] ?? readFileSync(path, 'utf8')
  return eta
}

const UNSEEN =
  'does not show it.details: users would allow what they have not seen'

/** Throws a `ConfigError` that names every template and line. */
export function checkOperatorTemplates({
  folder,
  pages,
  features,
}: Settings): void {
  const own = Object.entries(pages).filter(([name]) => name !== THEME)
  const findings = own.flatMap(([name, text]): Finding[] => {
    const hides = name === 'consent.eta' && !text.includes('it.details')
    const unseen = features.rich_authorization_requests &&
      hides && { message: UNSEEN, line: 1 }
    const problem = compileError(text) ?? unseen
    const at = {
      file: join(folder, 'pages', name),
      column: 1,
      rule: 'template',
    }
    return problem ? [{ ...at, ...problem }] : []
  })
  if (findings.length) throw new ConfigError(findings)
}

/**
 * V8 gives the line of the compiled code, which has marks with the lines of the
 * template.
 */
function compileError(
  text: string,
): { message: string; line: number } | undefined {
  const templates = createTemplates({}, { debug: true })
  let code = ''
  try {
    code = templates.compileToString(text)
    new Script(`(() => {${code}\n})`, { filename: 'template' })
  } catch (error) {
    const { message, stack = '' } =
      error instanceof Error ? error : new Error(String(error))
    const [, inTemplate, at] =
      /^(.*) at line (\d+) col \d+:$/m.exec(message) ?? []
    if (inTemplate) return { message: inTemplate, line: Number(at) }
    const [, line] = /^template:(\d+)\n/.exec(stack) ?? []
    const before = code.split('\n').slice(0, Number(line)).join('\n')
    const [, mark = 1] =
      [...before.matchAll(/^__eta\.line=(\d+)$/gm)].at(-1) ?? []
    const isOpen = message.endsWith("'catch'")
    return {
      message: isOpen ? 'a { of the template is not closed' : message,
      line: Number(mark),
    }
  }
}
