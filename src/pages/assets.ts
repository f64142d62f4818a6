// The few files that pages need, under names that change with their content: ours, and the operator's
// logo and colours.

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import type { Context } from 'koa'
import type { Settings } from '../config/load.ts'
import { inkOn, readableIn, THEME } from '../config/rules/pages.ts'

export type Asset = ReturnType<typeof asset>

/** An SVG that is opened by itself is a document of our origin: nothing in it may run. */
const PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"

export function createAssets({
  branding,
  logo,
  pages,
}: Pick<Settings, 'branding' | 'logo' | 'pages'>) {
  const theme = [accents(branding), pages[THEME]].filter(Boolean).join('\n')
  return {
    stylesheet: asset('style.css'),
    /** After the stylesheet: the operator's colours and rules. */
    ...(theme && { theme: asset(THEME, theme) }),
    /** Sends the one form that goes on by itself. */
    submit: asset('submit.js'),
    /** Shows what was typed into a password field. */
    reveal: asset('reveal.js'),
    icon: asset('icon.svg'),
    ...(logo && { logo: asset(`logo${logo.extension}`, Buffer.from(logo.base64, 'base64')) }),
  }
}

function accents({ accent, accent_dark = accent }: Settings['branding']): string {
  const rule = (colour: string) => `:root { --accent: ${colour}; --on-accent: ${inkOn(colour)}; }`
  const light = accent && rule(accent)
  const dark = accent_dark && rule(readableIn('dark', accent_dark))
  return [light, dark && `@media (prefers-color-scheme: dark) { ${dark} }`]
    .filter(Boolean)
    .join('\n')
}

const ours = (name: string) => readFileSync(join(import.meta.dirname, name))

function asset(name: string, content: string | Buffer = ours(name)) {
  const version = createHash('sha256').update(content).digest('hex').slice(0, 12)
  const extension = extname(name)
  return {
    path: `/assets/${name.replace(extension, '')}-${version}${extension}`,
    content,
    send(ctx: Context) {
      ctx.type = extension
      ctx.set('Cache-Control', 'public, max-age=31536000, immutable')
      if (extension === '.svg') ctx.set('Content-Security-Policy', PICTURE_POLICY)
      ctx.body = content
    },
  }
}
