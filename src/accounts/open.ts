// Which directory a configuration names.

import type { UsherFile } from '../config/schema/usher.ts'
import type { Records } from '../storage/records.ts'
import { createDirectory, type Directory } from './directory.ts'
import { createHttpDirectory } from './http-directory.ts'

export function openDirectory(
  { accounts }: Pick<UsherFile, 'accounts'>,
  records: Records,
): Directory {
  return accounts.http ? createHttpDirectory(records, accounts.http) : createDirectory(records)
}
