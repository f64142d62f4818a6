// Operations of users in the browser: sign in and allow, remove an application, sign out.

import { authorizationRequest, type Request } from '../../support/journey.ts'
import { copyOf, credentials, removalOf } from '../../support/people.ts'
import { sendAs } from '../../support/wire.ts'
import { authenticated, hasCode, type Issued, pushedUrl } from '../clients.ts'
import { type Fact, type Ledger, type Login, requestParams, type User } from './ledger.ts'
import { answerOf, type Traffic, Visitor } from './traffic.ts'

const APPLICATIONS = '/account/applications'

export interface Arrival extends Issued {
  login: Login
}

/** Signs a user in, up to the code; undefined if a lost answer has used up the code or a page. */
export async function signIn(
  traffic: Traffic,
  ledger: Ledger,
  user: User,
  client_id: string,
): Promise<Arrival | undefined> {
  const visitor = new Visitor(traffic)
  const { browser } = visitor
  const request = await requestOf(traffic, ledger, client_id)
  if (!request) return undefined
  const consent = ledger.consent(user, client_id)
  const { state: before } = consent
  const settle = ledger.begin('signed in and allowed', [consent], 'live')

  await visitor.open(request.url)
  const hadConsentPage = await answerPages(ledger, visitor, user)
  if (hadConsentPage && before === 'live')
    ledger.violated('d', `a second consent page: ${consent.name}`)
  const code = browser.page.params.get('code')
  if (!code || browser.page.ours) {
    const { page, heading } = browser
    // After a retry, a lost answer may have used up the code or page: the user signs in again.
    if (!visitor.again) ledger.refused(`no code: ${page.status} ${page.url.pathname} "${heading}"`)
    return undefined
  }
  if (before === 'ended' && !hadConsentPage)
    ledger.violated('c', `no consent page: ${consent.name}`)
  settle()
  browser.pages = []
  const name = `of ${user.username} at ${client_id}, ${code.slice(0, 6)}`
  const login: Login = {
    user,
    client_id,
    browser,
    consent,
    session: { name: `session ${name}`, state: 'live' },
    grant: { name: `grant ${name}`, state: 'ended' },
    older: [],
    access: [],
  }
  user.logins.push(login)
  ledger.note('signed in', [login.session])
  return { login, code, request }
}

/** Answers the pages of a sign-in. Returns whether one of them asked for consent. */
async function answerPages(ledger: Ledger, visitor: Visitor, { username }: User) {
  const { browser } = visitor
  let hadConsentPage = false
  for (let pages = 0; pages < 4 && browser.page.ours; pages++) {
    if (browser.heading === 'Sign in') {
      await answer(ledger, visitor, credentials(username))
    } else if (browser.heading === 'Allow access') {
      hadConsentPage = true
      await answer(ledger, visitor, { decision: 'allow' })
    } else break
  }
  return hadConsentPage
}

/** An authorization request; the client keyed pushes it. */
async function requestOf(
  traffic: Traffic,
  ledger: Ledger,
  client_id: string,
): Promise<Request | undefined> {
  const { issuer } = traffic
  const request = authorizationRequest({ issuer }, requestParams(client_id))
  if (client_id !== 'keyed') return request
  const form = Object.fromEntries(request.url.searchParams)
  const pushed = await traffic.post('/api/oauth/par', () => authenticated(client_id, issuer, form))
  if (pushed.status === 201) return { ...request, url: pushedUrl(request, pushed.json.request_uri) }
  ledger.refused(`pushed request: ${pushed.status} ${pushed.json.error}`, 'f')
}

/** Submits the form of a page, and records its interaction as used. */
async function answer(ledger: Ledger, visitor: Visitor, fields: Record<string, string>) {
  const { browser } = visitor
  const before = copyOf(browser)
  const uid = browser.page.url.pathname.split('/').at(-1)
  const page = await visitor.submit(fields)
  if (page.status >= 400) return
  ledger.used.push({
    kind: 'interaction',
    at: performance.now(),
    async again(node) {
      return hasCode(answerOf(await sendAs(before, node, `/api/oauth/authorize/${uid}`)))
    },
  })
}

/** Removes the application of the login from the user's list. */
export async function withdraw(traffic: Traffic, ledger: Ledger, login: Login) {
  const { user, client_id, consent } = login
  const visitor = new Visitor(traffic, login.browser.jar)
  const { browser } = visitor
  await visitor.open(APPLICATIONS)
  if (browser.heading !== 'Connected applications') {
    return ledger.refused(`no list: "${browser.heading}" ${browser.page.status}`, 'd')
  }
  const links = browser.page.html.querySelectorAll('.fold a').map(a => a.getAttribute('href'))
  if (!links.includes(removalOf(client_id))) {
    if (consent.state === 'live') ledger.violated('g', `not on the list: ${consent.name}`)
    return
  }
  await visitor.open(removalOf(client_id))
  if (!browser.page.html.querySelector('form input[name=csrf]')) {
    return ledger.refused(`no form: "${browser.heading}" ${browser.page.status}`, 'd')
  }
  const grants = user.logins.filter(other => other.client_id === client_id)
  const ending: Fact[] = [consent, ...grants.map(({ grant }) => grant)]
  const settle = ledger.begin('withdrew', ending, 'ended')
  await visitor.submit({})
  const { page, heading } = browser
  if (page.status === 200 && heading === 'Connected applications') settle()
  else ledger.refused(`removing: ${page.status} "${heading}"`)
}

export async function signOut(traffic: Traffic, ledger: Ledger, login: Login) {
  const visitor = new Visitor(traffic, login.browser.jar)
  const { browser } = visitor
  // A grant with offline access outlives the session.
  const ending = login.refresh_token ? [login.session] : [login.session, login.grant]
  const settle = ledger.begin('signed out', ending, 'ended')
  for (let attempt = 0; attempt < 3; attempt++) {
    await visitor.open('/api/oauth/logout')
    if (browser.heading === 'Sign out') await visitor.submit({ logout: 'yes' })
    // No user is signed in: the sign-out happened, and its answer was lost.
    else if (browser.heading === 'One moment' && visitor.again) await visitor.submit({})
    if (browser.heading === 'Signed out') return settle()
    // After a retry, the lost answer may have ended the session, and the form is void: open it again.
    if (!visitor.again) break
  }
  ledger.refused(`signing out: ${browser.page.status} "${browser.heading}"`)
}
