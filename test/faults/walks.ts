// What people do at their browsers: sign in and allow, remove an application, sign out.

import { authorizationRequest, type Request } from '../support/journey.ts'
import { copyOf, removalOf } from '../support/people.ts'
import { PASSWORD } from '../support/usher.ts'
import { sendAs } from '../support/wire.ts'
import { REDIRECTS, SCOPES, signed } from './applications.ts'
import type { Fact, Ledger, Login, Person } from './ledger.ts'
import { answerOf, type Traffic, type Visitor } from './traffic.ts'

const APPLICATIONS = '/account/applications'

export interface Arrival {
  login: Login
  code: string
}

/** To a code; undefined when an answer that never came has used up what there was. */
export async function signIn(
  traffic: Traffic,
  ledger: Ledger,
  person: Person,
  client_id: string,
): Promise<Arrival | undefined> {
  const visitor = traffic.visitor()
  const { browser } = visitor
  const request = await requestOf(traffic, ledger, client_id)
  if (!request) return undefined
  const consent = ledger.consent(person, client_id)
  const { state: before } = consent
  const settle = ledger.begin('signed in and allowed', [consent], 'live')

  await visitor.open(request.url)
  let wasAsked = false
  for (let pages = 0; pages < 4 && browser.page.ours; pages++) {
    if (browser.heading === 'Sign in') {
      const { username } = person
      await answer(ledger, visitor, { username, password: PASSWORD, decision: 'continue' })
    } else if (browser.heading === 'Allow access') {
      wasAsked = true
      if (before === 'live') ledger.violated('d', `asked again: ${consent.name}`)
      await answer(ledger, visitor, { decision: 'allow' })
    } else break
  }
  const code = browser.page.params.get('code')
  if (!code || browser.page.ours) {
    const { page, heading } = browser
    // What was used up by an answer that got lost, people have to begin anew.
    if (!visitor.again) ledger.refused(`no code: ${page.status} ${page.url.pathname} "${heading}"`)
    return undefined
  }
  if (before === 'ended' && !wasAsked) ledger.violated('c', `nobody was asked: ${consent.name}`)
  settle()
  browser.pages = []
  const name = `of ${person.username} at ${client_id}, ${code.slice(0, 6)}`
  const login: Login = {
    person,
    client_id,
    browser,
    request,
    consent,
    session: { name: `session ${name}`, state: 'live' },
    grant: { name: `grant ${name}`, state: 'ended' },
    older: [],
    access: [],
  }
  person.logins.push(login)
  ledger.note('signed in', [login.session])
  return { login, code }
}

async function requestOf(
  traffic: Traffic,
  ledger: Ledger,
  client_id: string,
): Promise<Request | undefined> {
  const { issuer } = traffic
  const scope = SCOPES[client_id]
  const redirect_uri = REDIRECTS[client_id]
  const params = { client_id, scope, ...(redirect_uri && { redirect_uri }) }
  const request = authorizationRequest({ issuer }, params)
  if (client_id !== 'keyed') return request
  const pushed = await traffic.ask('/api/oauth/par', async () => {
    const form = Object.fromEntries(request.url.searchParams)
    const { headers, form: body } = await signed(client_id, issuer, form)
    return { method: 'POST', headers, body: new URLSearchParams(body) }
  })
  if (pushed.status !== 201) {
    ledger.refused(`pushed request: ${pushed.status} ${pushed.json.error}`, 'f')
    return undefined
  }
  const url = new URL(request.url.pathname, issuer)
  url.searchParams.set('client_id', client_id)
  url.searchParams.set('request_uri', String(pushed.json.request_uri))
  return { ...request, url }
}

/** Answers a page; whoever comes back to it as it was before, comes to nothing. */
async function answer(ledger: Ledger, visitor: Visitor, fields: Record<string, string>) {
  const { browser } = visitor
  const { issuer } = browser
  const before = copyOf(browser)
  const uid = browser.page.url.pathname.split('/').at(-1)
  const page = await visitor.submit(fields)
  if (page.status >= 400) return
  ledger.used.push({
    kind: 'interaction',
    at: performance.now(),
    async again(address) {
      const way = `/api/oauth/authorize/${uid}`
      const back = answerOf(await sendAs(before, { issuer, address }, way))
      return Boolean(back.location?.searchParams.get('code'))
    },
  })
}

/** Removes the application of this login from the person's list. */
export async function withdraw(traffic: Traffic, ledger: Ledger, login: Login) {
  const { person, client_id, consent } = login
  const visitor = traffic.visitor()
  visitor.browser.jar = login.browser.jar
  const { browser } = visitor
  await visitor.open(APPLICATIONS)
  if (browser.heading !== 'Connected applications') {
    return ledger.refused(`a list for "${browser.heading}" ${browser.page.status}`, 'd')
  }
  const links = browser.page.html.querySelectorAll('article a').map(a => a.getAttribute('href'))
  if (!links.includes(removalOf(client_id))) {
    if (consent.state === 'live') ledger.violated('g', `not on the list: ${consent.name}`)
    return
  }
  await visitor.open(removalOf(client_id))
  if (!browser.page.html.querySelector('form input[name=csrf]')) {
    return ledger.refused(`a question for "${browser.heading}" ${browser.page.status}`, 'd')
  }
  const grants = person.logins.filter(other => other.client_id === client_id)
  const ending: Fact[] = [consent, ...grants.map(({ grant }) => grant)]
  const settle = ledger.begin('withdrew', ending, 'ended')
  await visitor.submit({})
  const { page, heading } = browser
  if (page.status === 200 && heading === 'Connected applications') settle()
  else ledger.refused(`removing: ${page.status} "${heading}"`)
}

export async function signOut(traffic: Traffic, ledger: Ledger, login: Login) {
  const visitor = traffic.visitor()
  visitor.browser.jar = login.browser.jar
  const { browser } = visitor
  // What offline access was given to stays.
  const ending = login.refresh_token ? [login.session] : [login.session, login.grant]
  const settle = ledger.begin('signed out', ending, 'ended')
  for (let attempt = 0; attempt < 3; attempt++) {
    await visitor.open('/api/oauth/logout')
    if (browser.heading === 'Sign out') await visitor.submit({ logout: 'yes' })
    // Nobody is signed in: it happened, and the answer was lost.
    else if (browser.heading === 'One moment' && visitor.again) await visitor.submit({})
    if (browser.heading === 'Signed out') return settle()
    // The answer that got lost has signed out: the form is of no use any more.
    if (!visitor.again) break
  }
  ledger.refused(`signing out: ${browser.page.status} "${browser.heading}"`)
}
