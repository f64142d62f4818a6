// The few files that pages need, under names that change with their content.

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import type { Context } from 'koa'

export function createAssets() {
  return {
    stylesheet: asset('style.css'),
    /** Sends the one form that goes on by itself. */
    submit: asset('submit.js'),
    icon: asset('icon.svg'),
  }
}

function asset(name: string) {
  const content = readFileSync(join(import.meta.dirname, name), 'utf8')
  const version = createHash('sha256').update(content).digest('hex').slice(0, 12)
  const extension = extname(name)
  return {
    path: `/assets/${name.replace(extension, '')}-${version}${extension}`,
    send(ctx: Context) {
      ctx.type = extension
      ctx.set('Cache-Control', 'public, max-age=31536000, immutable')
      ctx.body = content
    },
  }
}
