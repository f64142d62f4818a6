// `usher config check` and `usher config schema`.

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import { createApp } from '../app.ts'
import { configFolder, type Reading, readFolder, type Settings } from '../config/load.ts'
import { ConfigError, describe, inOrder, toRecord } from '../config/report/finding.ts'
import { jsonSchemas } from '../config/schema/usher.ts'
import type { Readiness } from '../http/health.ts'
import { createMetrics } from '../http/metrics.ts'
import { openSigningKeys } from '../keys/signing-keys.ts'
import { checkOwnTemplates } from '../pages/templates.ts'
import { openInstallation } from '../storage/open.ts'
import { Failure, hint, type Invocation, print } from './command.ts'

/** `config check [FOLDER]`: fails when there is a finding; warnings are only shown. */
export async function check({ values, args: [folder] }: Invocation) {
  const { findings, warnings, reading } = await validate(folder)
  const ids = reading?.clients.map(({ value }) => value?.client_id).join(', ') || 'none'
  const right = `Nothing is wrong: ${reading?.settings?.issuer}, clients: ${ids}.`
  const report = findings.length ? describe(findings, 'problem').trimEnd() : right
  const advice = warnings.length ? ['', describe(warnings, 'warning').trimEnd()] : []
  const record = { findings: findings.map(toRecord), warnings: warnings.map(toRecord) }
  print(values, record, [report, ...advice])
  if (findings.length) throw new Failure(`Findings: ${findings.length}.`)
}

/** Returns the findings of the folder; of its pages and of the library only where there is none. */
export async function validate(folder?: string, env?: NodeJS.ProcessEnv) {
  let reading: Reading | undefined
  try {
    reading = readFolder(env, folder)
    if (reading.settings) {
      checkOwnTemplates(reading.settings)
      await checkSettings(reading.settings)
    }
    return { reading, findings: inOrder(reading.findings), warnings: reading.warnings }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return { reading, findings: error.findings, warnings: reading?.warnings ?? [] }
  }
}

/** `config schema [FOLDER]`: writes the JSON Schemas for editors. */
export async function schema({ args: [folder = configFolder()] }: Invocation) {
  const target = join(folder, 'schema')
  mkdirSync(target, { recursive: true })
  for (const [name, schema] of Object.entries(jsonSchemas())) {
    writeFileSync(join(target, `${name}.json`), `${JSON.stringify(schema, null, 2)}\n`)
  }
  hint(`Written to ${target}.`)
}

/** Builds an app that serves no requests. Throws a `ConfigError` with all that keeps it from starting. */
export async function checkSettings(settings: Settings): Promise<void> {
  const { store, ...installation } = await openInstallation('sqlite::memory:', [])
  const log = pino({ enabled: false })
  const signingKeys = await openSigningKeys(installation.records, settings)
  const keys = await signingKeys.load()
  const environment = { settings, ...installation, keys, log, metrics: createMetrics() }
  const readiness: Readiness = { state: 'ready', probe: async () => {}, checks: [] }
  await createApp(environment, readiness).finally(() => store.close())
}
