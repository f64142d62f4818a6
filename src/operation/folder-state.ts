// The configuration of a running service, for the commands of operators, which
// read the folder.
//
//   FolderState current → how the folder differs from what the service uses: written while there is a difference,
//                         and again before it expires
//   ConfigLoad current  → when a process of the service last loaded its configuration: written once for each

import type { Finding } from '../config/report/finding.ts'
import type { Records } from '../store/records.ts'

const ID = 'current'
/**
 * The record outlives this by the slack of records. Then a service that ended
 * without a word is forgotten.
 */
const TTL_SECONDS = 30
/** `config check` has all findings. */
const MAX_FINDINGS = 3

/** A finding without its excerpt. An error that is none has a message only. */
export type Refusal = Partial<Finding> & Pick<Finding, 'message'>

/**
 * Differences between the folder and a running service. Times are epoch
 * seconds.
 */
export interface FolderState {
  /** The folder has errors, and the service uses what it read before. */
  refused?: { since: number; findings: Refusal[] }
  /** These keys of usher.yaml have values that take effect after a restart. */
  restart?: { since: number; keys: string[] }
}

/** `at`: epoch seconds. */
interface ConfigLoad {
  at: number
}

const configLoads = (records: Records) => records.of<ConfigLoad>('ConfigLoad')

/** Saves that a process has loaded its configuration. */
export async function saveConfigLoad(records: Records, at: number) {
  await configLoads(records).change(ID, () => ({ at }))
}

/**
 * Returns when a process last loaded its configuration (epoch seconds);
 * undefined if none ever did.
 */
export async function readConfigLoad(records: Records) {
  const { value } = await configLoads(records).read(ID)
  return value?.at
}

const folderStates = (records: Records) =>
  records.of<FolderState>('FolderState')

/** Returns the differences; none if no service runs. */
export async function readFolderState(records: Records): Promise<FolderState> {
  const { value = {} } = await folderStates(records).read(ID)
  return value
}

/**
 * Saves the differences. They expire, so that a running service repeats this.
 */
export async function saveFolderState(
  records: Records,
  state: FolderState,
): Promise<void> {
  const { refused } = state
  const findings = refused?.findings.slice(0, MAX_FINDINGS) ?? []
  const saved = { ...state, refused: refused && { ...refused, findings } }
  await folderStates(records).change(ID, () => saved, { ttl: TTL_SECONDS })
}

/**
 * Removes what a service that has ended left. Another one that still runs
 * writes its differences again.
 */
export async function forgetFolderState(records: Records): Promise<void> {
  const { refused, restart } = await readFolderState(records)
  if (refused || restart) await saveFolderState(records, {})
}
