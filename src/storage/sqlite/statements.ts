// What is asked of the SQLite file, prepared once.

import type { DatabaseSync } from 'node:sqlite'

const SCHEMA = `
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = FULL;
  CREATE TABLE IF NOT EXISTS records (
    key TEXT PRIMARY KEY, value BLOB, version INTEGER NOT NULL, consumed INTEGER, expires INTEGER,
    companions TEXT
  ) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS records_expires ON records (expires) WHERE expires IS NOT NULL;
  CREATE TABLE IF NOT EXISTS entries (
    name TEXT, key TEXT, expires INTEGER, PRIMARY KEY (name, key)
  ) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS entries_key ON entries (key);
  CREATE INDEX IF NOT EXISTS entries_expires ON entries (expires) WHERE expires IS NOT NULL;
`

/** Makes what is missing, in an older file too. */
export function makeTables(db: DatabaseSync) {
  db.exec(SCHEMA)
  const named = db.prepare("SELECT 1 FROM pragma_table_info('records') WHERE name = 'companions'")
  if (named.get()) return
  // Of several that start together one makes it.
  db.exec('BEGIN IMMEDIATE')
  if (!named.get()) db.exec('ALTER TABLE records ADD COLUMN companions TEXT')
  db.exec('COMMIT')
}

export function prepare(db: DatabaseSync) {
  const live = '(expires IS NULL OR expires > ?)'
  const whole = `SELECT key, value, version, consumed, expires,
    (SELECT group_concat(name, ' ') FROM entries e WHERE e.key = records.key) indexes FROM records`
  const listed = `SELECT r.key, r.value, r.version, r.consumed FROM entries e
    JOIN records r ON r.key = e.key
    WHERE e.name = ? AND r.value IS NOT NULL AND (r.expires IS NULL OR r.expires > ?)`
  const sweep = (table: string, key: string) =>
    `DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM ${table} WHERE expires <= ? LIMIT ?)`
  // The one that every request asks, some of them often: an array is had for a third less.
  const get = db.prepare(`SELECT value, version, consumed, companions FROM records
    WHERE key = ? AND ${live}`)
  get.setReturnArrays(true)
  return {
    get,
    put: db.prepare(`INSERT OR REPLACE INTO records (key, value, version, consumed, expires, companions)
      VALUES (?, ?, ?, ?, ?, ?)`),
    index: db.prepare('INSERT OR REPLACE INTO entries (name, key, expires) VALUES (?, ?, ?)'),
    reindex: db.prepare('UPDATE entries SET expires = ? WHERE key = ?'),
    unindex: db.prepare('DELETE FROM entries WHERE key = ?'),
    consume: db.prepare(`UPDATE records SET consumed = ?, version = version + 1
      WHERE key = ? AND consumed IS NULL AND value IS NOT NULL AND ${live}`),
    remove: db.prepare(`UPDATE records SET value = NULL, consumed = NULL, companions = NULL,
      version = version + 1, expires = ? WHERE key = ?`),
    list: db.prepare(listed),
    walk: db.prepare(`${listed} AND e.key > ? ORDER BY e.key LIMIT ?`),
    scan: db.prepare(`${whole} WHERE key > ? AND ${live} ORDER BY key LIMIT ?`),
    snapshot: db.prepare(`${whole} WHERE key = ? AND ${live}`),
    sweepEntries: db.prepare(sweep('entries', 'name, key')),
    sweepRecords: db.prepare(sweep('records', 'key')),
  }
}
