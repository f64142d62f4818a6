// The config folder: is it right, and the schemas that help to write it.

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkSettings } from '../app.ts'
import { configFolder, type Reading, readFolder } from '../config/load.ts'
import { ConfigError, describe, inOrder, toRecord } from '../config/report/finding.ts'
import { jsonSchemas } from '../config/schema/usher.ts'
import { checkOwnTemplates } from '../pages/own-templates.ts'
import { Failure, hint, type Invocation, print } from './command.ts'

/** Warnings are shown and fail nothing. */
export async function check({ values, positionals: [folder] }: Invocation) {
  const { findings, warnings, reading } = await judge(folder)
  const ids = reading?.clients.map(({ parts }) => parts.client_id).join(', ') || 'none'
  const right = `Nothing is wrong: ${reading?.settings?.issuer}, clients: ${ids}.`
  const report = findings.length ? describe(findings, 'problem').trimEnd() : right
  const advice = warnings.length ? ['', describe(warnings, 'warning').trimEnd()] : []
  const record = { findings: findings.map(toRecord), warnings: warnings.map(toRecord) }
  print(values, record, [report, ...advice])
  if (findings.length) throw new Failure(`Findings: ${findings.length}.`)
}

/** By the rules of the folder; where those find nothing wrong, on the pages and by the library's. */
export async function judge(folder?: string, env?: NodeJS.ProcessEnv) {
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

export async function schema({ positionals: [folder = configFolder()] }: Invocation) {
  const target = join(folder, 'schema')
  mkdirSync(target, { recursive: true })
  for (const [name, schema] of Object.entries(jsonSchemas())) {
    writeFileSync(join(target, `${name}.json`), `${JSON.stringify(schema, null, 2)}\n`)
  }
  hint(`Written to ${target}.`)
}
