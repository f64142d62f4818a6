// The language of a page: ui_locales comes first, then the language of the browser.

import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import { credentials, open } from '../support/people.ts'
import { send } from '../support/wire.ts'

const test = usherTest({
  files: {
    'locales/de.yaml': 'error: { not_found: Hier ist nichts }',
    'locales/ar.yaml': 'errors: { title: رموز الأخطاء }',
  },
})

async function headingOf(path: string, language: string) {
  const browser = new Browser(usher.issuer)
  await browser.open(path, { 'accept-language': language })
  const { lang, dir } = browser.page.html.querySelector('html')?.attributes ?? {}
  return `${lang} ${dir}: ${browser.heading}`
}

test('discovery lists the languages, including those of the operator', async () => {
  const { json } = await send(usher, '/.well-known/openid-configuration')
  expect(json.ui_locales_supported).toEqual(['en', 'ar', 'de', 'es', 'fr', 'ja', 'pt'])
})

test.each([
  ['de-CH, fr;q=0.8', '', 'de ltr: Fehlercodes'],
  ['tlh, ja;q=0.5', '', 'ja ltr: エラーコード'],
  ['tlh', '', 'en ltr: Error codes'],
  ['*', '', 'en ltr: Error codes'],
  ['', '', 'en ltr: Error codes'],
  ['ar', '', 'ar rtl: رموز الأخطاء'],
  ['de', '?ui_locales=tlh%20fr-CA%20es', 'fr ltr: Codes d’erreur'],
  ['de', '?ui_locales=tlh', 'de ltr: Fehlercodes'],
  ['de', '?ui_locales=fr&ui_locales=es', 'de ltr: Fehlercodes'],
  ['de', `?ui_locales=${'-'.repeat(2000)}`, 'de ltr: Fehlercodes'],
])(
  'a browser with Accept-Language %j at a URL with %j gets a page in %s',
  async (speaks, query, expected) => {
    expect(await headingOf(`/errors${query}`, speaks)).toBe(expected)
  },
)

test('a page shows the texts of the operator', async () => {
  expect(await headingOf('/nowhere', 'de')).toBe('de ltr: Hier ist nichts')
})

test('ui_locales applies to every page of an authorization, also after a wrong password', async () => {
  const { browser } = await open(usher, { ui_locales: 'pt-BR en' })
  expect(browser.heading).toBe('Entrar')
  await browser.submit(credentials('ada', 'not the password'))
  expect(browser.heading).toBe('Entrar')
  await browser.submit(credentials())
  expect(browser.heading).toBe('Permitir acesso')
})
