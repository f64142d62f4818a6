// Display settings for pages: colour scheme and window size. With SCREENSHOTS set, each page is saved in each
// setting to /tmp/usher-screens/.

import { mkdirSync } from 'node:fs'
import type { Page } from 'playwright-core'

interface Look {
  name: string
  media: NonNullable<Parameters<Page['emulateMedia']>[0]>
  viewport: { width: number; height: number }
  /** Rules of axe that do not work in this setting, or add nothing to the others. */
  exceptions?: string[]
  /** Rules whose result depends on the setting; absent: all rules. */
  rules?: string[]
}

/** Rules about the appearance. The text and structure of a page are equal in every setting. */
const SEEN = ['color-contrast', 'link-in-text-block', 'target-size', 'scrollable-region-focusable']

const WIDE = { width: 1280, height: 800 }
const LIGHT = { colorScheme: 'light', forcedColors: 'none' } as const
const DARK = { colorScheme: 'dark', forcedColors: 'none' } as const

const PLAIN: Look = { name: 'light', media: LIGHT, viewport: WIDE }

const LOOKS: Look[] = [
  PLAIN,
  { name: 'dark', media: DARK, viewport: WIDE, rules: SEEN },
  { name: 'narrow', media: LIGHT, viewport: { width: 320, height: 640 }, rules: SEEN },
  {
    name: 'zoomed',
    media: LIGHT,
    // Zoom to 200 % leaves half the pixels for the layout.
    viewport: { width: 640, height: 400 },
    rules: SEEN,
    // The colours are those of the wide window, or of the narrow one.
    exceptions: ['color-contrast'],
  },
  {
    name: 'forced-colors',
    media: { ...DARK, forcedColors: 'active' },
    viewport: WIDE,
    rules: SEEN,
    // The system uses its own colours, but the computed style still has the colours of the page.
    exceptions: ['color-contrast'],
  },
]

export async function lookAt(page: Page, { media, viewport } = PLAIN) {
  await page.emulateMedia(media)
  await page.setViewportSize(viewport)
}

const FOLDER = '/tmp/usher-screens'

/** Shows the page in each setting, and returns the problems that `judge` finds, by setting. */
export async function inEveryLook(
  page: Page,
  name: string,
  judge: (look: Look) => Promise<string[]>,
): Promise<Record<string, string[]>> {
  const found: Record<string, string[]> = {}
  for (const look of LOOKS) {
    await lookAt(page, look)
    const problems = await judge(look)
    if (problems.length) found[look.name] = problems
    if (process.env.SCREENSHOTS) {
      mkdirSync(FOLDER, { recursive: true })
      await page.screenshot({ path: `${FOLDER}/${name}.${look.name}.png`, fullPage: true })
    }
  }
  return found
}
