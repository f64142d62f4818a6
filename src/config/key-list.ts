// Every key that may stand in the folder, with what the schema says of it.

import { basename } from 'node:path'
import { jsonSchemas } from './schema/usher.ts'
import { mapOf } from './schema/values.ts'

/** JSON Schema, as far as it is read here. */
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

export interface Key extends Node {
  /** `lifetimes.code` */
  path: string
  file: string
  /** What stands there. */
  written: unknown
}

/** Made when a report or an explanation asks for it: most starts do not. */
let made: { nodes: Record<string, Node>; keys: Key[]; paths: Set<string> } | undefined

function all() {
  if (made) return made
  const nodes = jsonSchemas() as Record<string, Node>
  const keys = Object.keys(nodes).flatMap(file => keysIn(nodes[file], file))
  made = { nodes, keys, paths: new Set(keys.map(({ path }) => path)) }
  return made
}

/** Those of every file. */
export const allKeys = () => all().keys

/** The keys of a file; those that operators name are the written ones, without a file NAME. */
export const keysOf = (file: string, written?: object) => keysIn(all().nodes[file], file, written)

const nodeOf = (node: Node | boolean | undefined) => (typeof node === 'object' ? node : undefined)

function keysIn(root: Node | undefined, file: string, written?: object): Key[] {
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
  return walk(root ?? {}, written, '')
}

/** The keys that may stand at a path; those of a record are anybody's. */
export function keysAt(file: string, path: PropertyKey[]): string[] {
  const root = all().nodes[file]
  let node = root
  for (const name of path) {
    const { properties, additionalProperties, items } = node ?? {}
    const next = properties?.[String(name)] ?? nodeOf(additionalProperties) ?? items ?? {}
    node = root?.$defs?.[basename(next.$ref ?? '')] ?? next
  }
  return Object.keys(node?.properties ?? {})
}

/** Where in the folder a key stands. */
export const placeOf = ({ file }: Pick<Key, 'file'>) =>
  `${['client', 'resource', 'detail'].includes(file) ? `${file}s/NAME` : file}.yaml`

/** A store is a URL that may hold a password. */
const SECRET = /^(client_secret.*|jwks|secrets|importedKeys|store|.*password.*)$/

/** Whether what stands at a path is never shown. */
export const isSecret = (path: string[]) => path.some(name => SECRET.test(name))

/** Whether a path, without the places in lists, is one of a key in some file. */
export function isKnown(path: string[]): boolean {
  const [first = '', ...below] = path
  // A JSON Schema has keys at every depth.
  if (first === 'schema') return true
  // `client_name#de` is known as `client_name`.
  const [top = ''] = first.split('#')
  return [
    [top, ...below],
    [top, 'NAME', ...below.slice(1)],
  ].some(names => all().paths.has(names.join('.')))
}
