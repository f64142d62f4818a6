// Races of browsers: at the authorization endpoint, on our pages, in a session.

import { setTimeout } from 'node:timers/promises'
import { Browser } from '../support/browser.ts'
import { copyOf } from '../support/people.ts'
import { type Reply, sendAs } from '../support/wire.ts'
import { crowdRedirect, push, redeem, tokenOf, userinfo, word } from './clients.ts'
import type { Deployment } from './deployment.ts'
import {
  ALLOW,
  answer,
  authorize,
  DENY,
  isSignedIn,
  issuedBy,
  nextOf,
  OFFLINE,
  ONLINE,
  question,
  requestFor,
  signIn,
  signingIn,
  signOut,
  signOutForm,
} from './person.ts'
import { atOnce, hasCode, type Race, type Round } from './race.ts'

const GONE = /^400( interaction_gone)?$/
const ASK_WEB = { client_id: 'web', scope: OFFLINE, prompt: 'consent' }

const pushed: Race = {
  artefact: 'pushed request (request_uri)',
  grace: '30 s',
  winners: 'one',
  losers: /^\d+ invalid_request_uri$/,
  weight: 1,
  async play({ deployment: { node, issuer }, ada, turn }, n, round) {
    const request = requestFor({ issuer, address: '' }, { client_id: 'web' })
    const url = new URL(request.url)
    url.search = ''
    url.searchParams.set('client_id', 'web')
    url.searchParams.set('request_uri', await push(node(turn), request))
    const replies = await atOnce(n, i => authorize(node(i), ada, { ...request, url }))
    const [winner] = round.sort(replies, hasCode)
    if (!winner) return
    const redeemed = await redeem(node(turn + 1), issuedBy(winner, request))
    round.must(redeemed.status === 200, `its code is answered ${word(redeemed)}`)
  },
}

const resume: Race = {
  artefact: 'interaction, resumed',
  grace: '30 s',
  winners: 'one',
  losers: GONE,
  weight: 1,
  async play({ deployment: { node }, ada, turn }, n, round) {
    const asked = await question(node(turn), ada, ASK_WEB)
    const next = nextOf(await answer(node(turn + 1), ada, asked, ALLOW)) ?? ''
    round.sort(await atOnce(n, i => sendAs(ada, node(i), next)), hasCode)
  },
}

const sameConsent: Race = {
  artefact: 'consent, the same answer',
  grace: '30 s',
  winners: 'all',
  losers: /^$/,
  weight: 1,
  async play({ deployment, ada, turn }, n, round) {
    const { node } = deployment
    const asked = await question(node(turn), ada, ASK_WEB)
    const replies = await atOnce(n, i => answer(node(i), ada, asked, ALLOW))
    round.sort(replies, reply => nextOf(reply) !== undefined)
    const [last] = await goOn(deployment, ada, replies)
    round.must(last !== undefined && hasCode(last), `it led to ${last && word(last)}`)
  },
}

const otherConsent: Race = {
  artefact: 'consent, two answers',
  grace: '30 s',
  winners: 'one',
  losers: GONE,
  weight: 1,
  async play({ deployment, ada, turn }, n, round) {
    const { node } = deployment
    const asked = await question(node(turn), ada, ASK_WEB)
    const replies = await atOnce(n, i => answer(node(i), ada, asked, [ALLOW, DENY][i % 2] ?? []))
    const winner = decided(round, replies)
    const [last] = await goOn(deployment, ada, replies)
    const came = last && word(last)
    const expected = winner === 0 ? 'code' : '303 access_denied'
    round.must(came === expected, `${expected} was decided, and ${came} came`)
  },
}

const sameSignIn: Race = {
  artefact: 'sign-in, the same answer',
  grace: '30 s',
  winners: 'all',
  losers: /^$/,
  weight: 0.4,
  async play({ deployment, turn }, n, round) {
    const { asked, browser } = await stranger(deployment, turn)
    const { node } = deployment
    const replies = await atOnce(n, i => answer(node(i), browser, asked, signingIn('ada')))
    round.sort(replies, reply => nextOf(reply) !== undefined)
    const [last] = await goOn(deployment, browser, replies)
    round.must(last !== undefined && hasCode(last), `it led to ${last && word(last)}`)
  },
}

const PEOPLE = ['ada', 'grace']

const otherSignIn: Race = {
  artefact: 'sign-in, two people',
  grace: '30 s',
  winners: 'one',
  losers: GONE,
  weight: 0.4,
  async play({ deployment, turn }, n, round) {
    const { asked, browser } = await stranger(deployment, turn)
    const { node } = deployment
    const fields = PEOPLE.map(signingIn)
    const replies = await atOnce(n, i => answer(node(i), browser, asked, fields[i % 2] ?? []))
    const winner = decided(round, replies)
    const [last] = await goOn(deployment, browser, replies)
    if (!last) return
    const tokens = await redeem(node(turn), issuedBy(last, asked.request))
    const { json } = await userinfo(node(turn), tokenOf(tokens, 'access_token'))
    const expected = PEOPLE[winner]
    round.must(
      json.preferred_username === expected,
      `${expected} was first, and ${json.preferred_username} is signed in`,
    )
  },
}

/** Nobody is signed in here, and everything is allowed once somebody is. */
async function stranger({ issuer, node }: Deployment, turn: number) {
  const browser = new Browser(issuer)
  return { browser, asked: await question(node(turn), browser, { client_id: 'first' }) }
}

/** Callers take turns with two answers: gives which of them counted. Its repeats must be harmless. */
function decided(round: Round, replies: Reply[]): number {
  const taken = replies.map(reply => nextOf(reply) !== undefined)
  const answers = new Set(taken.flatMap((isTaken, i) => (isTaken ? [i % 2] : [])))
  round.winners = answers.size
  const [winner = -1] = answers
  round.losers = replies.filter((_, i) => i % 2 !== winner && !taken[i]).map(word)
  const refused = replies.find((_, i) => i % 2 === winner && !taken[i])
  round.must(!refused, `a repeat of what counted was refused: ${refused && word(refused)}`)
  return winner
}

/** Where the answers lead: all to one place, which is visited. */
async function goOn({ node }: Deployment, browser: Browser, replies: Reply[]): Promise<Reply[]> {
  const places = new Set(replies.map(nextOf).filter(next => next !== undefined))
  return Promise.all([...places].map((next, i) => sendAs(browser, node(i + 1), next)))
}

/** LO3. One more caller than `n`: the person. */
const signingOut: Race = {
  artefact: 'sign-out against authorize',
  grace: '30 s',
  winners: 'one',
  losers: /^(asked|tokens|303 login_required|code refused)$/,
  weight: 0.6,
  async play({ deployment, turn }, n, round) {
    const { node } = deployment
    const browser = await signIn(deployment)
    const form = await signOutForm(node(turn), browser)
    const tabs = Array.from({ length: n }, () => copyOf(browser))
    const ending = async () => {
      await setTimeout(turn % 16)
      return signOut(node(turn), browser, form)
    }
    const [ended, all] = await Promise.all([
      ending(),
      Promise.all(tabs.map((tab, i) => authorizeAndRedeem(deployment, tab, i))),
    ])
    round.winners = ended.status === 200 ? 1 : 0
    round.losers = all.map(({ came }) => came)
    for (const [i, { access }] of all.entries()) {
      const status = access ? (await userinfo(node(i), access)).status : 401
      round.must(status === 401, 'an access token outlives the session')
    }
    const signedIn = await Promise.all([browser, ...tabs].map((tab, i) => isSignedIn(node(i), tab)))
    round.must(!signedIn.includes(true), 'somebody is still signed in')
    const request = requestFor(node(turn), { prompt: 'none' })
    for (const tab of tabs.slice(0, 3)) {
      const silently = word(await authorize(node(turn), tab, request))
      round.must(silently === '303 login_required', `prompt=none is answered ${silently}`)
    }
  },
}

/** What a browser and its application do that know of no sign-out. */
async function authorizeAndRedeem({ node }: Deployment, tab: Browser, i: number) {
  const request = requestFor(node(i))
  const reply = await authorize(node(i), tab, request)
  if (!hasCode(reply)) return { came: word(reply) }
  const redeemed = await redeem(node(i + 1), issuedBy(reply, request))
  if (redeemed.status === 200) return { came: 'tokens', access: tokenOf(redeemed, 'access_token') }
  const isRefused = word(redeemed) === '400 invalid_grant'
  return { came: isRefused ? 'code refused' : word(redeemed) }
}

/** SE8: each for a client of its own. */
const crowd: Race = {
  artefact: 'clients in one session',
  grace: '30 s',
  winners: 'all',
  losers: /^$/,
  weight: 0.6,
  async play({ deployment, turn }, n, round) {
    const { node } = deployment
    const browser = await signIn(deployment, PEOPLE[turn % 2])
    const requests = Array.from({ length: n }, (_, i) =>
      requestFor(node(0), {
        client_id: `crowd${i}`,
        redirect_uri: crowdRedirect(i),
        scope: ONLINE,
      }),
    )
    const replies = await Promise.all(
      requests.map((request, i) => authorize(node(i), browser, request)),
    )
    round.sort(replies, hasCode)
    const kept = await authorizationsOf(deployment, browser)
    const missing = requests.filter(({ client_id }) => !kept[client_id]?.grantId)
    round.must(missing.length === 0, `${missing.length} entries of the session are missing`)
    for (const [i, reply] of replies.entries()) {
      const request = requests[i]
      if (!request || !hasCode(reply)) continue
      const redeemed = await redeem(node(i + 1), issuedBy(reply, request))
      round.must(redeemed.status === 200, `a code is answered ${word(redeemed)}`)
    }
  },
}

/** What the session of this browser says of clients, as it is kept. */
async function authorizationsOf({ records, issuer }: Deployment, { jar }: Browser) {
  const cookies = await jar.getCookies(issuer)
  const id = cookies.find(({ key }) => key === 'usher_session')?.value ?? ''
  const { value: pointer } = await records.read<{ uid: string }>('SessionId', id)
  const { value: session } = await records.read<{
    authorizations?: Record<string, { grantId?: string } | undefined>
  }>('Session', pointer?.uid ?? '')
  return session?.authorizations ?? {}
}

export const SESSION_RACES = [
  pushed,
  resume,
  sameConsent,
  otherConsent,
  sameSignIn,
  otherSignIn,
  signingOut,
  crowd,
]
