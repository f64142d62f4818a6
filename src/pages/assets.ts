// Static files of the pages, with a hash of the content in their names: Usher's
// own files, and the logos and colours of the operator.

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import type { Context } from 'koa'
import type { Settings } from '../config/load.ts'
import { inkOn, readableIn, THEME } from '../config/rules/pages.ts'

/** A static file, with its path and the handler that sends it. */
export type Asset = ReturnType<typeof asset>

/**
 * An SVG opened by itself is a document of the issuer's origin. Its scripts
 * must not run.
 */
const PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"

/**
 * Returns the files of every page, the files and the logo of each client, and
 * the logos of upstreams.
 */
export function createAssets({
  branding,
  clients,
  upstreams,
  pictures,
  pages,
}: Settings) {
  const picture = (kind: string, name = '') => {
    const found = pictures[name]
    return found
      ? asset(`${kind}${extname(name)}`, Buffer.from(found, 'base64'))
      : undefined
  }
  const sheet = (name: string, css: string) =>
    css ? asset(name, css) : undefined
  const logo = picture('logo', branding.logo)
  const site = {
    stylesheet: asset('style.css'),
    /** After the stylesheet: the operator's colours and rules. */
    theme: sheet(
      THEME,
      [colours(branding), pages[THEME]].filter(Boolean).join('\n'),
    ),
    /** Submits the form of hand-over.eta. */
    submit: asset('submit.js'),
    /** Shows and hides the text of a password field. */
    reveal: asset('reveal.js'),
    /** Closes the account menu with Escape. */
    menu: asset('menu.js'),
    /** Copies the key of an app and recovery codes, and prints these. */
    copy: asset('copy.js'),
    /** Signs in with passkeys, and adds them. */
    passkey: asset('passkey.js'),
    icon: picture('icon', branding.favicon) ?? logo ?? asset('icon.svg'),
    logo,
    logoDark: picture('logo-dark', branding.logo_dark),
  }
  const looks = clients.map(({ client_id, branding = {}, logo_uri }) => {
    const mark = picture('mark', logo_uri)
    const clientLogo = picture('client', branding.logo)
    const clientTheme = sheet('client.css', colours(branding))
    return [client_id, { mark, clientLogo, clientTheme }] as const
  })
  const buttons = Object.values(upstreams).map(({ name, branding }) => {
    return [name, picture(name, branding.logo)] as const
  })
  return { site, looks: new Map(looks), buttons: new Map(buttons) }
}

type Colours = Partial<Settings['branding']>

/**
 * Returns the colours as CSS. A light background must not appear in the dark
 * scheme.
 */
function colours({
  accent,
  accent_dark = accent,
  background,
  background_dark = background && 'var(--ground)',
}: Colours): string {
  const inks = (colour = '') =>
    colour && `--accent: ${colour}; --on-accent: ${inkOn(colour)}; `
  const ground = (colour = '') => colour && `--background: ${colour}; `
  const rule = (text: string) => text && `:root { ${text}}`
  const dark =
    inks(accent_dark && readableIn('dark', accent_dark)) +
    ground(background_dark)
  const rules = [
    rule(inks(accent) + ground(background)),
    dark && `@media (prefers-color-scheme: dark) { ${rule(dark)} }`,
  ]
  return rules.filter(Boolean).join('\n')
}

const readShipped = (name: string) =>
  readFileSync(join(import.meta.dirname, name))

function asset(name: string, content: string | Buffer = readShipped(name)) {
  const version = createHash('sha256')
    .update(content)
    .digest('hex')
    .slice(0, 12)
  const extension = extname(name)
  return {
    path: `/assets/${name.replace(extension, '')}-${version}${extension}`,
    content,
    send(ctx: Context) {
      ctx.type = extension
      ctx.set('Cache-Control', 'public, max-age=31536000, immutable')
      if (extension === '.svg')
        ctx.set('Content-Security-Policy', PICTURE_POLICY)
      ctx.body = content
    },
  }
}
