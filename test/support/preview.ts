// The pages of `usher pages preview`, opened in Chromium.

import { createServer } from 'node:http'
import type { Page } from 'playwright-core'
import { readSettings } from '../../src/config/load.ts'
import { createViews } from '../../src/pages/views.ts'
import { pathOf, preview } from '../pages/preview.ts'
import { STATES } from '../pages/samples.ts'
import { type Files, withFolder } from './config-folder.ts'
import { listen } from './ports.ts'

const TYPES: Record<string, string> = {
  html: 'text/html',
  css: 'text/css',
  js: 'text/javascript',
  svg: 'image/svg+xml',
}

/** Replaces the document of the page, and runs the scripts of the new one as modules, which can run again. */
const REPLACE = `async html => {
  const next = new DOMParser().parseFromString(html, 'text/html')
  document.replaceChild(next.documentElement, document.documentElement)
  for (const link of document.querySelectorAll('link[rel=stylesheet]'))
    if (!link.sheet) await new Promise(done => link.addEventListener('load', done))
  window.shown = (window.shown ?? 0) + 1
  for (const { src } of document.querySelectorAll('script[src]')) await import(src + '?' + shown)
}`

export type Preview = Awaited<ReturnType<typeof createPreview>>

/** Creates the preview of a config folder with these files. */
export async function createPreview(config: Files = {}) {
  const views = await withFolder(config, async folder =>
    createViews(await readSettings({ USHER_CONFIG: folder })),
  )
  const files = preview(views, views.tags)
  const fileOf = (tag: string, name: string) => String(files.get(pathOf(tag, { name })))
  const sizeOf = ({ name }: { name: string }) => fileOf('en', name).length

  // A server, because routes of Playwright switch off the cache of the browser.
  const server = createServer((request, response) => {
    const path = new URL(request.url ?? '', 'http://localhost').pathname.slice(1)
    const body = files.get(path)
    const type = TYPES[path.split('.').at(-1) ?? ''] ?? 'text/plain'
    const headers = { 'content-type': `${type}; charset=utf-8`, 'cache-control': 'max-age=600' }
    response.writeHead(body === undefined ? 404 : 200, headers).end(body)
  })
  const origin = `http://127.0.0.1:${await listen(server)}`
  // The server does not keep the process of the tests alive.
  server.unref()

  return {
    tags: views.tags,

    /** The state of each template that has the longest page in English. */
    longestOfEach: [...Map.groupBy(STATES, ({ template }) => template).values()].map(
      states => states.toSorted((a, b) => sizeOf(b) - sizeOf(a))[0]?.name ?? '',
    ),

    open: (page: Page, tag: string, name: string) =>
      page.goto(`${origin}/${pathOf(tag, { name })}`),

    /** Shows another page in a page that `open` has opened: without loading anything, in a fifth of the time. */
    show: (page: Page, tag: string, name: string) =>
      page.evaluate(`(${REPLACE})(${JSON.stringify(fileOf(tag, name))})`),
  }
}
