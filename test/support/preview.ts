// The pages as `usher pages preview` writes them, opened in a real browser without anything running.

import type { BrowserContext, Page } from 'playwright-core'
import { readSettings } from '../../src/config/load.ts'
import { createViews } from '../../src/pages/views.ts'
import { pathOf, preview } from '../pages/preview.ts'
import { type Files, withFolder } from './config-folder.ts'

/** Nobody's address: what is asked of it is answered from memory. */
const ORIGIN = 'https://preview.example'
const TYPES: Record<string, string> = { html: 'text/html', css: 'text/css', svg: 'image/svg+xml' }

export type Preview = ReturnType<typeof createPreview>

/** Of a config folder with these files. */
export function createPreview(config: Files = {}) {
  const views = withFolder(config, folder => createViews(readSettings({ USHER_CONFIG: folder })))
  const files = preview(views, views.tags)
  return {
    tags: views.tags,

    /** Characters of a state's page, in English. */
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
