// Races at the token endpoint.

import { setTimeout } from 'node:timers/promises'
import { signAssertion } from '../support/keyed.ts'
import { type Reply, sendAs } from '../support/wire.ts'
import { redeem, refresh, tokenOf, useAssertion, userinfo, word } from './clients.ts'
import type { Deployment, Node } from './deployment.ts'
import { allowWeb, family, silentCode } from './person.ts'
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
  proves: 'AZ10',
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
  proves: 'TK7',
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
  proves: 'TK7',
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
  proves: 'TK4',
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

/** One more caller than `n`: the person, who meets the others somewhere else in each round. */
const withdrawal: Race = {
  artefact: 'withdrawal against refresh',
  proves: 'AC5',
  grace: '30 s',
  winners: 'one',
  losers: /^(200|400 invalid_grant)$/,
  weight: 0.6,
  async play({ deployment, ada, turn }, n, round) {
    const { node } = deployment
    await allowWeb(node(turn), ada)
    const first = await family(node(turn), ada)
    const page = await sendAs(ada, node(turn), '/account/applications')
    const csrf = /name="csrf" value="([^"]+)"/.exec(page.text)?.[1] ?? ''
    const withdraw = async () => {
      await setTimeout(turn % 12)
      return sendAs(ada, node(turn), '/account/applications', {
        body: { csrf, client_id: 'web' },
        headers: { 'sec-fetch-site': 'same-origin' },
      })
    }
    const [withdrawn, ...refreshed] = await Promise.all([
      withdraw(),
      ...Array.from({ length: n }, (_, i) => refreshUntilRefused(node(i), first.refresh)),
    ])
    round.winners = withdrawn.status === 200 ? 1 : 0
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
}

/** The same token again and again, which its grace allows; the withdrawal has to come at some time. */
async function refreshUntilRefused(node: Node, token: string): Promise<Reply[]> {
  const replies: Reply[] = []
  for (let i = 0; i < 200; i++) {
    const reply = await refresh(node, token)
    replies.push(reply)
    if (!isOk(reply)) return replies
  }
  throw new Error('the withdrawal never came')
}

export const TOKEN_RACES = [code, strictRefresh, gracefulRefresh, assertion, withdrawal]
