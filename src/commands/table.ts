// All commands: the function of each. commands.json has their arguments, options and help. `usage` there has the
// arguments, and then the options.

import type { Invocation } from './command.ts'
import texts from './commands.json' with { type: 'json' }

type Run = (invocation: Invocation) => Promise<void>
type Name = keyof typeof texts

/** The functions. The file of a command is loaded when it is called, so that no command waits for the others. */
const FUNCTIONS: Record<Name, () => Promise<Run>> = {
  'accounts add': async () => (await import('./accounts.ts')).add,
  'accounts invite': async () => (await import('./transfer.ts')).invite,
  'accounts list': async () => (await import('./accounts.ts')).list,
  'accounts show': async () => (await import('./accounts.ts')).show,
  'accounts why': async () => (await import('./why.ts')).why,
  'accounts set': async () => (await import('./accounts.ts')).set,
  'accounts find': async () => (await import('./accounts.ts')).list,
  'accounts link': async () => (await import('./transfer.ts')).link,
  'accounts unlink': async () => (await import('./accounts.ts')).unlink,
  'accounts disable': async () => (await import('./accounts.ts')).disable,
  'accounts enable': async () => (await import('./accounts.ts')).enable,
  'accounts password': async () => (await import('./accounts.ts')).password,
  'accounts factors': async () => (await import('./factors.ts')).factors,
  'accounts remove': async () => (await import('./accounts.ts')).remove,
  'accounts import': async () => (await import('./transfer.ts')).importAccounts,
  'accounts export': async () => (await import('./transfer.ts')).exportAccounts,
  'clients add': async () => (await import('./clients.ts')).add,
  'clients list': async () => (await import('./clients.ts')).list,
  'clients show': async () => (await import('./clients.ts')).show,
  'clients secret': async () => (await import('./clients.ts')).secret,
  'clients invite': async () => (await import('./clients.ts')).invite,
  'clients invitations': async () => (await import('./clients.ts')).invitations,
  'clients uninvite': async () => (await import('./clients.ts')).uninvite,
  'clients end': async () => (await import('./clients.ts')).end,
  'clients remove': async () => (await import('./clients.ts')).remove,
  'config check': async () => (await import('./config.ts')).check,
  'config explain': async () => (await import('./explain.ts')).explain,
  'config schema': async () => (await import('./config.ts')).schema,
  doctor: async () => (await import('./doctor.ts')).doctor,
  'grants list': async () => (await import('./access.ts')).listGrants,
  'grants withdraw': async () => (await import('./access.ts')).withdraw,
  'keys list': async () => (await import('./keys.ts')).list,
  'keys rotate': async () => (await import('./keys.ts')).rotate,
  'keys retire': async () => (await import('./keys.ts')).retire,
  'sessions list': async () => (await import('./access.ts')).listSessions,
  'sessions end': async () => (await import('./access.ts')).endSession,
  'pages preview': async () => (await import('./pages.ts')).preview,
  'store copy': async () => (await import('./store.ts')).copy,
  'store backup': async () => (await import('./backup.ts')).backup,
  'store restore': async () => (await import('./backup.ts')).restore,
  'store reseal': async () => (await import('./store.ts')).reseal,
}

/** All commands by name, in the order of the help. */
export const COMMANDS = Object.entries(texts).map(([name, { usage, about }]) => {
  return { name, usage: `${name} ${usage}`.trim(), about, load: FUNCTIONS[name as Name] }
})
/** A command with its help. */
export type Command = (typeof COMMANDS)[number]
