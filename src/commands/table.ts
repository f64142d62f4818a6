// All commands: commands.json has their arguments, options and help. `usage` there has the arguments, and then the
// options. The file of a command exports a function with the name of its verb.

import { mapOf } from '../store/values.ts'
import type { Invocation } from './command.ts'
import texts from './commands.json' with { type: 'json' }

type Run = (invocation: Invocation) => Promise<void>

/** The file of each command: the first that fits. It is loaded when the command is called: no command waits for others. */
const FILES: [commands: RegExp, load: () => Promise<object>][] = [
  [/^accounts (export|import|invite|link)$/, () => import('./transfer.ts')],
  [/^accounts why$/, () => import('./why.ts')],
  [/^accounts /, () => import('./accounts.ts')],
  [/^clients /, () => import('./clients.ts')],
  [/^config explain$/, () => import('./explain.ts')],
  [/^config /, () => import('./config.ts')],
  [/^doctor$/, () => import('./doctor.ts')],
  [/^grants /, () => import('./grants.ts')],
  [/^keys /, () => import('./keys.ts')],
  [/^pages /, () => import('./pages.ts')],
  [/^sessions /, () => import('./sessions.ts')],
  [/^store (backup|restore)$/, () => import('./backup.ts')],
  [/^store /, () => import('./store.ts')],
]

async function load(name: string): Promise<Run> {
  const [, file] = FILES.find(([commands]) => commands.test(name)) ?? []
  return mapOf(await file?.())[name.replace(/.* /, '')] as Run
}

/** All commands by name, in the order of the help. */
export const COMMANDS = Object.entries(texts).map(([name, { usage, about }]) => {
  return { name, usage: `${name} ${usage}`.trim(), about, load: () => load(name) }
})
/** A command with its help. */
export type Command = (typeof COMMANDS)[number]
