// Many accounts at once, in and out.

import { createReadStream, type ReadStream, statSync } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { IdTaken, type OwnDirectory, UsernameTaken } from '../accounts/directory.ts'
import { readLine, WrongLine, writeLine } from '../accounts/transfer.ts'
import { reasonOf } from '../storage/store.ts'
import { Failure, hint, type Invocation, optionalArgument, sayProgress } from './command.ts'
import { withDirectory } from './directory.ts'

/** Lines that are taken in together: the store commits them together. */
const CHUNK = 100
/** Characters; a file without line breaks is none of ours. */
const LONGEST_LINE = 2 ** 20

/** Each line by itself: what is wrong with one keeps out none of the others. */
export async function take(invocation: Invocation) {
  const file = optionalArgument(invocation, 'FILE')
  const input = file === undefined ? process.stdin : openFile(file)
  const counts = { added: 0, present: 0, wrong: 0, empty: 0 }
  let last = 0

  await withDirectory(async (directory, leave) => {
    for await (const chunk of chunksOf(linesOf(input))) {
      const outcomes = await Promise.all(
        chunk.map(line => takeLine(directory, line).catch(error => stopped(error, last))),
      )
      for (const [i, { outcome, reason }] of outcomes.entries()) {
        counts[outcome]++
        if (reason) hint(`line ${last + i + 1}: ${reason}`)
      }
      last += chunk.length
      sayProgress('lines read', last)
    }
    if (counts.added) await leave('accounts_imported', { added: counts.added })
  })

  const { added, present, wrong } = counts
  hint(`${added} accounts are added; ${present} were there already and stay as they are.`)
  if (wrong) throw new Failure(`${wrong} lines were not taken in: fix them, and run it again.`)
}

export async function give() {
  hint('What follows holds the hashes of passwords: keep it like a secret.')
  await withDirectory(async (directory, leave) => {
    await leave('accounts_exported')
    const lines = async function* () {
      for await (const account of directory.all()) yield writeLine(account)
    }
    await pipeline(Readable.from(lines()), process.stdout, { end: false }).catch(unlessClosed)
  })
}

/** Whoever reads has enough: `head`. */
function unlessClosed(error: NodeJS.ErrnoException) {
  if (error.code !== 'EPIPE') throw error
}

interface Outcome {
  outcome: 'added' | 'present' | 'wrong' | 'empty'
  reason?: string
}

async function takeLine(directory: OwnDirectory, line: string): Promise<Outcome> {
  try {
    return { outcome: line.trim() ? await directory.transfer(await readLine(line)) : 'empty' }
  } catch (error) {
    if (error instanceof WrongLine) return { outcome: 'wrong', reason: error.message }
    if (error instanceof IdTaken) return { outcome: 'wrong', reason: `id: ${error.message}` }
    if (!(error instanceof UsernameTaken)) throw error
    return {
      outcome: 'wrong',
      reason: 'username: another account has it, or is just being given it',
    }
  }
}

function stopped(error: unknown, last: number): never {
  throw new Failure(
    `Everything up to line ${last} is taken in, then it stopped: ${reasonOf(error)}.\n` +
      'Run it again, the same way: what is there already stays as it is.',
  )
}

function openFile(file: string): ReadStream {
  if (!statSync(file, { throwIfNoEntry: false })?.isFile()) {
    throw new Failure(`There is no file ${file}.`)
  }
  return createReadStream(file)
}

/** Not by `readline`, which takes U+2028 for the end of a line: in JSON it may stand in a name. */
async function* linesOf(input: NodeJS.ReadableStream): AsyncIterable<string> {
  let rest = ''
  for await (const text of input.setEncoding('utf8')) {
    const lines = `${rest}${text}`.split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > LONGEST_LINE) throw new Failure('One object a line: this has no lines.')
    yield* lines
  }
  if (rest) yield rest
}

async function* chunksOf(lines: AsyncIterable<string>): AsyncIterable<string[]> {
  let chunk: string[] = []
  for await (const line of lines) {
    if (chunk.push(line) < CHUNK) continue
    yield chunk
    chunk = []
  }
  if (chunk.length) yield chunk
}
