// Races at the token endpoint.

import { setTimeout } from 'node:timers/promises'
import type { Browser } from '../support/browser.ts'
import { signAssertion } from '../support/keyed.ts'
import { removalOf } from '../support/people.ts'
import { PASSWORD } from '../support/usher.ts'
import type { Reply } from '../support/wire.ts'
import { redeem, refresh, tokenOf, useAssertion, userinfo, word } from './clients.ts'
import type { Deployment, Node } from './deployment.ts'
import { allowWeb, family, formAt, isSignedIn, signIn, silentCode, submit } from './person.ts'
import { atOnce, isOk, type Race, type Round } from './race.ts'

const INVALID_GRANT = /^400 invalid_grant$/

/** Nothing of a family works any more, on any of the processes. */
async function mustBeDead(
  { node }: Deployment,
  round: Round,
  dead: { access: string[]; refresh: string[] },
) {
  const access = await atOnce(dead.access.length, i => userinfo(node(i), dead.access[i] ?? ''))
  round.must(
    access.every(({ status }) => status === 401),
    `an access token still works: ${access.map(word)}`,
  )
  for (const [i, token] of dead.refresh.entries()) {
    const answer = word(await refresh(node(i), token))
    round.must(INVALID_GRANT.test(answer), `a refresh token is answered ${answer}`)
  }
}

const code: Race = {
  artefact: 'authorization code',
  proves: 'reuse of a code revokes its tokens',
  grace: '30 s',
  winners: 'one',
  losers: INVALID_GRANT,
  weight: 1,
  async play({ deployment, ada, turn }, n, round) {
    const { node } = deployment
    const issued = await silentCode(node(turn), ada, { client_id: 'web', scope: 'openid' })
    const replies = await atOnce(n, i => redeem(node(i), issued))
    const won = round.sort(replies, isOk)
    const access = won.map(reply => tokenOf(reply, 'access_token'))
    // Whoever came second may be its owner (RFC 6749 §4.1.2).
    await mustBeDead(deployment, round, { access, refresh: [] })
  },
}

const strictRefresh: Race = {
  artefact: 'refresh token, grace 0',
  proves: 'reuse of a refresh token revokes its family',
  grace: '0 s',
  winners: 'one',
  losers: INVALID_GRANT,
  weight: 1,
  theft: true,
  async play({ deployment, ada, turn }, n, round) {
    const { node } = deployment
    const first = await family(node(turn), ada)
    const replies = await atOnce(n, i => refresh(node(i), first.refresh))
    const won = round.sort(replies, isOk)
    await mustBeDead(deployment, round, {
      access: [first.access, ...won.map(reply => tokenOf(reply, 'access_token'))],
      refresh: won.map(reply => tokenOf(reply, 'refresh_token')),
    })
  },
}

const gracefulRefresh: Race = {
  artefact: 'refresh token, grace 30 s',
  proves: 'within the grace, retries get the same token',
  grace: '30 s',
  winners: 'all',
  losers: /^$/,
  weight: 1,
  theft: true,
  async play({ deployment, ada, turn }, n, round) {
    const { node } = deployment
    const first = await family(node(turn), ada)
    const replies = await atOnce(n, i => refresh(node(i), first.refresh))
    const won = round.sort(replies, isOk)
    const successors = new Set(won.map(reply => tokenOf(reply, 'refresh_token')))
    round.must(successors.size === 1, `${successors.size} successors`)
    const [successor = ''] = successors
    round.must(successor !== first.refresh, 'it was not replaced')
    const next = await refresh(node(turn + 1), successor)
    round.must(isOk(next), `the successor is answered ${word(next)}`)
    // Whoever comes with the first one now is too late, and everyone loses.
    const late = word(await refresh(node(turn + 2), first.refresh))
    round.must(INVALID_GRANT.test(late), `the first one, after its successor, is answered ${late}`)
    await mustBeDead(deployment, round, {
      access: [first.access, ...[...won, next].map(reply => tokenOf(reply, 'access_token'))],
      refresh: [tokenOf(next, 'refresh_token'), successor],
    })
  },
}

const assertion: Race = {
  artefact: 'client assertion (jti)',
  proves: 'a client assertion works once',
  grace: '30 s',
  winners: 'one',
  losers: /^401 invalid_client$/,
  weight: 1,
  async play({ deployment: { node, issuer } }, n, round) {
    const signed = await signAssertion(issuer)
    const replies = await atOnce(n, i => useAssertion(node(i), signed))
    round.sort(replies, reply => INVALID_GRANT.test(word(reply)))
  },
}

/** Makes ready what ends all that an application has of Ada: done in her browser, or by an operator. */
type Ending = (
  deployment: Deployment,
  ada: Browser,
  turn: number,
) => Promise<() => Promise<boolean>>

/** One more caller than `n`: whoever ends it, and meets the others somewhere else in each round. */
const againstRefresh = (what: string, proves: string, prepare: Ending): Race => ({
  artefact: `${what} against refresh`,
  proves,
  grace: '30 s',
  winners: 'one',
  losers: /^(200|400 invalid_grant)$/,
  weight: 0.6,
  async play({ deployment, turn }, n, round) {
    const { node } = deployment
    const ada = await signIn(deployment)
    await allowWeb(node(turn), ada)
    const first = await family(node(turn), ada)
    const end = await prepare(deployment, ada, turn)
    const ending = async () => {
      await setTimeout((turn * 7) % 80)
      return end()
    }
    const [isEnded, ...refreshed] = await Promise.all([
      ending(),
      ...Array.from({ length: n }, (_, i) => refreshUntilRefused(node(i), first.refresh)),
    ])
    round.winners = isEnded ? 1 : 0
    const replies = refreshed.flat()
    round.losers = replies.map(word)
    const won = replies.filter(isOk)
    const successors = new Set(won.map(reply => tokenOf(reply, 'refresh_token')))
    round.must(successors.size <= 1, `${successors.size} successors`)
    await mustBeDead(deployment, round, {
      access: [first.access, ...won.map(reply => tokenOf(reply, 'access_token'))],
      refresh: [first.refresh, ...successors],
    })
  },
})

const withdrawal = againstRefresh(
  'withdrawal',
  'withdrawal ends every token',
  async ({ node }, ada, turn) => {
    const form = await formAt(node(turn), ada, removalOf())
    return async () => isOk(await submit(node(turn), ada, form))
  },
)

const passwordChange = againstRefresh(
  'password change',
  'a new password ends every token',
  async (deployment, ada, turn) => {
    const { node, directory } = deployment
    const form = await formAt(node(turn), ada, '/account/password')
    const before = await directory.findByUsername('ada')
    const fields = { current: PASSWORD, password: ANOTHER, repeat: ANOTHER }
    return async () => {
      const changed = await submit(node(turn), ada, form, fields)
      const isKept = await isSignedIn(node(turn + 1), ada)
      // For the next round.
      await directory.change(before?.id ?? '', now => ({ ...now, password: before?.password }))
      return isOk(changed) && isKept
    }
  },
)

const disabling = againstRefresh(
  'disabling the account',
  'a disabled account has no tokens',
  async ({ directory }) => {
    const { id = '' } = (await directory.findByUsername('ada')) ?? {}
    return async () => {
      await directory.change(id, account => ({ ...account, enabled: false }))
      await directory.endAccess(id)
      await directory.change(id, account => ({ ...account, enabled: true }))
      return true
    }
  },
)

const ANOTHER = 'another battery, another staple'

/** The same token again and again, which its grace allows; the end has to come at some time. */
async function refreshUntilRefused(node: Node, token: string): Promise<Reply[]> {
  const replies: Reply[] = []
  for (let i = 0; i < 200; i++) {
    const reply = await refresh(node, token)
    replies.push(reply)
    if (!isOk(reply)) return replies
  }
  throw new Error('the end never came')
}

export const TOKEN_RACES = [
  code,
  strictRefresh,
  gracefulRefresh,
  assertion,
  withdrawal,
  passwordChange,
  disabling,
]
