// docs/pages.png: every page in every state, in the light, in the dark, and on a phone; or in a language
// of your choice to a file of your choice: npm run contact-sheet -- [TAG FILE]

import { writeFileSync } from 'node:fs'
import type { Browser } from 'playwright-core'
import { launchChromium } from '../support/chromium.ts'
import { createPreview, type Preview } from '../support/preview.ts'
import { STATES } from './samples.ts'

const HIGHEST = 720
const SCALE = 0.36
const LOOKS = [
  { colorScheme: 'light', viewport: { width: 640, height: 400 } },
  { colorScheme: 'dark', viewport: { width: 640, height: 400 } },
  { colorScheme: 'light', viewport: { width: 320, height: 500 } },
] as const
const STYLE = `
  body { display: grid; grid-template-columns: repeat(4, max-content); gap: 24px; width: max-content; margin: 0; padding: 24px; background: #c8ccd4; font: 600 15px system-ui, sans-serif; }
  figure { margin: 0; }
  div { display: flex; gap: 6px; align-items: start; margin-top: 6px; }
`

/** The pictures of every state in one look, as sources of images. */
async function pictures(
  browser: Browser,
  preview: Preview,
  tag: string,
  look: (typeof LOOKS)[0 | 1 | 2],
) {
  const context = await browser.newContext(look)
  await preview.answer(context)
  const page = await context.newPage()
  const taken: string[] = []
  for (const { name } of STATES) {
    await preview.open(page, tag, name)
    const full = await page.evaluate<number>('document.documentElement.scrollHeight')
    const clip = { x: 0, y: 0, width: look.viewport.width, height: Math.min(full, HIGHEST) }
    const picture = await page.screenshot({ fullPage: true, clip })
    taken.push(`data:image/png;base64,${picture.toString('base64')}`)
  }
  await context.close()
  return taken
}

const [tag = 'en', file = 'docs/pages.png'] = process.argv.slice(2)
const browser = await launchChromium()
const preview = createPreview()
const columns: string[][] = []
for (const look of LOOKS) columns.push(await pictures(browser, preview, tag, look))
const figures = STATES.map(({ name }, i) => {
  const images = columns.map(
    (column, at) => `<img src="${column[i]}" width="${(LOOKS[at]?.viewport.width ?? 0) * SCALE}">`,
  )
  return `<figure>${name}<div>${images.join('')}</div></figure>`
})
const sheet = await browser.newPage()
await sheet.setContent(`<style>${STYLE}</style>${figures.join('')}`)
writeFileSync(file, await sheet.locator('body').screenshot())
await browser.close()
