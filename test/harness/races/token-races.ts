// Races at the token endpoint.

import { setTimeout } from 'node:timers/promises'
import type { Account } from '../../../src/sign-in/account.ts'
import type { Browser } from '../../support/browser.ts'
import { signAssertion } from '../../support/keyed.ts'
import { removalOf } from '../../support/people.ts'
import { PASSWORD } from '../../support/usher.ts'
import type { Reply } from '../../support/wire.ts'
import { isOk, redeem, refresh, tokenOf, useAssertion, userinfo, word } from '../clients.ts'
import type { Deployment, Node } from '../deployment.ts'
import { family, formAt, isSignedIn, silentCode, submit, webUser } from '../users.ts'
import { atOnce, type Race, type Round } from './race.ts'

const INVALID_GRANT = /^400 invalid_grant$/

/** Checks that every token of a family is invalid, on every process. */
async function mustBeInvalid(
  { node }: Deployment,
  round: Round,
  tokens: { access: string[]; refresh: string[] },
) {
  const access = await atOnce(tokens.access.length, i => userinfo(node(i), tokens.access[i] ?? ''))
  round.must(
    access.every(({ status }) => status === 401),
    `an access token is still valid: ${access.map(word)}`,
  )
  for (const [i, token] of tokens.refresh.entries()) {
    const answer = word(await refresh(node(i), token))
    round.must(INVALID_GRANT.test(answer), `a refresh token returned ${answer}`)
  }
}

const code: Race = {
  artefact: 'authorization code',
  proves: 'reuse of a code revokes its tokens',
  winners: 'one',
  losers: INVALID_GRANT,
  async play({ deployment, node, ada, turn }, n, round) {
    const issued = await silentCode(node(turn), ada, { client_id: 'web', scope: 'openid' })
    const replies = await atOnce(n, i => redeem(node(i), issued))
    const won = round.sort(replies, isOk)
    const access = won.map(reply => tokenOf(reply, 'access_token'))
    // The first use may be the attacker's, so that its tokens are revoked, too (RFC 6749 §4.1.2).
    await mustBeInvalid(deployment, round, { access, refresh: [] })
  },
}

const strictRefresh: Race = {
  artefact: 'refresh token, grace 0',
  proves: 'reuse of a refresh token revokes its family',
  grace: '0 s',
  winners: 'one',
  losers: INVALID_GRANT,
  isTheft: true,
  async play({ deployment, node, ada, turn }, n, round) {
    const first = await family(node(turn), ada)
    const replies = await atOnce(n, i => refresh(node(i), first.refresh))
    const won = round.sort(replies, isOk)
    await mustBeInvalid(deployment, round, {
      access: [first.access, ...won.map(reply => tokenOf(reply, 'access_token'))],
      refresh: won.map(reply => tokenOf(reply, 'refresh_token')),
    })
  },
}

const gracefulRefresh: Race = {
  artefact: 'refresh token, grace 30 s',
  proves: 'within the grace, retries get the same token',
  winners: 'all',
  isTheft: true,
  async play({ deployment, node, ada, turn }, n, round) {
    const first = await family(node(turn), ada)
    const replies = await atOnce(n, i => refresh(node(i), first.refresh))
    const won = round.sort(replies, isOk)
    const successors = new Set(won.map(reply => tokenOf(reply, 'refresh_token')))
    round.must(successors.size === 1, `${successors.size} successors`)
    const [successor = ''] = successors
    round.must(successor !== first.refresh, 'the refresh token was not rotated')
    const next = await refresh(node(turn + 1), successor)
    round.must(isOk(next), `the successor returned ${word(next)}`)
    // After the use of its successor, the first token is treated as stolen: the family is revoked.
    const late = word(await refresh(node(turn + 2), first.refresh))
    round.must(INVALID_GRANT.test(late), `the first token, after its successor, returned ${late}`)
    await mustBeInvalid(deployment, round, {
      access: [first.access, ...[...won, next].map(reply => tokenOf(reply, 'access_token'))],
      refresh: [tokenOf(next, 'refresh_token'), successor],
    })
  },
}

const assertion: Race = {
  artefact: 'client assertion (jti)',
  proves: 'a client assertion works once',
  winners: 'one',
  losers: /^401 invalid_client$/,
  async play({ deployment, node }, n, round) {
    const signed = await signAssertion(deployment.issuer)
    const replies = await atOnce(n, i => useAssertion(node(i), signed))
    round.sort(replies, reply => INVALID_GRANT.test(word(reply)))
  },
}

/** Prepares an action of Ada or an operator that ends a client's access to Ada's account. */
type Ending = (
  deployment: Deployment,
  ada: Browser,
  turn: number,
) => Promise<() => Promise<boolean>>

/** `n` callers refresh while the access ends, in each round after another delay. */
const againstRefresh = (action: string, proves: string, prepare: Ending): Race => ({
  artefact: `${action} against refresh`,
  proves,
  winners: 'one',
  losers: /^(200|400 invalid_grant)$/,
  async play({ deployment, node, turn }, n, round) {
    const ada = await webUser(deployment)
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
    await mustBeInvalid(deployment, round, {
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
  async ({ node, open }, ada, turn) => {
    const form = await formAt(node(turn), ada, '/account/password')
    const before = await open(({ directory }) => directory.findByUsername('ada'))
    const fields = { current: PASSWORD, password: ANOTHER, repeat: ANOTHER }
    return async () => {
      const changed = await submit(node(turn), ada, form, fields)
      const isKept = await isSignedIn(node(turn + 1), ada)
      // Restores the password for the next round.
      const restore = (now: Account) => ({ ...now, password: before?.password })
      await open(({ directory }) => directory.change(before?.id ?? '', restore))
      return isOk(changed) && isKept
    }
  },
)

const disabling = againstRefresh(
  'disabling the account',
  'a disabled account has no tokens',
  async ({ open }) => {
    return () =>
      open(async ({ directory }) => {
        const { id = '' } = (await directory.findByUsername('ada')) ?? {}
        await directory.change(id, account => ({ ...account, enabled: false }))
        await directory.endAccess(id)
        await directory.change(id, account => ({ ...account, enabled: true }))
        return true
      })
  },
)

const ANOTHER = 'another battery, another staple'

/** Repeats a refresh, which the grace period allows, until the access ends. */
async function refreshUntilRefused(node: Node, token: string): Promise<Reply[]> {
  const replies: Reply[] = []
  for (let i = 0; i < 200; i++) {
    const reply = await refresh(node, token)
    replies.push(reply)
    if (!isOk(reply)) return replies
  }
  throw new Error('the access never ended')
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
