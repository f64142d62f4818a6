// Writes the screenshots in docs/pages/: one image for each group of pages (light, dark and on a phone), and
// the image of the README. Usage: npm run contact-sheet -- [LANGUAGE FOLDER [GROUP]]

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { BrowserContextOptions, Page } from 'playwright-core'
import { launchChromium } from '../support/chromium.ts'
import { createPreview, type Preview } from '../support/preview.ts'

const LIGHT = { colorScheme: 'light', viewport: { width: 900, height: 640 } } as const
const DARK = { ...LIGHT, colorScheme: 'dark' } as const
const NARROW = { ...LIGHT, viewport: { width: 520, height: 680 } }
const PHONE = { colorScheme: 'light', viewport: { width: 360, height: 640 } } as const
type Look = Pick<BrowserContextOptions, 'colorScheme'> & {
  viewport: { width: number; height: number }
}
/** Longer pages are cut at this height. */
const MAX_HEIGHT_PX = 1200
const WEBP_QUALITY = 80
const STYLE = `
  body { display: grid; gap: 20px; width: max-content; margin: 0; padding: 20px; background: #c8ccd4; font: 600 15px system-ui, sans-serif; }
  figure { margin: 0; }
  div { display: flex; gap: 10px; align-items: start; margin-top: 6px; }
  img { border-radius: 6px; }
`
const LOGO = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 150 40"><circle cx="20" cy="20" r="18" fill="#14663a"/><text x="48" y="28" font-family="sans-serif" font-size="22" font-weight="700" fill="#14663a">Orchard</text></svg>`
const branding = {
  name: 'Orchard',
  logo: 'logo.svg',
  logo_dark: 'logo-dark.svg',
  accent: '#14663a',
  accent_dark: '#8fdcae',
  background: '#eef5f0',
  links: { forgot_password: 'https://example.org/', help: 'https://example.org/' },
}
const plain = await createPreview()
const branded = await createPreview({
  'usher.yaml': { branding },
  'logo.svg': LOGO,
  'logo-dark.svg': LOGO.replaceAll('#14663a', '#8fdcae'),
})

/** The states in each image. */
const SHEETS = {
  'sign-in': [
    plain,
    [
      'sign-in',
      'sign-in-failed',
      'sign-in-unchecked',
      'sign-in-again',
      'sign-in-methods',
      'sign-in-passkey',
      'sign-in-passkey-failed',
      'sign-in-upstream-unavailable',
      'select-account',
      'sign-in-sign-up',
      'sign-up-wrong',
      'sign-up-sent',
      'welcome',
      'forgot',
    ],
  ],
  consent: [
    plain,
    [
      'consent',
      'consent-unchecked',
      'consent-published',
      'consent-device',
      'consent-details',
      'device',
      'device-unknown',
    ],
  ],
  account: [
    plain,
    [
      'account',
      'account-new',
      'account-alarming',
      'security',
      'security-none',
      'security-removed',
      'applications',
      'applications-removed',
      'applications-none',
      'remove',
      'sessions',
      'sessions-ended',
      'activity',
      'password-wrong',
      'profile-saved',
      'profile-wrong',
      'confirm-address',
      'methods-added',
      'methods-last',
      'requests',
    ],
  ],
  factors: [
    plain,
    [
      'remove-factor',
      'name-factor-added',
      'factor-passkey',
      'factor-app-wrong',
      'add-factor-later',
      'add-factor-both',
      'second-factor-wrong',
      'second-factor-both',
      'second-factor-passkey',
      'recovery-codes-account',
      'recovery-codes-renewed',
      'recovery-codes',
    ],
  ],
  errors: [
    plain,
    [
      'error-request',
      'error-expired',
      'error-browser',
      'error-cookie',
      'error-unavailable',
      'sign-out',
      'sign-out-hinted',
      'sign-out-upstream',
      'signed-out',
    ],
  ],
  mail: [branded, ['mail-invitation', 'mail-forgot', 'mail-address', 'mail-known', 'mail-notice']],
  branding: [branded, ['sign-in', 'consent', 'account']],
} satisfies Record<string, [Preview, string[]]>

const [tag = 'en', folder = join(import.meta.dirname, '../../docs/pages'), group] =
  process.argv.slice(2)
const browser = await launchChromium()
mkdirSync(folder, { recursive: true })

/** The page of each look: another one would start processes of Chromium. */
const pages = new Map<Look, Page>()

/** Takes a screenshot of a page. Returns it as a data: URL. */
async function picture(preview: Preview, name: string, look: Look) {
  const page = pages.get(look) ?? (await browser.newPage(look))
  pages.set(look, page)
  await preview.open(page, tag, name)
  const full = await page.evaluate<number>('document.documentElement.scrollHeight')
  const { width } = look.viewport
  const clip = { x: 0, y: 0, width, height: Math.min(full, MAX_HEIGHT_PX) }
  const taken = await page.screenshot({ fullPage: true, clip })
  return `data:image/png;base64,${taken.toString('base64')}`
}

/** Renders HTML to one image file. */
async function write(name: string, html: string, format: 'webp' | 'png') {
  const sheet = await browser.newPage()
  await sheet.setContent(`<style>${STYLE}</style>${html}`)
  const [width, height] = await sheet.evaluate<[number, number]>(
    '[document.body.offsetWidth, document.body.offsetHeight]',
  )
  const session = await sheet.context().newCDPSession(sheet)
  const { data } = await session.send('Page.captureScreenshot', {
    format,
    ...(format === 'webp' && { quality: WEBP_QUALITY }),
    captureBeyondViewport: true,
    clip: { x: 0, y: 0, width, height, scale: 1 },
  })
  writeFileSync(join(folder, `${name}.${format}`), Buffer.from(data, 'base64'))
  await sheet.close()
}

for (const [sheet, [preview, names]] of Object.entries(SHEETS)) {
  if (group !== undefined && group !== sheet) continue
  const figures: string[] = []
  for (const name of names) {
    const images: string[] = []
    for (const look of [LIGHT, DARK, PHONE]) {
      const source = await picture(preview, name, look)
      const width = look === PHONE ? 270 : 600
      images.push(`<img src="${source}" width="${width}">`)
    }
    figures.push(`<figure>${name}<div>${images.join('')}</div></figure>`)
  }
  await write(sheet, figures.join(''), 'webp')
}
const shown: string[] = []
for (const name of ['sign-in', 'consent', 'account']) {
  shown.push(`<img src="${await picture(plain, name, NARROW)}" width="400">`)
}
await write('readme', `<div>${shown.join('')}</div>`, 'png')
await browser.close()
