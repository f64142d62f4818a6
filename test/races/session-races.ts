// Races in one session: who ends it against who uses it, and many who use it.

import { setTimeout } from 'node:timers/promises'
import type { Browser } from '../support/browser.ts'
import { copyOf } from '../support/people.ts'
import type { Reply } from '../support/wire.ts'
import { crowdRedirect, redeem, tokenOf, userinfo, word } from './clients.ts'
import type { Deployment } from './deployment.ts'
import {
  authorize,
  formAt,
  isSignedIn,
  issuedBy,
  ONLINE,
  requestFor,
  signIn,
  signOut,
  signOutForm,
  submit,
} from './person.ts'
import { hasCode, type Race } from './race.ts'

/** Makes ready what ends the session of this browser. */
type Ending = (
  deployment: Deployment,
  browser: Browser,
  turn: number,
) => Promise<() => Promise<Reply>>

/** One more caller than `n`: the person. */
const againstAuthorize = (what: string, proves: string, prepare: Ending): Race => ({
  artefact: `${what} against authorize`,
  proves,
  grace: '30 s',
  winners: 'one',
  losers: /^(asked|tokens|303 login_required|code refused)$/,
  weight: 0.6,
  async play({ deployment, turn }, n, round) {
    const { node } = deployment
    const browser = await signIn(deployment)
    const end = await prepare(deployment, browser, turn)
    const tabs = Array.from({ length: n }, () => copyOf(browser))
    const ending = async () => {
      await setTimeout(turn % 16)
      return end()
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
})

const signingOut = againstAuthorize(
  'sign-out',
  'an ended session has no tokens',
  async ({ node }, browser, turn) => {
    const form = await signOutForm(node(turn), browser)
    return () => signOut(node(turn), browser, form)
  },
)

const endingOthers = againstAuthorize(
  'sign-out from elsewhere',
  'an ended session has no tokens',
  async (deployment, _, turn) => {
    const elsewhere = await signIn(deployment)
    const form = await formAt(
      deployment.node(turn),
      elsewhere,
      '/account/sessions/end?session=others',
    )
    return () => submit(deployment.node(turn), elsewhere, form)
  },
)

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

/** Each for a client of its own. */
const crowd: Race = {
  artefact: 'clients in one session',
  proves: 'parallel authorizations of a session succeed',
  grace: '30 s',
  winners: 'all',
  losers: /^$/,
  weight: 0.6,
  async play({ deployment }, n, round) {
    const { node } = deployment
    const browser = await signIn(deployment)
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
  const { value: pointer } = await records.read<{ uid: string }>('SessionCookie', id)
  const { value: session } = await records.read<{
    authorizations?: Record<string, { grantId?: string } | undefined>
  }>('Session', pointer?.uid ?? '')
  return session?.authorizations ?? {}
}

export const SESSION_RACES = [signingOut, endingOthers, crowd]
