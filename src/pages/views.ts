// Pages from templates and words. Everything a template prints is escaped; `it.t(key)` gives words.

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Eta } from 'eta'
import type { Context } from 'koa'
import { createWords, type Translate } from './words.ts'

const HERE = import.meta.dirname

export interface Views {
  /** Answers with a page. `data` is what the template knows as `it`, besides the words. */
  page(ctx: Context, template: string, data?: Record<string, unknown>, status?: number): void
  /**
   * Answers a POST with a small page that navigates on. A redirect would be held against the
   * `form-action` of the page the form was on, at every hop up to the application (HD4).
   */
  navigate(ctx: Context, url: string): void
  t: Translate
  stylesheet: { path: string }
  sendStylesheet(ctx: Context): void
}

export function createViews({ brand }: { brand: string }): Views {
  const eta = new Eta({ views: `${HERE}/templates`, cache: true, autoEscape: true })
  const words = createWords()
  const css = readFileSync(`${HERE}/style.css`, 'utf8')
  const version = createHash('sha256').update(css).digest('hex').slice(0, 12)
  const stylesheet = { path: `/assets/style-${version}.css` }
  const { t } = words

  const views: Views = {
    t,
    stylesheet,
    page(ctx, template, data = {}, status = 200) {
      const shared = { t, lang: words.lang, brand, stylesheet: stylesheet.path }
      ctx.status = status
      ctx.type = 'html'
      ctx.set('Cache-Control', 'no-store')
      ctx.body = eta.render(template, { ...shared, ...data })
      ctx.state.isPage = true
    },
    sendStylesheet(ctx) {
      ctx.type = 'css'
      ctx.set('Cache-Control', 'public, max-age=31536000, immutable')
      ctx.body = css
    },
    navigate(ctx, url) {
      views.page(ctx, 'navigate', { url })
    },
  }
  return views
}
