// The ways to sign in, on the security page (account/security.ts): those that
// an account has, and those that it can add.

import type { Context } from 'koa'
import type { IDToken } from 'openid-client'
import type { MethodsOfAccount } from '../../account/security.ts'
import type { Upstream } from '../../config/schema/upstream.ts'
import { note } from '../../operation/audit.ts'
import { PLACES } from '../../pages/page-data.ts'
import {
  type Account,
  InvalidAccount,
  type Link,
} from '../../sign-in/account.ts'
import type { OwnAccounts } from '../../sign-in/directory.ts'
import { methodFailed } from '../../sign-in/sign-in-page.ts'
import type { SignedIn, Site, Submitted } from '../../sign-in/site.ts'
import { addLink, linkOf, readClaims, withoutIssuer } from './identities.ts'
import type { Connection } from './issuer.ts'

const OUTCOMES = ['added', 'removed', 'failed', 'taken'] as const
type Result = (typeof OUTCOMES)[number]
/** The prefix of the result in the query of the security page. */
const PREFIX = 'method_'

/**
 * Returns the handlers of the page. `begin` returns the URL at which the user
 * signs in at the issuer.
 */
export function createSignInsPage(
  { views }: Site,
  directory: OwnAccounts,
  connections: Connection[],
  begin: (connection: Connection, user: SignedIn) => Promise<string>,
) {
  const isOf = ({ upstream }: Connection, { issuer }: Link) =>
    issuer === upstream.issuer
  const report = (ctx: Context, result: Result) =>
    ctx.redirect(`${PLACES.security}?outcome=${PREFIX}${result}`)

  /** Returns the issuer that a field of the form names. */
  const connectionIn = ({ form }: Submitted, field: 'link' | 'unlink') =>
    connections.find(({ upstream }) => upstream.name === form.value(field))

  /** Sends the browser to the issuer; `add` has its response. */
  async function startAdding(
    ctx: Context,
    user: Submitted,
    connection: Connection,
  ) {
    const url = await begin(connection, user).catch(
      methodFailed(ctx, connection.upstream.name),
    )
    return url ? views.navigate(ctx, url) : report(ctx, 'failed')
  }

  /**
   * Removes the links to an issuer. Changes nothing if the issuer is the only
   * way to sign in.
   */
  async function removeIssuer(
    ctx: Context,
    account: Account,
    upstream: Upstream,
  ) {
    let after: Account | undefined
    await directory.change(account.id, current => {
      after = withoutIssuer(current, upstream)
      return after ?? current
    })
    if (!after) return ctx.redirect(PLACES.security)
    // After the link, so that no new session begins meanwhile.
    await directory.endSignIns(account.id, upstream.name)
    for (const { issuer, subject } of account.links ?? []) {
      if (issuer !== upstream.issuer) continue
      note(ctx, 'account_unlinked', {
        account: account.id,
        upstream: upstream.name,
        subject,
      })
    }
    report(ctx, 'removed')
  }

  const ofAccount: MethodsOfAccount = {
    async section(ctx, { account: { links = [], password } }) {
      const words = views.words(ctx)
      const issuers = new Set(links.map(({ issuer }) => issuer))
      return {
        isLast: issuers.size === 1 && password === undefined,
        methods: connections.map(connection => ({
          name: connection.upstream.name,
          label: words.textOf(connection.upstream.label),
          logo: views.buttonLogo(connection.upstream.name),
          isLinked: links.some(link => isOf(connection, link)),
        })),
      }
    },

    outcomeOf(ctx) {
      const result = OUTCOMES.find(
        known => PREFIX + known === ctx.query.outcome,
      )
      if (!result) return undefined
      const isWrong = result === 'failed' || result === 'taken'
      return { text: views.words(ctx).t(`sign_ins.${result}`), isWrong }
    },

    async submit(ctx, user) {
      const toAdd = connectionIn(user, 'link')
      const toRemove = connectionIn(user, 'unlink')
      if (toAdd) await startAdding(ctx, user, toAdd)
      else if (toRemove)
        await removeIssuer(ctx, user.account, toRemove.upstream)
      return toAdd !== undefined || toRemove !== undefined
    },
  }

  return {
    ...ofAccount,

    /**
     * Links the account to a user of the issuer; without claims, reports that
     * it failed.
     */
    async add(
      ctx: Context,
      { id }: Account,
      { upstream }: Connection,
      claims?: IDToken,
    ) {
      if (!claims) return report(ctx, 'failed')
      const link = linkOf(upstream, claims.sub)
      const about = {
        account: id,
        upstream: upstream.name,
        subject: link.subject,
      }
      const { isAllowed, ignored } = readClaims(upstream, claims)
      if (!isAllowed) {
        note(ctx, 'sign_in_failed', {
          ...about,
          ignored,
          reason: 'not_allowed',
        })
        return report(ctx, 'failed')
      }
      const account = await addLink(directory, id, link).catch(
        (error: unknown) => {
          if (!(error instanceof InvalidAccount)) throw error
          note(ctx, 'sign_in_failed', { ...about, reason: error.message })
        },
      )
      if (!account) return report(ctx, 'taken')
      note(ctx, 'account_linked', about)
      report(ctx, 'added')
    },
  }
}
