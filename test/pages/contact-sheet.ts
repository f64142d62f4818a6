// Writes docs/pages/: a picture of each group of pages in the light, in the dark and on a phone, and the
// picture of the README. npm run contact-sheet -- [LANGUAGE FOLDER]

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, BrowserContextOptions } from 'playwright-core'
import { launchChromium } from '../support/chromium.ts'
import { createPreview } from '../support/preview.ts'
import { STATES } from './samples.ts'

const LIGHT = { colorScheme: 'light', viewport: { width: 900, height: 680 } } as const
const DARK = { ...LIGHT, colorScheme: 'dark' } as const
const PHONE = { colorScheme: 'light', viewport: { width: 360, height: 680 } } as const
const LOOKS = [LIGHT, DARK, PHONE]
type Look = Pick<BrowserContextOptions, 'colorScheme'> & {
  viewport: { width: number; height: number }
}
/** Pictures keep their shape, and are this high at most: pixels. */
const MAX_HEIGHT = 1400
const STYLE = `
  body { display: grid; gap: 20px; width: max-content; margin: 0; padding: 20px; background: #c8ccd4; font: 600 15px system-ui, sans-serif; }
  figure { margin: 0; }
  div { display: flex; gap: 10px; align-items: start; margin-top: 6px; }
  img { border-radius: 6px; }
`

/** A page belongs to the group that its name begins with. */
const GROUPS = [
  'sign-in',
  'select-account',
  'consent',
  'device',
  'account',
  'applications',
  'remove',
  'sessions',
  'end',
  'requests',
  'password',
  'sign',
  'error',
]
const groupOf = (name: string) => GROUPS.find(group => name.startsWith(group)) ?? 'other'

const [tag = 'en', folder = join(import.meta.dirname, '../../docs/pages')] = process.argv.slice(2)
const browser = await launchChromium()
const preview = createPreview()
mkdirSync(folder, { recursive: true })

/** The picture of a page as the source of an image. */
async function picture(browser: Browser, name: string, look: Look) {
  const context = await browser.newContext(look)
  await preview.answer(context)
  const page = await context.newPage()
  await preview.open(page, tag, name)
  const full = await page.evaluate<number>('document.documentElement.scrollHeight')
  const { width } = look.viewport
  const clip = { x: 0, y: 0, width, height: Math.min(full, MAX_HEIGHT) }
  const taken = await page.screenshot({ fullPage: true, clip })
  await context.close()
  return `data:image/png;base64,${taken.toString('base64')}`
}

/** Writes HTML as one picture. */
async function write(name: string, html: string) {
  const sheet = await browser.newPage()
  await sheet.setContent(`<style>${STYLE}</style>${html}`)
  writeFileSync(join(folder, `${name}.png`), await sheet.locator('body').screenshot())
  await sheet.close()
}

for (const [group, states] of Map.groupBy(STATES, ({ name }) => groupOf(name))) {
  const figures: string[] = []
  for (const { name } of states) {
    const images: string[] = []
    for (const look of LOOKS) {
      const source = await picture(browser, name, look)
      images.push(`<img src="${source}" width="${look.viewport.width / 2}">`)
    }
    figures.push(`<figure>${name}<div>${images.join('')}</div></figure>`)
  }
  await write(group, figures.join(''))
}
const shown: string[] = []
for (const name of ['sign-in', 'consent', 'applications-removed']) {
  const narrow = { ...LIGHT, viewport: { width: 520, height: 680 } }
  shown.push(`<img src="${await picture(browser, name, narrow)}" width="400">`)
}
await write('readme', `<div>${shown.join('')}</div>`)
await browser.close()
