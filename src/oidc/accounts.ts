// The account behind a session, a code or a token: whether its access has ended,
// whether it may use the client, and its claims.
//
// Ending access first writes that it ended, and then looks for grants. Either it
// finds a grant that is saved meanwhile, or `accountOfGrant` finds that access
// has ended, before a token is issued.

import { errors, type FindAccount, type Grant } from 'oidc-provider'
import { jwtId, signInOf } from './adapter/grants.ts'
import { currentRequest, isTokenRequest } from './adapter/request.ts'
import { claimsFor, namesGrants } from './claims.ts'
import { refusalOf } from './clients.ts'
import { keyOf } from './consents.ts'
import type { Oidc, ProviderDependencies, User } from './dependencies.ts'
import type { Parts } from './feature.ts'

/** A code or token of the library. */
type CodeOrToken = { accountId?: string; grantId?: string }

/**
 * Returns the function that finds the account of a session, a code or a token,
 * with the claims for the client.
 */
export function accountFinder(
  dependencies: ProviderDependencies,
  ciba: Parts['ciba'],
): FindAccount {
  const { users, consents, settings } = dependencies
  const hasJti = namesGrants(settings)

  /** Returns an account in the form of the library. `id`: its subject. */
  const asLibraryAccount = (oidc: Oidc, id: string, user: User) => ({
    accountId: id,
    claims(use: string) {
      const claims = claimsFor(oidc.client, users.claimsOf(user))
      const grantId = currentRequest()?.oidc.grant?.jti ?? ''
      const isNamed = hasJti && use === 'id_token'
      return { sub: id, ...claims, ...(isNamed && { jti: jwtId(grantId) }) }
    },
  })

  return async (ctx, id, token) => {
    const hinted = await ciba?.findHintedAccount(ctx, id)
    if (hinted) return hinted
    const { oidc } = ctx
    const { client, session } = oidc
    if (token) {
      const user = await accountOfToken(dependencies, oidc, token)
      return user && asLibraryAccount(oidc, id, user)
    }
    // The authorization endpoint reads the consent next.
    if (client && session)
      await consents.read(id, client.clientId, users.recordName(id))
    const user = await users.findEnabled(id, session?.loginTs)
    if (!user) return undefined
    const account = asLibraryAccount(oidc, id, user)
    // A page refuses the user (features/application-access.ts).
    return { ...account, refusal: client && refusalOf(client, user) }
  }
}

/**
 * Returns the account of a code or token that is used, if its access has not
 * ended since. Throws if the account may not use the client any more.
 */
export async function accountOfToken<U extends User>(
  dependencies: ProviderDependencies<U>,
  { client, entities }: Oidc,
  token: CodeOrToken,
): Promise<U | undefined> {
  const user =
    isTokenRequest() && entities.Grant
      ? await accountOfGrant(dependencies, entities.Grant)
      : await dependencies.users.findEnabled(
          token.accountId ?? '',
          await signInOf(dependencies.records, token),
        )
  const refusal = user && client && refusalOf(client, user)
  if (!refusal) return user
  throw isTokenRequest()
    ? new errors.InvalidGrant(refusal)
    : new errors.InvalidToken(refusal)
}

/**
 * Returns the account of a grant, if its access has not ended since the sign-in
 * and its consent covers the grant.
 */
export async function accountOfGrant<U extends User>(
  { users, consents }: Pick<ProviderDependencies<U>, 'users' | 'consents'>,
  grant: Grant,
): Promise<U | undefined> {
  const { accountId = '', clientId = '', iat: signedIn } = grant
  // One command to the store: both are read again below, from this request.
  await consents.read(accountId, clientId, users.recordName(accountId))
  const user = await users.findEnabled(accountId, signedIn)
  const consent = await consents.find(accountId, clientId)
  const allowed = consent?.scopes ?? []
  return scopesOf(grant).every(key => allowed.includes(key)) ? user : undefined
}

/** Returns the scopes of a grant, as a consent names them. */
function scopesOf(grant: Grant): string[] {
  const ofApis = Object.keys(grant.resources ?? {}).flatMap(resource =>
    wordsOf(grant.getResourceScope(resource)).map(scope =>
      keyOf(scope, resource),
    ),
  )
  return [...wordsOf(grant.getOIDCScope()), ...ofApis]
}

const wordsOf = (text: string) => text.split(' ').filter(Boolean)
