// Every key that a file of the folder can have, as its JSON Schema describes it.

import { basename } from 'node:path'
import { jsonSchemas } from './schema/usher.ts'
import { mapOf } from './schema/values.ts'

/** A JSON Schema, as far as it is read here. */
interface Node {
  properties?: Record<string, Node>
  additionalProperties?: Node | boolean
  items?: Node
  $ref?: string
  $defs?: Record<string, Node>
  description?: string
  default?: unknown
  enum?: unknown[]
}

/** A key of a kind of file. */
export interface Key extends Node {
  /** `lifetimes.code` */
  path: string
  file: string
  /** Its value before defaults. */
  written: unknown
}

let made: Record<string, Node> | undefined

/** Creates the schemas when a report or an explanation needs them: most starts do not. */
const nodes = () => (made ??= jsonSchemas() as Record<string, Node>)

/** Returns the keys of every file. */
export const allKeys = () => Object.keys(nodes()).flatMap(file => keysOf(file))

const nodeOf = (node: Node | boolean | undefined) => (typeof node === 'object' ? node : undefined)

/** Returns the keys of a file. Those that operators name are the written ones, or `NAME` without a file. */
export function keysOf(file: string, written?: object): Key[] {
  const walk = (node: Node, data: unknown, above: string): Key[] => {
    const { properties, additionalProperties: named } = node
    const given = written ? Object.keys(mapOf(data)) : ['NAME']
    const names = typeof named === 'object' ? given : Object.keys(properties ?? {})
    return names.flatMap(name => {
      const key = { ...(properties?.[name] ?? nodeOf(named)), file, path: above + name }
      const below = mapOf(data)[name]
      const isOpaque = name === 'jwks' || name === 'schema'
      return [{ ...key, written: below }, ...(isOpaque ? [] : walk(key, below, `${key.path}.`))]
    })
  }
  return walk(nodes()[file] ?? {}, written, '')
}

/** Returns the names of the keys below a path. */
export function keysAt(file: string, path: PropertyKey[]): string[] {
  const root = nodes()[file]
  let node = root
  for (const name of path) {
    const { properties, additionalProperties, items } = node ?? {}
    const next = properties?.[String(name)] ?? nodeOf(additionalProperties) ?? items ?? {}
    node = root?.$defs?.[basename(next.$ref ?? '')] ?? next
  }
  return Object.keys(node?.properties ?? {})
}

/** Returns the file of a key, relative to the folder. */
export const placeOf = ({ file }: Pick<Key, 'file'>) =>
  `${['client', 'resource', 'detail'].includes(file) ? `${file}s/NAME` : file}.yaml`

/** A store is a URL that may contain a password. */
const SECRET = /^(.*secret.*|jwks|importedKeys|store|.*password.*)$/

/** Whether the value at a path is never shown. */
export const isSecret = (path: string[]) => path.some(name => SECRET.test(name))
