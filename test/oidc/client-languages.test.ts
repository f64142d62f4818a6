// The name of an application and the texts of its scopes in the user's language (RFC 7591 §2.2).

import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { places, read } from '../support/config-folder.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest } from '../support/journey.ts'
import { credentials } from '../support/people.ts'
import { CLIENTS } from '../support/usher.ts'

const web = {
  ...CLIENTS.web,
  client_name: 'Holiday planner',
  'client_name#de': 'Urlaubsplaner',
  'client_name#pt-BR': 'Planejador de férias',
  policy_uri: 'https://app.example.org/privacy',
  'policy_uri#de': 'https://app.example.org/datenschutz',
}
const claims = {
  claims: {
    department: { scope: 'hr', from: 'attributes.department' },
    office: { scope: 'place', from: 'attributes.office' },
  },
  scopes: {
    hr: { description: { en: 'See your department', de: 'Ihre Abteilung sehen' } },
    place: { description: 'See your office' },
  },
}

const test = usherTest({ clients: { web }, claims })

async function consentIn(ui_locales: string) {
  const browser = new Browser(usher.issuer)
  await browser.open(authorizationRequest(usher, { ui_locales, scope: 'openid hr place' }).url)
  const signIn = browser.page.html.querySelector('.lead strong')?.text
  await browser.submit(credentials())
  const { html } = browser.page
  const [, ...scopes] = html
    .querySelectorAll('fieldset .signs label, fieldset .signs span')
    .map(({ text }) => text)
  return {
    signIn,
    name: html.querySelector('.lead strong')?.text,
    scopes,
    policy: html.querySelector('.links a')?.getAttribute('href'),
  }
}

test.each([
  ['de-AT', 'Urlaubsplaner', ['Ihre Abteilung sehen', 'See your office'], 'datenschutz'],
  ['en', 'Holiday planner', ['See your department', 'See your office'], 'privacy'],
  ['ja', 'Holiday planner', ['See your department', 'See your office'], 'privacy'],
])('in %s the name of the application is %j', async (language, name, scopes, policy) => {
  expect(await consentIn(language)).toEqual({
    signIn: name,
    name,
    scopes,
    policy: `https://app.example.org/${policy}`,
  })
})

test.each([
  ['client_name#deutsch', 'Urlaub', 'clients/web.yaml:1:2 client_name#deutsch'],
  ['client_id#de', 'web', 'clients/web.yaml:1:2 client_id#de'],
  ['policy_uri#de', 'nowhere', 'clients/web.yaml:1:2 policy_uri#de'],
])('%s with the value %j is a finding', async (key, value, place) => {
  const client = { [key]: value, ...CLIENTS.web }
  expect(places(await read({ 'clients/web.yaml': client }))).toEqual([place])
})
