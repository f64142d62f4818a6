// `test` with a whole Usher, which is started once for each file: a test begins with what it is about.

import { test as base } from 'vitest'
import { Browser } from './browser.ts'
import { ADA, startUsher, type Usher, type UsherOptions } from './usher.ts'

/** The Usher of the file that runs. Its tests use these variables, and so do their helper functions. */
export let usher: Usher
export let browser: Browser
/** Ids of the accounts with these names. */
export let ada: string
export let grace: string
export let alan: string

interface Opening extends UsherOptions {
  /** Ada alone, if nothing else is said. */
  accounts?: { username: string }[]
  /** Opens the browser: `signedIn`, if it is to be signed in. */
  browser?: (usher: Usher) => Promise<Browser>
}

/** For a file whose Usher has other options than those of most tests. */
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
