// Why an operation failed: the server that was unavailable, or the file that
// cannot be used.

import { StoreUnavailable } from './store.ts'

/**
 * Another server that the answer depends on is unavailable: the accounts, an
 * upstream issuer, a client.
 */
export class PeerUnavailable extends StoreUnavailable {
  override name = 'PeerUnavailable'
  override error_description =
    'another server is unavailable; nothing is wrong with the request'
}

/**
 * Returns the unavailable store or server that an error is, or that caused it.
 */
export function outageIn(error: unknown): StoreUnavailable | undefined {
  if (error instanceof StoreUnavailable) return error
  return error instanceof Error ? outageIn(error.cause) : undefined
}

/** Errors of files in words, by their codes. */
const FILE_PROBLEMS: Record<string, string | undefined> = {
  EACCES: 'cannot be opened: this user has no permission',
  EPERM: 'cannot be opened: this user has no permission',
  EISDIR: 'is a folder',
  ENOENT: 'was not found',
  ENOTDIR: 'was not found: a part of its path is a file',
  ELOOP: 'is a link that leads to itself',
  ENAMETOOLONG: 'has a name that is too long',
  EROFS: 'cannot be written: the disk is read-only',
  ENOSPC: 'cannot be written: the disk is full',
  EDQUOT: 'cannot be written: the quota of the disk is used up',
  EMFILE: 'cannot be opened: this process has too many open files',
}

/** The reason of an error for operators, who may see more than clients. */
export function reasonOf(error: unknown): string {
  if (error instanceof StoreUnavailable) return error.error_detail
  if (!(error instanceof Error)) return String(error)
  const { code = '', path, syscall } = error as NodeJS.ErrnoException
  const problem = syscall === undefined ? undefined : FILE_PROBLEMS[code]
  // Errors of connections have codes like these, and no such call.
  const isOfFile =
    problem !== undefined &&
    !/^(connect|getaddrinfo|listen|bind)/.test(syscall ?? '')
  return isOfFile ? `${path ?? 'the file'} ${problem}` : error.message
}
