// The config folder: is it right, and the schemas that help to write it.

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ConfigError } from '../config/report.ts'
import { jsonSchemas } from '../config/schema.ts'
import { configFolder, readSettings } from '../config/settings.ts'
import { checkSettings } from '../oidc/check.ts'
import { Failure, hint, type Invocation, print } from './command.ts'

export async function check({ values, positionals: [folder] }: Invocation) {
  try {
    const settings = readSettings(undefined, folder)
    await checkSettings(settings)
    const { issuer, clients } = settings
    print(values, { findings: [] }, [
      `Nothing is wrong: ${issuer}, clients: ${clients.map(({ client_id }) => client_id).join(', ') || 'none'}.`,
    ])
  } catch (error) {
    if (!(error instanceof ConfigError) || !values.json) throw error
    print(values, { findings: error.findings }, [])
    throw new Failure(`${error.findings.length} findings`)
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
