// Rules about the operator's look of the pages: pictures, colours, templates, and the contrast of each.

import { extname, join, resolve } from 'node:path'
import type { ValidFile } from '../files.ts'
import type { Finding } from '../report/finding.ts'
import { didYouMean } from '../report/wording.ts'
import { entriesOf, readBytes, readText } from '../report/yaml.ts'
import type { ClientFile } from '../schema/client.ts'
import type { UsherFile } from '../schema/usher.ts'

/** Maximum size of a picture. A logo is sent with every first page. */
const MAX_PICTURE_BYTES = 256 * 1024
const PNG = Buffer.from('89504e470d0a1a0a', 'hex')
/** The operator's stylesheet, in pages/. */
export const THEME = 'theme.css'

/** A picture of the config folder. */
export interface Picture {
  extension: string
  base64: string
}

type Branded = Pick<ValidFile<unknown>, 'at'> & { branding?: Branding }
interface Branding {
  logo?: string
  logo_dark?: string
  favicon?: string
  accent?: string
  accent_dark?: string
  background?: string
  background_dark?: string
}

/** Returns the pictures, templates and styles of the folder, and the warnings about logos. */
export function readLook(
  usher: ValidFile<UsherFile>,
  clients: ValidFile<ClientFile>[],
  folder: string,
  findings: Finding[],
) {
  const branded: Branded[] = [usher, ...clients].map(({ at, value: { branding } }) => {
    return { at, branding }
  })
  findings.push(...branded.flatMap(colourFindings))
  const pictures: Record<string, Picture> = {}
  for (const { at, branding } of branded) {
    for (const key of ['logo', 'logo_dark', 'favicon'] as const) {
      const name = branding?.[key]
      if (!name) continue
      const { bytes, problem = pictureProblem(name, bytes) } = readBytes(resolve(folder, name))
      if (problem) findings.push(at(['branding', key], 'file', `its file ${problem}`))
      else if (bytes)
        pictures[name] = { extension: extname(name), base64: bytes.toString('base64') }
    }
  }
  const pages = readPages(folder, pictures, findings)
  return { pictures, pages, warnings: logoWarnings(usher, pictures) }
}

/** Returns findings for colours that are hard to read, or hard to read on: WCAG 2.2, 1.4.3. */
function colourFindings({ at, branding }: Branded): Finding[] {
  return (['light', 'dark'] as const).flatMap(scheme => {
    const suffix = scheme === 'dark' ? '_dark' : ''
    const [accentKey, groundKey] = [`accent${suffix}`, `background${suffix}`] as const
    const { [accentKey]: accent, [groundKey]: ground } = branding ?? {}
    const check = (key: string, ratio: number, message: string) => {
      if (ratio >= MIN_TEXT_CONTRAST) return []
      // Rounded down: 4.499 is not enough.
      const measured = `${(Math.floor(ratio * 100) / 100).toFixed(2)}:1`
      const needed = `contrast ${measured}, where text needs ${MIN_TEXT_CONTRAST}:1 (WCAG 2.2, 1.4.3)`
      return [at(['branding', key], 'contrast', `${message}: ${needed}`)]
    }
    const near = accent && `hard to read on the ${scheme} page, use '${readableIn(scheme, accent)}'`
    return [
      ...(accent && near ? check(accentKey, contrastIn(scheme, accent), near) : []),
      ...(ground
        ? check(
            groundKey,
            contrastIn(scheme, SCHEMES[scheme].text, [ground]),
            'text is hard to read on it',
          )
        : []),
    ]
  })
}

/** Returns warnings for SVG logos that are hard to see on the light or the dark page: WCAG 2.2, 1.4.11. */
function logoWarnings(
  { value: { branding }, at }: ValidFile<UsherFile>,
  pictures: Record<string, Picture>,
): Finding[] {
  const darkKey = branding.logo_dark ? 'logo_dark' : 'logo'
  const isFaint = (name: string | undefined, scheme: Scheme) => {
    const { extension, base64 = '' } = pictures[name ?? ''] ?? {}
    const text = Buffer.from(base64, 'base64').toString()
    if (extension !== '.svg' || /prefers-color-scheme|currentColor/.test(text)) return false
    const colours = [...text.matchAll(/(?:fill|stroke)\s*[=:]\s*["']?\s*(#[0-9a-f]{6})\b/gi)]
    const page = SCHEMES[scheme].backgrounds.slice(0, 1)
    const isSeen = ([, colour = '']: string[]) =>
      contrastIn(scheme, colour, page) >= MIN_GRAPHICS_CONTRAST
    return colours.length > 0 && !colours.some(isSeen)
  }
  const messages = {
    light: 'is hard to see on the light page',
    dark: 'is hard to see on the dark page: name a lighter one in branding.logo_dark',
  }
  const warn = (key: 'logo' | 'logo_dark', scheme: Scheme) =>
    isFaint(branding[key], scheme) ? [at(['branding', key], 'logo-contrast', messages[scheme])] : []
  return [...warn('logo', 'light'), ...warn(darkKey, 'dark')]
}

function pictureProblem(name: string, bytes: Buffer = Buffer.alloc(0)): string | undefined {
  const isPng = bytes.subarray(0, PNG.length).equals(PNG)
  const isSvg = /<svg[\s>]/.test(bytes.toString('latin1'))
  if (bytes.length > MAX_PICTURE_BYTES) return 'is larger than 256 KiB'
  if (name.endsWith('.svg')) return isSvg ? undefined : 'is no SVG'
  if (name.endsWith('.png')) return isPng ? undefined : 'is no PNG'
  return 'has to be NAME.svg or NAME.png'
}

/** Returns the files of pages/ by their names: theme.css, and the operator's templates. */
function readPages(
  folder: string,
  pictures: Record<string, Picture>,
  findings: Finding[],
): Record<string, string> {
  const pages: Record<string, string> = {}
  const paths = Object.keys(pictures).map(name => resolve(folder, name))
  for (const { name } of entriesOf(join(folder, 'pages'))) {
    const file = join(folder, 'pages', name)
    if (name.startsWith('.') || paths.includes(resolve(file))) continue
    const { text, problem } = readText(file)
    // pages/templates.ts knows the names of the templates.
    if (name !== THEME && !name.endsWith('.eta')) {
      const message = `nothing reads this${didYouMean(name, [THEME])}`
      findings.push({ file, rule: 'stray-file', message })
    } else if (problem) findings.push({ file, rule: 'file', message: problem })
    else pages[name] = text ?? ''
  }
  return pages
}

/** Colours of style.css: the page, the ground around it, soft text, and the direction of more contrast. */
export const SCHEMES = {
  light: { backgrounds: ['#ffffff', '#f5f6f8'], text: '#555c6b', towards: '#000000' },
  dark: { backgrounds: ['#1b1e25', '#101217'], text: '#b0b6c3', towards: '#ffffff' },
}
/** The two colour schemes of the pages. */
export type Scheme = keyof typeof SCHEMES

/** WCAG 2.2, 1.4.3. */
export const MIN_TEXT_CONTRAST = 4.5
/** WCAG 2.2, 1.4.11. */
const MIN_GRAPHICS_CONTRAST = 3
const INKS = ['#ffffff', '#0d1526']

const channels = (colour: string) =>
  [1, 3, 5].map(at => Number.parseInt(colour.slice(at, at + 2), 16))

function luminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = channels(colour).map(channel => {
    const part = channel / 255
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}

function contrast(one: string, other: string): number {
  const [lighter = 0, darker = 0] = [luminance(one), luminance(other)].sort((a, b) => b - a)
  return (lighter + 0.05) / (darker + 0.05)
}

/** Returns the lowest contrast of a colour against the backgrounds. */
export const contrastIn = (
  scheme: Scheme,
  colour: string,
  backgrounds = SCHEMES[scheme].backgrounds,
) => Math.min(...backgrounds.map(background => contrast(colour, background)))

/** Returns the nearest colour that is readable as text: the colour itself, a darker or a lighter one. */
export function readableIn(scheme: Scheme, colour: string): string {
  const { towards } = SCHEMES[scheme]
  const mixes = Array.from({ length: 101 }, (_, percent) => mix(colour, towards, percent / 100))
  return mixes.find(mixed => contrastIn(scheme, mixed) >= MIN_TEXT_CONTRAST) ?? towards
}

/** Returns the colour for text on `colour`. */
export const inkOn = (colour: string) =>
  INKS.toSorted((a, b) => contrast(b, colour) - contrast(a, colour))[0] ?? ''

function mix(from: string, to: string, share: number): string {
  const target = channels(to)
  const mixed = channels(from).map((part, i) => part + ((target[i] ?? 0) - part) * share)
  return `#${mixed.map(part => Math.round(part).toString(16).padStart(2, '0')).join('')}`
}
