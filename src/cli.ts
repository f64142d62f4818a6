// The command line: finds the command in the table, reads its words, and runs it.

import { parseArgs } from 'node:util'
import { Failure, hint, type Invocation, opened } from './commands/command.ts'
import { COMMANDS, type Command } from './commands/table.ts'
import { didYouMean } from './config/report/wording.ts'
import { reasonOf, StoreUnavailable } from './store/store.ts'

async function main(argv: string[]): Promise<number> {
  const [noun = 'help', verb = ''] = argv.filter(word => word !== '--help')
  const command = COMMANDS.find(({ name }) => name === noun || name === `${noun} ${verb}`)
  if (!command || argv.includes('--help')) return help(command, noun, verb)
  try {
    const invocation = readInvocation(command, argv.slice(command.name.split(' ').length))
    const run = await command.load()
    await run(invocation)
    return 0
  } catch (error) {
    hint(inWords(error))
    return 1
  } finally {
    await opened.disposeAsync()
  }
}

/** Reads the words behind the name. Throws a `Failure` for those that are missing, wrong or too much. */
function readInvocation({ name, usage }: Command, words: string[]): Invocation {
  const [described = '', ...rest] = usage.slice(name.length).split(/ \[?(?=--)/)
  // An option with a value is written `--name VALUE`.
  const options = Object.fromEntries(
    rest.map(text => {
      const [, option = '', value] = /^--(?:\[no-\])?([\w-]+)( \w)?/.exec(text) ?? []
      return [option, { type: value ? 'string' : 'boolean' } as const]
    }),
  )
  // A kid (RFC 7638) may begin with `-`. It is an argument, because its command has no options.
  const args = rest.length ? words : ['--', ...words.filter(word => word !== '--')]
  try {
    const config = { args, options, allowPositionals: true, allowNegative: true }
    const { values, positionals } = parseArgs(config)
    const all = described.match(/\[[^\]]+\]|\S+/g) ?? []
    const missing = all.filter(argument => !argument.startsWith('['))[positionals.length]
    if (missing) throw new Error(`${missing} is missing.`)
    // `[ATTRIBUTE…]` takes any number.
    const most = described.includes('…]') ? positionals.length : all.length
    const surplus = positionals.slice(most).join(' ')
    if (surplus) throw new Error(`${surplus} is too much.`)
    return { values, args: positionals }
  } catch (error) {
    throw new Failure(`${reasonOf(error)}\n\nusage: npm run usher -- ${usage}`)
  }
}

/**
 * Prints help for one command, one noun, or all; short for an unknown noun. Returns the exit code: 2 for an
 * unknown command.
 */
function help(command: Command | undefined, noun: string, verb: string): number {
  const ofNoun = COMMANDS.filter(({ name }) => name.startsWith(`${noun} `))
  const nouns = [...new Set(COMMANDS.map(({ name }) => name.replace(/ .*/, '')))]
  const isKnown = command || noun === 'help' || (ofNoun.length > 0 && !verb)
  const shown = command ? [command] : ofNoun.length ? ofNoun : COMMANDS
  const lines = shown.map(({ usage, about }) => `  ${usage}\n      ${about}\n`)
  const text = `npm run usher -- NOUN VERB …\n\n${lines.join('')}`
  const given = `${noun} ${verb}`.trim()
  const near = didYouMean(given, [...COMMANDS.map(({ name }) => name), ...nouns])
  const short = `Commands: ${nouns.join(', ')}. All of them: npm run usher -- help\n`
  if (isKnown) process.stdout.write(text)
  else
    process.stderr.write(
      `Unknown command: ${given}${near || '.'}\n${ofNoun.length ? `\n${text}` : short}`,
    )
  return isKnown ? 0 : 2
}

/** Names of errors whose message is for the operator. Most commands do not load their modules. */
const PLAIN = ['ConfigError', 'Failure', 'InvalidAccount']

function inWords(error: unknown): string {
  if (error instanceof Error && PLAIN.includes(error.name)) return error.message
  if (!(error instanceof StoreUnavailable)) return `The command failed: ${reasonOf(error)}`
  return `Not finished: ${reasonOf(error)}.\nFix it and run the command again.`
}

process.exitCode = await main(process.argv.slice(2))
