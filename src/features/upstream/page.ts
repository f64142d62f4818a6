// The account page with the ways to sign in: those that an account has, and those that it can add.

import type { Context } from 'koa'
import type { IDToken } from 'openid-client'
import type { Upstream } from '../../config/schema/upstream.ts'
import { note } from '../../operation/audit.ts'
import { PLACES } from '../../pages/page-data.ts'
import { type Account, InvalidAccount, type Link } from '../../sign-in/account.ts'
import type { OwnAccounts } from '../../sign-in/directory.ts'
import { methodFailed } from '../../sign-in/sign-in-page.ts'
import type { SignedIn, Site, Submitted } from '../../sign-in/site.ts'
import { addLink, linkOf, readClaims, withoutIssuer } from './identities.ts'
import type { Connection } from './issuer.ts'

const OUTCOMES = ['added', 'removed', 'failed', 'taken'] as const
type Outcome = (typeof OUTCOMES)[number]

/** Returns the handlers of the page. `begin` returns the URL at which the user signs in at the issuer. */
export function createSignInsPage(
  { views }: Site,
  directory: OwnAccounts,
  connections: Connection[],
  begin: (connection: Connection, user: SignedIn) => Promise<string>,
) {
  const isOf = ({ upstream }: Connection, { issuer }: Link) => issuer === upstream.issuer
  const report = (ctx: Context, outcome: Outcome) =>
    ctx.redirect(`${PLACES.signIns}?outcome=${outcome}`)

  /** Returns false, and changes nothing, if the issuer is the only way to sign in. */
  async function remove(id: string, upstream: Upstream): Promise<boolean> {
    let after: Account | undefined
    await directory.change(id, account => {
      after = withoutIssuer(account, upstream)
      return after ?? account
    })
    return after !== undefined
  }

  return {
    show(ctx: Context, { account: { links = [], password } }: SignedIn) {
      const words = views.words(ctx)
      const hasPassword = password !== undefined
      const outcome = OUTCOMES.find(known => known === ctx.query.outcome)
      views.page(ctx, 'sign-ins', {
        hasPassword,
        isLast: new Set(links.map(({ issuer }) => issuer)).size === 1 && !hasPassword,
        methods: connections.map(connection => ({
          name: connection.upstream.name,
          label: words.textOf(connection.upstream.label),
          logo: views.buttonLogo(connection.upstream.name),
          isLinked: links.some(link => isOf(connection, link)),
        })),
        outcome: outcome && words.t(`sign_ins.${outcome}`),
      })
    },

    async submit(ctx: Context, user: Submitted) {
      const { account, form } = user
      const named = (field: string) =>
        connections.find(({ upstream }) => upstream.name === form.value(field))
      const [added, removed] = [named('add'), named('remove')]
      if (added) {
        const url = await begin(added, user).catch(methodFailed(ctx, added.upstream.name))
        return url ? views.navigate(ctx, url) : report(ctx, 'failed')
      }
      const isRemoved = removed && (await remove(account.id, removed.upstream))
      if (!isRemoved) return ctx.redirect(PLACES.signIns)
      // After the link, so that no new session begins meanwhile.
      await directory.endSignIns(account.id, removed.upstream.name)
      for (const { issuer, subject } of account.links ?? []) {
        const { name, issuer: unlinked } = removed.upstream
        const about = { account: account.id, upstream: name, subject }
        if (issuer === unlinked) note(ctx, 'account_unlinked', about)
      }
      report(ctx, 'removed')
    },

    /** Links the account to a user of the issuer; without claims, reports that it failed. */
    async add(ctx: Context, { id }: Account, { upstream }: Connection, claims?: IDToken) {
      if (!claims) return report(ctx, 'failed')
      const link = linkOf(upstream, claims.sub)
      const about = { account: id, upstream: upstream.name, subject: link.subject }
      const { isAllowed, ignored } = readClaims(upstream, claims)
      if (!isAllowed) {
        note(ctx, 'sign_in_failed', { ...about, ignored, reason: 'not_allowed' })
        return report(ctx, 'failed')
      }
      const account = await addLink(directory, id, link).catch((error: unknown) => {
        if (!(error instanceof InvalidAccount)) throw error
        note(ctx, 'sign_in_failed', { ...about, reason: error.message })
      })
      if (!account) return report(ctx, 'taken')
      note(ctx, 'account_linked', about)
      report(ctx, 'added')
    },
  }
}
