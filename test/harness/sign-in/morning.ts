// Measures how long users wait who all sign in at the same moment, and a request of an application meanwhile.

import { setTimeout } from 'node:timers/promises'
import pLimit from 'p-limit'
import { PASSWORD } from '../../support/usher.ts'
import { quantile } from '../bench/statistics.ts'
import { userinfo } from '../clients.ts'
import type { Deployment } from '../deployment.ts'
import { families } from '../users.ts'
import { attempt, newAddress, openSignInPage, watched } from './sign-in-page.ts'

/** Users sign in from several browsers, where there are more browsers. */
const ACCOUNTS = 200
const PAGES_AT_ONCE = 8
const USERINFO_PAUSE_MS = 20

interface Morning {
  /** Sign-ins that succeeded, and the seconds until so many of them as are wanted. */
  served: number
  seconds: number
  /** Sign-ins that were answered with the page that asks to try again. */
  refused: number
  /** UserInfo during the sign-ins, in milliseconds. */
  p99: number
}

/** Signs in with so many browsers at once. `wanted`: of them should be served. */
export async function measureMorning(
  deployment: Deployment,
  browsers: number,
  wanted: number,
): Promise<Morning> {
  const names = Array.from({ length: ACCOUNTS }, (_, i) => `user${i}`)
  await deployment.addAccounts(names.map(username => ({ username })))
  const [tokens] = await families(deployment, 1)
  const open = () => openSignInPage(deployment)
  const pages = await pLimit(PAGES_AT_ONCE).map(Array(browsers).fill(0), open)
  const started = performance.now()
  const signIns = pages.map(async (page, i) => {
    const name = names[i % names.length] ?? ''
    const { status } = await attempt(deployment.node(0), page, name, PASSWORD, newAddress())
    return { status, seconds: (performance.now() - started) / 1000 }
  })
  const ended = Promise.all(signIns)
  const times = await readUserInfo(deployment, tokens?.access ?? '', ended)
  const answers = await ended
  const served = answers.filter(({ status }) => status === 200)
  const inOrder = served.map(({ seconds }) => seconds).toSorted((one, other) => one - other)
  return {
    served: served.length,
    seconds: inOrder[wanted - 1] ?? Number.POSITIVE_INFINITY,
    refused: answers.filter(({ status }) => status === 503).length,
    p99: quantile(times, 0.99),
  }
}

/** Requests UserInfo until `ended` has resolved. Returns the durations in milliseconds. */
async function readUserInfo({ node }: Deployment, token: string, ended: Promise<unknown>) {
  const times: number[] = []
  const signIns = watched(ended)
  while (!signIns.isOver) {
    const started = performance.now()
    const { status } = await userinfo(node(0), token)
    if (status !== 200) throw new Error(`UserInfo returned ${status}`)
    times.push(performance.now() - started)
    await setTimeout(USERINFO_PAUSE_MS)
  }
  return times
}
