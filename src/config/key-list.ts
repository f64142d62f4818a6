// Every key that a file of the folder can have, as its JSON Schema describes
// it.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { z } from 'zod'
import { isMap, mapOf } from '../store/values.ts'
import { localePaths } from './schema/locale.ts'
import { SCHEMAS } from './schema/usher.ts'

type Node = z.core.JSONSchema.JSONSchema

/** A key of a kind of file. */
export interface Key extends Node {
  /** `lifetimes.code` */
  path: string
  file: string
  /** Its value before defaults. */
  written: unknown
}

let made: Record<string, Node> | undefined
/** Creates the JSON Schemas when an explanation needs them. */
const nodes = () => (made ??= jsonSchemas())

/** Where a key can stand. */
type KeyPlace = Pick<Key, 'file' | 'path'>

let places: KeyPlace[] | undefined
/**
 * Returns where each key of every file can stand. A report asks for this at
 * each unknown key. Without the JSON Schemas: a running service that reports
 * findings would stop for them, and keep them in memory.
 */
export const allPlaces = (): KeyPlace[] => (places ??= listPlaces())

function listPlaces(): KeyPlace[] {
  const files = Object.keys(SCHEMAS) as (keyof typeof SCHEMAS)[]
  return files.flatMap(file => {
    const paths = file === 'locale' ? localePaths() : pathsIn(SCHEMAS[file])
    return paths.map(path => ({ file, path }))
  })
}

/** Returns the paths of all keys below a schema. */
function pathsIn(schema: z.core.$ZodType, above = ''): string[] {
  return Object.entries(partsOf(schema)).flatMap(([name, part]) => {
    const path = above + name
    return isOpaque(name) ? [path] : [path, ...pathsIn(part, `${path}.`)]
  })
}

/** Returns the keys of a map with their schemas; `NAME` is any name. */
function partsOf(schema: z.core.$ZodType): Record<string, z.core.$ZodType> {
  if (schema instanceof z.ZodObject) return schema.shape
  if (schema instanceof z.ZodRecord) return { NAME: schema.valueType }
  if (schema instanceof z.ZodPipe) return partsOf(schema.in)
  const isWrapped =
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodPrefault
  return isWrapped ? partsOf(schema.unwrap()) : {}
}

/** Whether the keys below this one belong to another standard. */
const isOpaque = (name: string) => name === 'jwks' || name === 'schema'

/**
 * Returns the keys of a file. Those that operators name are the written ones,
 * or `NAME` without a file.
 */
export function keysOf(file: string, written?: object): Key[] {
  const walk = (node: Node, data: unknown, above: string): Key[] => {
    const { properties = {}, additionalProperties: named } = node
    const given = written ? Object.keys(mapOf(data)) : ['NAME']
    const names = typeof named === 'object' ? given : Object.keys(properties)
    return names.flatMap(name => {
      const written = mapOf(data)[name]
      const key: Key = {
        ...mapOf(properties[name] ?? named),
        file,
        path: above + name,
        written,
      }
      return isOpaque(name)
        ? [key]
        : [key, ...walk(key, written, `${key.path}.`)]
    })
  }
  return walk(nodes()[file] ?? {}, written, '')
}

/** Returns the file of a key, relative to the folder. */
export function fileOf({ file }: KeyPlace): string {
  return IN_FOLDERS.includes(file) ? `${file}s/NAME.yaml` : `${file}.yaml`
}

/** Kinds of files with a folder. */
const IN_FOLDERS = ['client', 'resource', 'detail', 'upstream']

/** Returns the places where a key of this name is valid. */
export function placesOf(name: string): string[] {
  const end = `.${name}`
  const isNamed = ({ file, path }: KeyPlace) =>
    file !== 'locale' && (path === name || path.endsWith(end))
  const keys = allPlaces().filter(isNamed)
  return keys.map(key => `${key.path} in ${fileOf(key)}`)
}

/** A store is a URL that may contain a password. A picture is long. */
const SECRET =
  /^(.*secret.*|jwks|importedKeys|pictures|store|.*password_file)$/i

/** Whether the value at a path is never shown. */
export const isSecret = (path: string[]) => path.some(name => SECRET.test(name))

/**
 * A private key (PEM or JWK), or a URL with a password: at the wrong place in a
 * file.
 */
const MISPLACED = /-----BEGIN|"d\\*":|\/\/[^/?#\s"]*:[^/?#\s"]*@/

/**
 * Whether a value contains a private key or a password, whatever its key is.
 */
export const containsSecret = (value: unknown) =>
  MISPLACED.test(JSON.stringify(value) ?? '')

/**
 * Returns the JSON Schemas for editors, with the descriptions. They describe
 * the files as written, before defaults.
 */
export function jsonSchemas() {
  const file = readFileSync(
    join(import.meta.dirname, 'schema/descriptions.yaml'),
    'utf8',
  )
  const texts: Record<string, Texts> = parse(file)
  const schemas = Object.entries(SCHEMAS).map(([name, schema]) => {
    return [
      name,
      described(z.toJSONSchema(schema, { io: 'input' }), texts[name]),
    ]
  })
  return Object.fromEntries(schemas)
}

/**
 * Descriptions by the paths of keys. A key that the operator names is `NAME`
 * there.
 */
type Texts = Record<string, string>

/** Adds the descriptions to the keys of a JSON Schema, and returns it. */
function described<N>(node: N, texts: Texts = {}, above = ''): N {
  const { properties, additionalProperties: NAME } = mapOf(node)
  for (const [name, part] of Object.entries(
    isMap(NAME) ? { NAME } : mapOf(properties),
  )) {
    const path = above + name
    if (texts[path]) Object.assign(mapOf(part), { description: texts[path] })
    described(part, texts, `${path}.`)
  }
  return node
}
