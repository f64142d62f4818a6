// Races through the pages, and for the artefacts that lead to a code.

import { Browser } from '../../support/browser.ts'
import { type Reply, sendAs } from '../../support/wire.ts'
import { hasCode, push, redeem, tokenOf, userinfo, word } from '../clients.ts'
import type { Deployment } from '../deployment.ts'
import {
  ALLOW,
  ASK_WEB,
  answer,
  authorize,
  DENY,
  issuedBy,
  nextOf,
  question,
  requestFor,
  signingIn,
} from '../users.ts'
import { atOnce, type Race, type Round } from './race.ts'

const GONE = /^400 interaction_gone$/

const pushed: Race = {
  artefact: 'pushed request (request_uri)',
  proves: 'a request_uri works once',
  winners: 'one',
  losers: /^\d+ invalid_request_uri$/,
  async play({ deployment, node, ada, turn }, n, round) {
    const request = await push(node(turn), requestFor(deployment, { client_id: 'web' }))
    const replies = await atOnce(n, i => authorize(node(i), ada, request))
    const [winner] = round.sort(replies, hasCode)
    if (!winner) return
    const redeemed = await redeem(node(turn + 1), issuedBy(winner, request))
    round.must(redeemed.status === 200, `its code returned ${word(redeemed)}`)
  },
}

const resume: Race = {
  artefact: 'interaction, resumed',
  proves: 'an interaction leads to one code',
  winners: 'one',
  losers: GONE,
  async play({ node, ada, turn }, n, round) {
    const asked = await question(node(turn), ada, ASK_WEB)
    const next = nextOf(await answer(node(turn + 1), ada, asked, ALLOW)) ?? ''
    round.sort(await atOnce(n, i => sendAs(ada, node(i), next)), hasCode)
  },
}

const sameConsent: Race = {
  artefact: 'consent, the same answer',
  proves: 'a consent sent again has the same result',
  winners: 'all',
  async play({ deployment, node, ada, turn }, n, round) {
    const asked = await question(node(turn), ada, ASK_WEB)
    const replies = await atOnce(n, i => answer(node(i), ada, asked, ALLOW))
    round.sort(replies, reply => nextOf(reply) !== undefined)
    const [last] = await goOn(deployment, ada, replies)
    round.must(last !== undefined && hasCode(last), `it led to ${last && word(last)}`)
  },
}

const otherConsent: Race = {
  artefact: 'consent, two answers',
  proves: 'the first answer to the consent page decides',
  winners: 'one',
  losers: GONE,
  async play({ deployment, node, ada, turn }, n, round) {
    const asked = await question(node(turn), ada, ASK_WEB)
    const replies = await atOnce(n, i => answer(node(i), ada, asked, [ALLOW, DENY][i % 2] ?? []))
    const winner = decided(round, replies)
    const [last] = await goOn(deployment, ada, replies)
    const outcome = last && word(last)
    const expected = winner === 0 ? 'code' : '303 access_denied'
    round.must(outcome === expected, `the decision was ${expected}, the response ${outcome}`)
  },
}

const sameSignIn: Race = {
  artefact: 'sign-in, the same answer',
  proves: 'a sign-in sent again has the same result',
  winners: 'all',
  async play({ deployment, node, turn }, n, round) {
    const { asked, browser } = await stranger(deployment, turn)
    const replies = await atOnce(n, i => answer(node(i), browser, asked, signingIn('ada')))
    round.sort(replies, reply => nextOf(reply) !== undefined)
    const [last] = await goOn(deployment, browser, replies)
    round.must(last !== undefined && hasCode(last), `it led to ${last && word(last)}`)
  },
}

const USERNAMES = ['ada', 'grace']

const otherSignIn: Race = {
  artefact: 'sign-in, two users',
  proves: 'an interaction signs in one account',
  winners: 'one',
  losers: GONE,
  async play({ deployment, node, turn }, n, round) {
    const { asked, browser } = await stranger(deployment, turn)
    const fields = USERNAMES.map(signingIn)
    const replies = await atOnce(n, i => answer(node(i), browser, asked, fields[i % 2] ?? []))
    const winner = decided(round, replies)
    const [last] = await goOn(deployment, browser, replies)
    if (!last) return
    const tokens = await redeem(node(turn), issuedBy(last, asked.request))
    const { json } = await userinfo(node(turn), tokenOf(tokens, 'access_token'))
    const expected = USERNAMES[winner]
    round.must(
      json.preferred_username === expected,
      `${expected} was first, and ${json.preferred_username} is signed in`,
    )
  },
}

/** Opens the sign-in page in a new browser, for a client that needs no consent. */
async function stranger({ issuer, node }: Deployment, turn: number) {
  const browser = new Browser(issuer)
  return { browser, asked: await question(node(turn), browser, { client_id: 'first' }) }
}

/**
 * Callers alternate between two answers. Returns the index of the accepted answer. A repetition of the
 * accepted answer must succeed.
 */
function decided(round: Round, replies: Reply[]): number {
  const taken = replies.map(reply => nextOf(reply) !== undefined)
  const answers = new Set(taken.flatMap((isTaken, i) => (isTaken ? [i % 2] : [])))
  round.winners = answers.size
  const [winner = -1] = answers
  round.losers = replies.filter((_, i) => i % 2 !== winner && !taken[i]).map(word)
  const refused = replies.find((_, i) => i % 2 === winner && !taken[i])
  round.must(!refused, `a repeated answer was refused: ${refused && word(refused)}`)
  return winner
}

/** Follows the redirects of the replies, which all lead to one place. */
async function goOn({ node }: Deployment, browser: Browser, replies: Reply[]): Promise<Reply[]> {
  const places = new Set(replies.map(nextOf).filter(next => next !== undefined))
  return Promise.all([...places].map((next, i) => sendAs(browser, node(i + 1), next)))
}

export const PAGE_RACES = [pushed, resume, sameConsent, otherConsent, sameSignIn, otherSignIn]
