// What is asked of the SQLite file, prepared once.

import type { DatabaseSync } from 'node:sqlite'

const SCHEMA = `
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = FULL;
  CREATE TABLE IF NOT EXISTS records (
    key TEXT PRIMARY KEY, value BLOB, version INTEGER NOT NULL, consumed INTEGER, expires INTEGER
  ) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS records_expires ON records (expires) WHERE expires IS NOT NULL;
  CREATE TABLE IF NOT EXISTS entries (
    name TEXT, key TEXT, expires INTEGER, PRIMARY KEY (name, key)
  ) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS entries_key ON entries (key);
  CREATE INDEX IF NOT EXISTS entries_expires ON entries (expires) WHERE expires IS NOT NULL;
`

export const makeTables = (db: DatabaseSync) => db.exec(SCHEMA)

export function prepare(db: DatabaseSync) {
  const live = '(expires IS NULL OR expires > ?)'
  const whole = `SELECT key, value, version, consumed, expires,
    (SELECT group_concat(name, ' ') FROM entries e WHERE e.key = records.key) indexes FROM records`
  const listed = `SELECT r.key, r.value, r.version, r.consumed FROM entries e
    JOIN records r ON r.key = e.key
    WHERE e.name = ? AND r.value IS NOT NULL AND (r.expires IS NULL OR r.expires > ?)`
  const sweep = (table: string, key: string) =>
    `DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM ${table} WHERE expires <= ? LIMIT ?)`
  return {
    get: db.prepare(`SELECT key, value, version, consumed FROM records WHERE key = ? AND ${live}`),
    put: db.prepare(`INSERT OR REPLACE INTO records (key, value, version, consumed, expires)
      VALUES (?, ?, ?, ?, ?)`),
    index: db.prepare('INSERT OR REPLACE INTO entries (name, key, expires) VALUES (?, ?, ?)'),
    reindex: db.prepare('UPDATE entries SET expires = ? WHERE key = ?'),
    unindex: db.prepare('DELETE FROM entries WHERE key = ?'),
    consume: db.prepare(`UPDATE records SET consumed = ?, version = version + 1
      WHERE key = ? AND consumed IS NULL AND value IS NOT NULL AND ${live}`),
    remove: db.prepare(`UPDATE records SET value = NULL, consumed = NULL,
      version = version + 1, expires = ? WHERE key = ?`),
    list: db.prepare(listed),
    walk: db.prepare(`${listed} AND e.key > ? ORDER BY e.key LIMIT ?`),
    scan: db.prepare(`${whole} WHERE key > ? AND ${live} ORDER BY key LIMIT ?`),
    snapshot: db.prepare(`${whole} WHERE key = ? AND ${live}`),
    sweepEntries: db.prepare(sweep('entries', 'name, key')),
    sweepRecords: db.prepare(sweep('records', 'key')),
  }
}
