// The pages of `usher pages preview`, opened in Chromium without a server.

import type { BrowserContext, Page } from 'playwright-core'
import { readSettings } from '../../src/config/load.ts'
import { createViews } from '../../src/pages/views.ts'
import { pathOf, preview } from '../pages/preview.ts'
import { type Files, withFolder } from './config-folder.ts'

/** An address without a server: the browser context answers from memory. */
const ORIGIN = 'https://preview.example'
const TYPES: Record<string, string> = { html: 'text/html', css: 'text/css', svg: 'image/svg+xml' }

export type Preview = Awaited<ReturnType<typeof createPreview>>

/** Creates the preview of a config folder with these files. */
export async function createPreview(config: Files = {}) {
  const views = await withFolder(config, async folder =>
    createViews(await readSettings({ USHER_CONFIG: folder })),
  )
  const files = preview(views, views.tags)
  return {
    tags: views.tags,

    /** The number of characters of a page in English. */
    sizeOf: (name: string) => String(files.get(pathOf('en', { name }))).length,

    answer: (context: BrowserContext) =>
      context.route(`${ORIGIN}/**`, route => {
        const path = new URL(route.request().url()).pathname.slice(1)
        const body = files.get(path)
        const contentType = TYPES[path.split('.').at(-1) ?? ''] ?? 'text/plain'
        return body === undefined
          ? route.fulfill({ status: 404 })
          : route.fulfill({ body, contentType: `${contentType}; charset=utf-8` })
      }),

    open: (page: Page, tag: string, name: string) =>
      page.goto(`${ORIGIN}/${pathOf(tag, { name })}`),
  }
}
