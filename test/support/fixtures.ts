// `test` with an Usher, started once for each file, so that a test begins with its subject.

import { test as base, onTestFinished, vi } from 'vitest'
import { explainFailure } from '../../src/commands/failure.ts'
import { findFailure } from '../../src/operation/failures.ts'
import { required } from '../../src/store/values.ts'
import { Browser } from './browser.ts'
import { PATIENCE_MS } from './patience.ts'
import { ADA, startUsher, type Usher, type UsherOptions } from './usher.ts'

/** The Usher of the current test file. The tests and their helper functions use these variables. */
export let usher: Usher
export let browser: Browser
/** The account ids of these users. */
export let ada: string
export let grace: string
export let alan: string

interface Opening extends UsherOptions {
  /** Default: Ada. */
  accounts?: { username: string; attributes?: object }[]
  /** Opens the browser; pass `signedIn` for a browser that is signed in. */
  browser?: (usher: Usher) => Promise<Browser>
}

/** Returns `test` for a file whose Usher needs other options. */
export const usherTest = (opening: Opening | (() => Opening | Promise<Opening>)) =>
  base
    .extend('opening', { scope: 'file' }, typeof opening === 'function' ? opening : () => opening)
    .extend('usher', { scope: 'file', auto: true }, async ({ opening }, { onCleanup }) => {
      const { accounts = [ADA], ...options } = opening
      usher = await startUsher(options)
      onCleanup(() => usher.close())
      const ids: Record<string, string> = {}
      for (const account of accounts) ids[account.username] = (await usher.addAccount(account)).id
      ;({ ada = '', grace = '', alan = '' } = ids)
      browser = (await opening.browser?.(usher)) ?? new Browser(usher.issuer)
      return usher
    })

export const test = usherTest({})

/** Starts another Usher, which ends with the current test. */
export async function startAnother(options: UsherOptions = {}): Promise<Usher> {
  const another = await startUsher(options)
  onTestFinished(() => another.close())
  return another
}

/** Ends all access of these accounts, and removes their consents. */
export async function endAccessOf(...accountIds: string[]) {
  for (const id of accountIds) {
    await usher.directory.endAccess(id)
    await usher.consents.removeAll(id)
  }
}

/** Moves the clock forward until the end of the test. Timers do not run. */
export function moveClock(seconds: number) {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + seconds * 1000 })
  onTestFinished(() => void vi.useRealTimers())
}

/** The audit events that were logged while `act` ran. */
export async function auditEventsOf(act: () => Promise<unknown>) {
  const before = usher.auditEvents().length
  await act()
  return usher.auditEvents().slice(before)
}

/** What `config explain` says about a failed request. Waits for its record. */
export async function explanationOf({ records, settings }: Usher, requestId: string) {
  const find = async () => required(await findFailure(records, requestId))
  return explainFailure({ failure: await vi.waitFor(find, PATIENCE_MS), settings })
}
