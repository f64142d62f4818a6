// What is wrong with an operator's templates, found before they are in force: each is compiled, and
// every page in every state is made with them.

import { join } from 'node:path'
import { Script } from 'node:vm'
import { EtaParseError } from 'eta'
import type { Settings } from '../config/load.ts'
import { ConfigError, type Finding } from '../config/report/finding.ts'
import { reasonOf } from '../storage/store.ts'
import { STATES } from './samples.ts'
import { createTemplates } from './templates.ts'
import { createViews, type Look } from './views.ts'

/** Throws a `ConfigError` that names every template and line. */
export function checkOwnTemplates({ folder, ...look }: Look & Pick<Settings, 'folder'>): void {
  const own = Object.entries(look.pages).filter(([name]) => name.endsWith('.eta'))
  if (!own.length) return
  const fileOf = (name: string) => join(folder, 'pages', name)
  const unreadable = own.flatMap(([name, text]) => syntaxFindings(fileOf(name), text))
  const findings = unreadable.length ? unreadable : failures(look, fileOf)
  const hides = look.features.rich_authorization_requests && !findings.length && hidesDetails(look)
  if (hides) findings.push(finding(fileOf('consent.eta'), 1, UNSEEN))
  if (findings.length) throw new ConfigError(findings)
}

function syntaxFindings(file: string, text: string): Finding[] {
  const templates = createTemplates({}, { debug: true })
  try {
    templates.compile(text)
    return []
  } catch (error) {
    if (!(error instanceof EtaParseError)) throw error
    const [said = ''] = error.message.split('\n')
    const [, what = said, line] = /^(.*) at line (\d+) col \d+:$/.exec(said) ?? []
    if (line) return [finding(file, Number(line), what)]
    return [brokenCode(file, templates.compileToString(text))]
  }
}

/** Only the engine knows where; its line is one of the code that the template became. */
function brokenCode(file: string, code: string): Finding {
  try {
    new Script(`(() => {${code}\n})`, { filename: 'template' })
    return finding(file, 1, 'is no template')
  } catch (error) {
    const { stack = '', message } = error instanceof Error ? error : new Error(String(error))
    const [, line] = /^template:(\d+)\n/.exec(stack) ?? []
    const before = code.split('\n').slice(0, Number(line)).join('\n')
    const marks = [...before.matchAll(/^__eta\.line=(\d+)$/gm)]
    const isOpen = message.endsWith("'catch'")
    const what = isOpen ? 'a { of the template is not closed' : message
    return finding(file, Number(marks.at(-1)?.[1] ?? 1), what)
  }
}

const UNSEEN = 'does not show it.details: people would allow what they have not seen'

/** A template from before there were any. */
function hidesDetails(look: Look): boolean {
  const views = createViews(look)
  const page = STATES.find(({ name }) => name === 'consent-details')?.render(views, views.english)
  return ['Grace Hopper', 'Reference'].some(text => !page?.includes(text))
}

/** One for each line that fails on any page. */
function failures(look: Look, fileOf: (name: string) => string): Finding[] {
  const views = createViews(look, { debug: true })
  const found = new Map<string, Finding>()
  for (const { name, render } of STATES) {
    try {
      render(views, views.english)
    } catch (error) {
      const { template, line, reason } = innermost(error)
      const place = `${template}:${line}`
      const message = `${reason} (on the page ${name})`
      if (!found.has(place)) found.set(place, finding(fileOf(template), line, message))
    }
  }
  return [...found.values()]
}

/** The template that failed, of those that stand in one another. */
function innermost(
  error: unknown,
  within = { template: 'layout.eta', line: 1 },
): typeof within & { reason: string } {
  const { message = '', cause } = error instanceof Error ? error : new Error(String(error))
  const [, template, line] = /([^/\n]+\.eta):(\d+)\n/.exec(message) ?? []
  const place = template ? { template, line: Number(line) } : within
  return cause ? innermost(cause, place) : { ...place, reason: reasonOf(error) }
}

const finding = (file: string, line: number, message: string): Finding => ({
  file,
  line,
  column: 1,
  rule: 'template',
  message,
})
