// A rule about a file is a row: its name, the key that the finding is about,
// and the condition under which it is broken. report/messages.json has the
// message of each rule.
//
// The folder config/rules/: a file for each kind of file, with its rules. Not
// here: messages of rows, and rules about one key, which its schema has.

import type { Finding, Locate } from '../report/finding.ts'
import { featureOff, messageOf, type RuleName } from '../report/wording.ts'

/**
 * The keys of a file: `a`, or `a.b` of a map. `a.NAME` for any name that an
 * operator gives.
 */
export type KeyOf<Value> = {
  [K in keyof Value & string]-?: K | `${K}.${KeyIn<NonNullable<Value[K]>>}`
}[keyof Value & string]
type KeyIn<Value> = Value extends unknown[]
  ? number
  : Value extends object
    ? KeyOf<Value>
    : never

/** A file or a registration whose content is checked. */
export interface Checked<Value> {
  file: string
  value: Value
  /** Makes a finding in the file. */
  at: Locate
}

/** The rules whose message needs no value but the file and the key. */
type RowRule = Exclude<RuleName, 'feature-off' | 'no-effect'>

interface RuleOfKey<Value, Context> {
  rule: RowRule
  /** The key of the finding. */
  at: KeyOf<Value>
  /** Whether the rule is broken. */
  when(value: Value, context: Context): unknown
}

/** A key that needs a setting of usher.yaml. */
interface RuleOfSetting<Value, Context> {
  rule: 'feature-off' | 'introspection-off'
  /** The setting that is off, as `section.name`. */
  setting: string
  at: KeyOf<Value>
  /** Whether the key is used while the setting is off. */
  when(value: Value, context: Context): unknown
}

interface RuleOfKeys<Value, Context> {
  rule: RowRule
  /** Returns the keys that break the rule. An item of a list is `a.0`. */
  where(value: Value, context: Context): KeyOf<Value>[]
}

/**
 * A rule about the content of a file. `Context`: what else the rule looks at.
 */
export type Rule<Value, Context = unknown> =
  | RuleOfKey<Value, Context>
  | RuleOfSetting<Value, Context>
  | RuleOfKeys<Value, Context>

/** Returns a finding for each broken rule, in the order of the rules. */
export function brokenRules<Value, Context>(
  rules: Rule<Value, Context>[],
  { file, value, at }: Checked<Value>,
  context: Context,
): Finding[] {
  return rules.flatMap(row => {
    const keys = keysThatBreak(row, value, context)
    return keys.map(key =>
      at(key.split('.'), row.rule, messageOfRow(row, file, key)),
    )
  })
}

const messageOfRow = <Value, Context>(
  row: Rule<Value, Context>,
  file: string,
  key: string,
) =>
  'setting' in row ? featureOff(row.setting) : messageOf(row.rule, file, key)

function keysThatBreak<Value, Context>(
  row: Rule<Value, Context>,
  value: Value,
  context: Context,
): string[] {
  if ('where' in row) return row.where(value, context)
  return row.when(value, context) ? [row.at] : []
}

/** Returns the keys of the items of a list that fit, as `key.0`. */
export function itemsWhere<Key extends string, Item>(
  key: Key,
  items: Item[] = [],
  fits: (item: Item) => boolean,
): `${Key}.${number}`[] {
  return items.flatMap((item, i) =>
    fits(item) ? [`${key}.${i}` as const] : [],
  )
}
