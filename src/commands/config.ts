// `usher config check` and `usher config schema`.

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import { createApp } from '../app.ts'
import { configFolder } from '../config/environment.ts'
import { jsonSchemas } from '../config/key-list.ts'
import { readFolder, type Settings } from '../config/load.ts'
import {
  ConfigError,
  type Finding,
  formatReport,
  toRecord,
} from '../config/report/finding.ts'
import { isAboutAttribute } from '../config/report/wording.ts'
import { hasPasskeys } from '../config/schema/upstream.ts'
import { requireHost } from '../features/factors/rules.ts'
import type { Readiness } from '../operation/health.ts'
import { NO_METRICS } from '../operation/metrics.ts'
import { openSigningKeys } from '../operation/signing-keys.ts'
import { openInstallation } from '../store/open.ts'
import { countPages, countStopped } from './account-rows.ts'
import { Failure, type Invocation } from './command.ts'
import { folderNotes, printWithNotes } from './folder-notes.ts'
import { openState, type State } from './open-store.ts'
import { hint } from './output.ts'

/**
 * `config check [FOLDER]`: fails when there is a finding; warnings are only
 * shown.
 */
export async function checkFolder({ flags, args: [folder] }: Invocation) {
  const { settings, findings, warnings } = await validate(folder)
  if (settings && !settings.sources.parts.includes('usher.yaml')) {
    const message = `is missing or empty: ${settings.clients.length ? '' : 'there is no client, and '}${BARE}`
    warnings.push({
      file: join(settings.folder, 'usher.yaml'),
      rule: 'empty',
      message,
    })
  }
  const right = settings && `Nothing is wrong: ${summaryOf(settings)}.`
  const report = right ?? formatReport(findings, 'problem').trimEnd()
  const advice = warnings.length
    ? ['', formatReport(warnings, 'warning').trimEnd()]
    : []
  const record = {
    findings: findings.map(toRecord),
    warnings: warnings.map(toRecord),
  }
  // Another folder is of no running service.
  const notes = folder === undefined ? await folderNotes() : []
  printWithNotes(flags, notes, record, [report, ...advice])
  if (findings.length) throw new Failure(`Findings: ${findings.length}.`)
}

const BARE =
  'every setting has its default. A service that runs with settings refuses this folder'

/** The issuer with its source, and the client ids, in one line. */
export const summaryOf = ({ issuer, sources, clients }: Settings) =>
  `${issuer} (${sources.issuer}), clients: ${clients.map(({ client_id }) => client_id).join(', ') || 'none'}`

/**
 * Returns the settings, or all findings. The library checks a folder without
 * other findings.
 */
export async function validate(folder?: string, env?: NodeJS.ProcessEnv) {
  let warnings: Finding[] = []
  try {
    const reading = await readFolder(env, folder)
    warnings = reading.warnings
    if (!reading.settings) throw new ConfigError(reading.findings)
    await checkSettings(reading.settings)
    // A machine that checks a folder may have no access to the store.
    const isRequired = reading.settings.sign_in.second_factor === 'required'
    const isAsked =
      hasPasskeys(reading.settings.sign_in) ||
      isRequired ||
      warnings.some(isAboutAttribute)
    const state =
      isAsked && !folder ? await openState().catch(() => undefined) : undefined
    if (state) {
      await requireHost(reading.settings, state.factors)
      const used = await attributesIn(state, warnings.filter(isAboutAttribute))
      warnings = warnings.filter(
        one => !isAboutAttribute(one) || !used.has(one.key),
      )
      if (isRequired)
        warnings.push(...(await warnOfStopped(state, reading.settings)))
    }
    return { settings: reading.settings, findings: [], warnings }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return { findings: error.findings, warnings }
  }
}

/** Returns a warning if `second_factor: required` stops users. */
async function warnOfStopped(
  state: State,
  settings: Settings,
): Promise<Finding[]> {
  if (settings.accounts.module) return []
  const { stopped, total, isAll } = await countStopped(state, settings)
  if (!stopped) return []
  const count = isAll
    ? `${stopped} of ${total} accounts have`
    : `at least ${stopped} of the first ${total} accounts have`
  const message = `${count} no second factor, and must add one at the next sign-in: npm run usher -- accounts list --without-second-factor`
  const file = join(settings.folder, 'usher.yaml')
  return [
    { file, key: 'sign_in.second_factor', rule: 'second-factor', message },
  ]
}

/**
 * Returns the keys of these warnings whose attributes accounts have. Where the
 * time was too short for all accounts, it returns all of them: a warning would
 * be a guess.
 */
async function attributesIn(
  source: State,
  warnings: Finding[],
): Promise<Set<string | undefined>> {
  const wanted = new Set(warnings.map(({ key }) => key))
  const missing = new Set(wanted)
  const { isAll } = await countPages(source, accounts => {
    const names = accounts.flatMap(one => Object.keys(one.attributes))
    for (const name of names) missing.delete(`allow.${name}`)
  })
  return isAll ? wanted.difference(missing) : wanted
}

/** `config schema [FOLDER]`: writes the JSON Schemas for editors. */
export async function writeSchemas({
  args: [folder = configFolder()],
}: Invocation) {
  const target = join(folder, 'schema')
  mkdirSync(target, { recursive: true })
  for (const [name, schema] of Object.entries(jsonSchemas())) {
    writeFileSync(
      join(target, `${name}.json`),
      `${JSON.stringify(schema, null, 2)}\n`,
    )
  }
  hint(`Written to ${target}.`)
}

/**
 * Builds an app that serves no requests. Throws a `ConfigError` with all that
 * keeps it from starting.
 */
export async function checkSettings(settings: Settings): Promise<void> {
  const { store, ...installation } = await openInstallation(
    'sqlite::memory:',
    [],
  )
  const log = pino({ enabled: false })
  const signingKeys = await openSigningKeys(installation.records, settings)
  const keys = await signingKeys.load()
  const environment = {
    settings,
    ...installation,
    keys,
    log,
    audit: log,
    metrics: NO_METRICS,
  }
  const readiness: Readiness = {
    state: 'ready',
    probe: async () => true,
    checks: [],
  }
  await createApp(environment, readiness).finally(() => store.close())
}
