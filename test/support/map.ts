// Reads the pictures of flows in docs/architecture.md, and compares them with what ran.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Ran } from './inspector.ts'

export const MAP = join(import.meta.dirname, '../../docs/architecture.md')
const PLACE = 'docs/architecture.md'

interface Participant {
  line: number
  name: string
  /** Files and folders of src; empty for a client, a browser, the library. */
  paths: string[]
}

interface Arrow {
  line: number
  to: string
  /** The functions that its text names. */
  functions: string[]
}

interface Picture {
  participants: Participant[]
  arrows: Arrow[]
  /** The rows below the picture: each has the files of a participant. */
  rows: { line: number; label: string; files: string[] }[]
  /** The line at which the rows begin. */
  start: number
}

const HEAD = '| Participant | Files that run |'

/** Reads the picture and the list of a flow. Throws if there is none. */
export function pictureOf(page: string, flow: string): Picture {
  const lines = page.split('\n')
  const start = lines.indexOf(`<!-- ran: ${flow} -->`)
  const end = lines.indexOf('<!-- end -->', start)
  const top = lines.lastIndexOf('```mermaid', start)
  if (top < 0 || end < 0) throw new Error(`${PLACE} has no picture of the flow "${flow}"`)
  const numbered = lines.map((text, index) => ({ text, line: index + 1 }))
  const picture = numbered.slice(top, start)
  return {
    participants: picture.flatMap(participantOf),
    arrows: picture.flatMap(arrowOf),
    rows: numbered.slice(start, end).flatMap(rowOf),
    start: start + 1,
  }
}

interface Line {
  text: string
  line: number
}

function participantOf({ text, line }: Line): Participant[] {
  const [, name, label = ''] = /^ *(?:participant|actor) (\w+)(?: as (.*))?$/.exec(text) ?? []
  if (!name) return []
  const paths = label.split(', ').filter(path => /\/$|\.ts$/.test(path))
  return [{ line, name, paths }]
}

function arrowOf({ text, line }: Line): Arrow[] {
  const [, to, label = ''] = /^ *\w+-?->>(\w+): (.*)$/.exec(text) ?? []
  if (!to) return []
  return [{ line, to, functions: [...label.matchAll(/(\w+)\(\)/g)].map(([, name = '']) => name) }]
}

function rowOf({ text, line }: Line) {
  const [, label = '', files = ''] = /^\| `([^|]*)` \| ([^|]*) \|$/.exec(text) ?? []
  return label ? [{ line, label, files: files.replaceAll('`', '').split(', ') }] : []
}

/** Returns the page with the lists of the files that ran. */
export function withLists(page: string, flows: Map<string, Ran>): string {
  return [...flows].reduce((text, [flow, ran]) => {
    const begin = `<!-- ran: ${flow} -->`
    if (!text.includes(begin)) return text
    const { participants } = pictureOf(text, flow)
    const rows = ours(participants).map(one => rowText(one, filesOf(one, participants, ran)))
    const [before = '', after = ''] = text.split(begin)
    const rest = after.slice(after.indexOf('<!-- end -->'))
    return `${before}${begin}\n\n${[HEAD, '|---|---|', ...rows].join('\n')}\n\n${rest}`
  }, page)
}

function rowText(participant: Participant, files: string[]): string {
  return `| \`${labelOf(participant)}\` | ${files.map(file => `\`${file}\``).join(', ')} |`
}

/** The participant with the longest path that leads to a file. */
function ownerOf(file: string, participants: Participant[]): Participant | undefined {
  const fit = participants.flatMap(participant => {
    const path = participant.paths.find(path => path === file || isBelow(file, path))
    return path ? [{ participant, length: path.length }] : []
  })
  return fit.sort((left, right) => right.length - left.length)[0]?.participant
}

const isBelow = (file: string, path: string) => path.endsWith('/') && file.startsWith(path)

/** The files of a participant that ran, without its folder. */
function filesOf(participant: Participant, participants: Participant[], ran: Ran): string[] {
  const own = [...ran.keys()].filter(file => ownerOf(file, participants) === participant)
  const [folder = ''] = participant.paths
  return own.map(file => (isBelow(file, folder) ? file.slice(folder.length) : file)).toSorted()
}

/** What differs between the list below a picture and what ran, each with the line to change. */
export function listProblems(page: string, flow: string, ran: Ran): string[] {
  const { participants, rows, start } = pictureOf(page, flow)
  return ours(participants).flatMap(participant => {
    const files = filesOf(participant, participants, ran)
    const row = rows.find(({ label }) => label === labelOf(participant))
    const listed = row?.files ?? []
    const place = `${PLACE}:${row?.line ?? start}`
    const missing = files.filter(file => !listed.includes(file))
    const idle = listed.filter(file => !files.includes(file))
    return [
      ...missing.map(file => `${place}: add ${file}, which ran`),
      ...idle.map(file => `${place}: remove ${file}, which did not run`),
    ]
  })
}

/** What differs between a picture and what ran, each with the line to change. */
export function pictureProblems(page: string, flow: string, ran: Ran): string[] {
  const { participants, arrows, start } = pictureOf(page, flow)
  const homeless = [...ran.keys()].filter(file => !ownerOf(file, participants))
  const idle = ours(participants).filter(one => !filesOf(one, participants, ran).length)
  const wrong = arrows.flatMap(arrow => {
    const to = ours(participants).find(({ name }) => name === arrow.to)
    return to ? wrongFunctions(arrow, to, participants, ran) : []
  })
  return [
    ...homeless.map(file => `${PLACE}:${start}: above, no participant has ${file}, which ran`),
    ...idle.map(one => `${PLACE}:${one.line}: remove ${labelOf(one)}: no file of it ran`),
    ...wrong,
  ]
}

/** The participants that are parts of Usher. */
const ours = (all: Participant[]) => all.filter(({ paths }) => paths.length > 0)
const labelOf = ({ paths }: Participant) => paths.join(', ')

/** An arrow to a part of Usher names functions of it that ran. */
function wrongFunctions(
  { line, functions }: Arrow,
  to: Participant,
  participants: Participant[],
  ran: Ran,
): string[] {
  const own = [...ran].filter(([file]) => ownerOf(file, participants) === to)
  const names = own.flatMap(([, functions]) => [...functions].map(plainName))
  const known = [...new Set(names)].filter(Boolean).toSorted().join(', ')
  const of = labelOf(to)
  if (!functions.length)
    return [`${PLACE}:${line}: name a function of ${of}, as in read(). These ran: ${known}`]
  return functions
    .filter(name => !names.includes(name))
    .map(name => `${PLACE}:${line}: ${name}() did not run in ${of}. These did: ${known}`)
}

/** `compareClientSecret` of `prototype.compareClientSecret@2047`. */
const plainName = (name: string) => name.replace(/@.*$/, '').replace(/^.*\./, '')

export const readMap = () => readFileSync(MAP, 'utf8')
