// Pages from templates and words. Everything a template prints is escaped; `it.t(key)` gives words.

import { Eta } from 'eta'
import type { Context } from 'koa'
import { createAssets } from './assets.ts'
import { createWords, type Translate } from './words.ts'

export interface Views {
  /** Answers with a page. `data` is what the template knows as `it`, besides the words. */
  page(ctx: Context, template: string, data?: Record<string, unknown>, status?: number): void
  /**
   * Answers a POST with a small page that navigates on. A redirect would be held against the
   * `form-action` of the page the form was on, at every hop up to the application (HD4).
   */
  navigate(ctx: Context, url: string): void
  /** Answers with a form that goes on by itself, or at a button. */
  handOver(ctx: Context, action: string, fields: Record<string, unknown>): void
  t: Translate
  assets: ReturnType<typeof createAssets>
}

export function createViews({ brand }: { brand: string }): Views {
  const eta = new Eta({
    views: `${import.meta.dirname}/templates`,
    cache: true,
    autoEscape: true,
    autoTrim: false,
  })
  const { t, lang } = createWords()
  const assets = createAssets()

  /** Words as HTML, with the values in bold. */
  const strong: Translate = (key, values = {}) => {
    const marked = Object.entries(values).map(([name, value]) => [name, `\x01${value}\x02`])
    const html = eta.config.escapeFunction(t(key, Object.fromEntries(marked)))
    return html.replaceAll('\x01', '<strong>').replaceAll('\x02', '</strong>')
  }
  const shared = { t, strong, lang, brand, assets }

  const views: Views = {
    t,
    assets,
    page(ctx, template, data = {}, status = 200) {
      ctx.status = status
      ctx.type = 'html'
      ctx.set('Cache-Control', 'no-store')
      ctx.body = eta.render(template, { ...shared, ...data })
      ctx.state.isPage = true
    },
    navigate(ctx, url) {
      views.page(ctx, 'navigate', { url })
    },
    handOver(ctx, action, fields) {
      const status = 'error' in fields ? 400 : 200
      views.page(ctx, 'hand-over', { action, fields }, status)
    },
  }
  return views
}
