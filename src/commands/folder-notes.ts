// Differences between the folder, which commands read, and what the running
// service uses.

import { placeOf } from '../config/report/finding.ts'
import { type Refusal, readFolderState } from '../operation/folder-state.ts'
import { openRecordsOfService } from './open-store.ts'
import { type Flags, hint, print, secondOf } from './output.ts'

/**
 * Returns a sentence for each difference. None if no service runs, or if the
 * store cannot be read.
 */
export async function folderNotes(): Promise<string[]> {
  const records = await openRecordsOfService().catch(() => undefined)
  if (!records) return []
  const { refused, restart } = await readFolderState(records)
  const notes: string[] = []
  if (refused) {
    const since = secondOf(refused.since)
    const found = refused.findings.map(describeRefusal).join('; ')
    notes.push(
      `The running service does not use this folder since ${since}: ${found}`,
    )
  }
  if (restart) {
    const keys = restart.keys.join(', ')
    notes.push(
      `The running service has other values of these keys until it is restarted: ${keys}`,
    )
  }
  return notes
}

function describeRefusal({
  file,
  line,
  column,
  key,
  message,
}: Refusal): string {
  const said = key ? `${key}: ${message}` : message
  return file === undefined
    ? said
    : `${placeOf({ file, line, column })} ${said}`
}

/** Prints the notes to standard error, for a command whose output is a list. */
export async function hintFolderNotes(): Promise<void> {
  for (const note of await folderNotes()) hint(note)
}

/**
 * Prints a record as `print` does, with the notes before it: in JSON as
 * `running_service`.
 */
export function printWithNotes(
  flags: Flags,
  notes: string[],
  record: object,
  lines: string[],
): void {
  const noted = notes.length ? { running_service: notes, ...record } : record
  print(flags, noted, [...notes, ...lines])
}
