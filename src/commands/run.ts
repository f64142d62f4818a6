// Finds a command in the table, reads its words, and runs it.

import { parseArgs } from 'node:util'
import { didYouMean } from '../config/report/wording.ts'
import { reasonOf } from '../store/reasons.ts'
import { StoreUnavailable } from '../store/store.ts'
import { Failure, type Invocation } from './command.ts'
import { closeStores } from './open-store.ts'
import { hint } from './output.ts'
import { type Argument, COMMANDS, type Command, type Option } from './table.ts'

/** Runs a command. Returns its exit code. `words`: its name and what follows. */
export async function runCommand(words: string[]): Promise<number> {
  const [noun = 'help', verb = ''] = words.filter(word => word !== '--help')
  const command = COMMANDS.find(
    ({ name }) => name === noun || name === `${noun} ${verb}`,
  )
  if (!command) return helpWithout(noun, verb)
  if (words.includes('--help')) return printHelp([command])
  try {
    const wordsOfName = command.name.split(' ').length
    const invocation = readInvocation(command, words.slice(wordsOfName))
    const run = await command.load()
    await run(invocation)
    return 0
  } catch (error) {
    hint(describeError(error))
    return 1
  } finally {
    await closeStores()
  }
}

/**
 * Reads the words behind the name. Throws a `Failure` for those that are
 * missing, wrong or too much.
 */
function readInvocation(command: Command, words: string[]): Invocation {
  const { args = [], options = [] } = command
  const all = options.flatMap(option =>
    option.with ? [option, option.with] : [option],
  )
  const types = all.map(({ name, kind }) => [name, { type: TYPES[kind] }])
  // A kid (RFC 7638) may begin with `-`. It is an argument, because its command
  // has no options.
  const parsed = all.length
    ? joinDashedValues(words, all)
    : ['--', ...words.filter(word => word !== '--')]
  try {
    const given = parseArgs({
      args: parsed,
      options: Object.fromEntries(types),
      allowPositionals: true,
      allowNegative: true,
    })
    checkArguments(args, given.positionals)
    const invocation: Invocation = {
      values: {},
      flags: {},
      args: given.positionals,
    }
    for (const [name, value] of Object.entries(given.values)) {
      if (typeof value === 'string') invocation.values[name] = value
      if (typeof value === 'boolean') invocation.flags[name] = value
    }
    return invocation
  } catch (error) {
    throw new Failure(
      `${reasonOf(error)}\n\nusage: npm run usher -- ${describeUsage(command)}`,
    )
  }
}

/**
 * Writes `--remove -Tz4` as `--remove=-Tz4`: an id may begin with `-`, and
 * `parseArgs` takes such a word for another option.
 */
function joinDashedValues(words: string[], options: Option[]): string[] {
  const takesValue = (word?: string) =>
    options.some(({ name, kind }) => kind === 'text' && word === `--${name}`)
  const joined: string[] = []
  for (const word of words) {
    const before = joined.at(-1)
    if (takesValue(before) && /^-[^-]/.test(word))
      joined[joined.length - 1] = `${before}=${word}`
    else joined.push(word)
  }
  return joined
}

const TYPES = { text: 'string', flag: 'boolean' } as const

/** Throws for an argument that is missing, and for words that are too much. */
function checkArguments(args: Argument[], given: string[]): void {
  const required = args.filter(({ isOptional }) => !isOptional)
  const missing = required[given.length]
  if (missing) throw new Error(`${missing.name} is missing.`)
  if (args.some(({ isRepeated }) => isRepeated)) return
  const surplus = given.slice(args.length).join(' ')
  if (surplus) throw new Error(`${surplus} is too much.`)
}

/** `accounts why ACCOUNT [--client CLIENT_ID] [--json]`. */
function describeUsage({ name, args = [], options = [] }: Command): string {
  return [
    name,
    ...args.map(describeArgument),
    ...options.map(describeOption),
  ].join(' ')
}

function describeArgument({ name, isOptional, isRepeated }: Argument): string {
  const shown = isRepeated ? `${name}…` : name
  return isOptional ? `[${shown}]` : shown
}

function describeOption(option: Option): string {
  const parts = option.with ? [option, option.with] : [option]
  const shown = parts.map(nameWithValue).join(' ')
  return option.isRequired ? shown : `[${shown}]`
}

function nameWithValue(option: Option): string {
  const name = option.isNegatable ? `--[no-]${option.name}` : `--${option.name}`
  return option.kind === 'text' ? `${name} ${option.value}` : name
}

/**
 * Prints help for one noun, or for all. An unknown command gets it on standard
 * error, and the exit code 2.
 */
function helpWithout(noun: string, verb: string): number {
  if (noun === 'help') return printHelp(COMMANDS)
  const ofNoun = COMMANDS.filter(({ name }) => name.startsWith(`${noun} `))
  if (ofNoun.length && !verb) return printHelp(ofNoun)
  const names = COMMANDS.map(({ name }) => name)
  const nouns = [...new Set(names.map(name => name.replace(/ .*/, '')))]
  const given = `${noun} ${verb}`.trim()
  const near = didYouMean(given, [...names, ...nouns]) || '.'
  const all = `Commands: ${nouns.join(', ')}. All of them: npm run usher -- help\n`
  const help = ofNoun.length ? `\n${describeCommands(ofNoun)}` : all
  process.stderr.write(`Unknown command: ${given}${near}\n${help}`)
  return 2
}

function printHelp(commands: Command[]): number {
  process.stdout.write(describeCommands(commands))
  return 0
}

function describeCommands(commands: Command[]): string {
  const rows = commands.map(
    command => `  ${describeUsage(command)}\n      ${command.about}\n`,
  )
  return `npm run usher -- NOUN VERB …\n\n${rows.join('')}`
}

/**
 * Names of errors whose message is for the operator. Most commands do not load
 * their modules.
 */
const FOR_OPERATORS = ['ConfigError', 'Failure', 'InvalidAccount']

function describeError(error: unknown): string {
  if (error instanceof Error && FOR_OPERATORS.includes(error.name))
    return error.message
  if (!(error instanceof StoreUnavailable))
    return `The command failed: ${reasonOf(error)}`
  return `Not finished: ${reasonOf(error)}.\nFix it and run the command again.`
}
