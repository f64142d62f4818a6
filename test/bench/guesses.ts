// Guesses: how many of many guesses are checked, and whether the user can still sign in.

import { type Deployment, deploy, type Shape } from '../races/deployment.ts'
import { signIn } from '../races/user.ts'
import { PASSWORD } from '../support/usher.ts'
import { attempt, PROXY, somewhere, visit } from './visitor.ts'

const GUESSES = 200
const FREE = 5
/** Seconds, doubling. */
const FIRST_WAIT = 5

export interface Guesses {
  deployment: string
  guesses: number
  /** Of `guesses` at once, from as many networks. */
  looked: number
  /** Those that are free, and those whose wait was over before the last was answered. */
  allowed: number
  /** Seconds until the last of them was answered. */
  seconds: number
  /** Times that the owner tried to sign in meanwhile, in a browser of theirs; and got in. */
  tried: number
  in: number
}

export async function measureGuesses(shape: Shape): Promise<Guesses> {
  const deployment = await deploy(shape, {}, { ...PROXY, security: { account_attempts: FREE } })
  try {
    const owner = await signIn(deployment)
    const before = await deployment.facts('sign_in_failed')
    const guessing = guess(deployment)
    const meanwhile = await signInAgain(deployment, () => visit(deployment, owner), guessing)
    const { guesses, seconds } = await guessing
    const looked = (await deployment.facts('sign_in_failed')) - before
    const allowed = FREE + Math.floor(Math.log2(seconds / FIRST_WAIT + 1))
    return { deployment: deployment.name, guesses, looked, allowed, seconds, ...meanwhile }
  } finally {
    await deployment.stop()
  }
}

async function guess(deployment: Deployment) {
  const visitor = await visit(deployment)
  const started = performance.now()
  const one = (_: unknown, i: number) =>
    attempt(deployment.node(i), visitor, 'ada', undefined, somewhere())
  const answers = await Promise.all(Array.from({ length: GUESSES }, one))
  const odd = answers.find(({ status }) => status !== 400 && status !== 503)
  if (odd) throw new Error(`a guess was answered ${odd.status}`)
  return { guesses: answers.length, seconds: (performance.now() - started) / 1000 }
}

/** As long as the others guess, and once more. */
async function signInAgain(
  deployment: Deployment,
  arrive: () => ReturnType<typeof visit>,
  guessing: Promise<unknown>,
) {
  let isOver = false
  let tried = 0
  let got = 0
  const end = guessing.finally(() => {
    isOver = true
  })
  for (let last = false; !last && tried < 1000; ) {
    last = isOver
    const visitor = await arrive()
    const { status } = await attempt(deployment.node(tried), visitor, 'ada', PASSWORD)
    // A full queue says to come again, and nothing was counted.
    if (status === 503) continue
    tried++
    if (status === 200) got++
  }
  await end
  return { tried, in: got }
}
