// Measures how many of many parallel guesses are checked, and whether the user can still sign in.

import { signedIn } from '../../support/people.ts'
import { PASSWORD } from '../../support/usher.ts'
import type { Deployment } from '../deployment.ts'
import {
  attempt,
  newAddress,
  openSignInPage,
  PROXY,
  type SignInPage,
  watched,
} from './sign-in-page.ts'

const GUESSES = 200
/** Guesses without a wait. */
const FREE_GUESSES = 5
export const GUESSES_SETTINGS = { ...PROXY, security: { account_attempts: FREE_GUESSES } }
/** The wait after the free guesses. It doubles with each further guess. */
const FIRST_WAIT_SECONDS = 5

interface Guesses {
  /** Concurrent guesses, each from another network. */
  guesses: number
  /** Guesses whose password was checked. */
  checked: number
  /** The free guesses, and one for each wait that ended before the last response. */
  allowed: number
  /** Seconds until the last response. */
  seconds: number
  /** Concurrent sign-ins of the user with the right password, in a remembered browser. */
  tried: number
  succeeded: number
}

export async function measureGuesses(deployment: Deployment): Promise<Guesses> {
  const remembered = await signedIn(deployment)
  const before = await deployment.auditEvents('sign_in_failed')
  const guessing = guess(deployment)
  const open = () => openSignInPage(deployment, remembered)
  const signIns = await signInRepeatedly(deployment, open, guessing)
  const { guesses, seconds } = await guessing
  const checked = (await deployment.auditEvents('sign_in_failed')) - before
  const allowed = FREE_GUESSES + Math.floor(Math.log2(seconds / FIRST_WAIT_SECONDS + 1))
  return { guesses, checked, allowed, seconds, ...signIns }
}

async function guess(deployment: Deployment) {
  const page = await openSignInPage(deployment)
  const started = performance.now()
  const one = (_: unknown, i: number) =>
    attempt(deployment.node(i), page, 'ada', undefined, newAddress())
  const answers = await Promise.all(Array.from({ length: GUESSES }, one))
  const unexpected = answers.find(({ status }) => status !== 400 && status !== 503)
  if (unexpected) throw new Error(`a guess returned ${unexpected.status}`)
  return { guesses: answers.length, seconds: (performance.now() - started) / 1000 }
}

/** Signs the user in repeatedly until `guessing` has ended, and once more. */
async function signInRepeatedly(
  deployment: Deployment,
  open: () => Promise<SignInPage>,
  guessing: Promise<unknown>,
) {
  const guesses = watched(guessing)
  let tried = 0
  let succeeded = 0
  for (let isLast = false; !isLast && tried < 1000; ) {
    isLast = guesses.isOver
    const page = await open()
    const { status } = await attempt(deployment.node(tried), page, 'ada', PASSWORD)
    // 503: the queue is full, and the provider did not count the attempt.
    if (status === 503) continue
    tried++
    if (status === 200) succeeded++
  }
  return { tried, succeeded }
}
