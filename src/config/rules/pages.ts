// Rules about the operator's look of the pages: pictures, colours, templates,
// and the contrast of each.

import { readdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pause } from '../../store/turns.ts'
import { entriesOf, readBytes, readText } from '../disk.ts'
import type { ValidFile } from '../files.ts'
import type { Finding } from '../report/finding.ts'
import { strayFile } from '../report/wording.ts'
import type { UsherFile } from '../schema/usher.ts'
import { brokenRules, type Rule } from './rule.ts'

/** Maximum size of a picture. A logo is sent with every first page. */
const MAX_PICTURE_BYTES = 256 * 1024
const PNG = Buffer.from('89504e470d0a1a0a', 'hex')
/** The operator's stylesheet, in pages/. */
export const THEME = 'theme.css'
/** The files that pages/ can have. */
const FILES = [
  THEME,
  ...readdirSync(join(import.meta.dirname, '../../pages/templates')),
]

/** Pictures as base64, by their paths in the files. */
type Pictures = Record<string, string>
type Look = { branding?: Partial<UsherFile['branding']>; logo_uri?: string }
type Branded = Pick<ValidFile<Look>, 'at' | 'value'>

/**
 * Returns the pictures as base64, the templates and the stylesheet of the
 * folder.
 */
export async function readLook(
  branded: Branded[],
  folder: string,
  findings: Finding[],
) {
  const pictures: Pictures = {}
  for (const file of branded) {
    await pause()
    findings.push(...colourFindings(file))
    for (const { path, name } of picturesOf(file.value)) {
      const { bytes = Buffer.alloc(0), problem } = readBytes(
        resolve(folder, name),
      )
      const wrong = problem ?? pictureProblem(name, bytes)
      if (wrong) findings.push(file.at(path, 'file', `its file ${wrong}`))
      else pictures[name] = bytes.toString('base64')
    }
  }
  return { pictures, pages: readPages(folder, Object.keys(pictures), findings) }
}

const PICTURES = ['logo', 'logo_dark', 'favicon'] as const

/**
 * Returns the names of the pictures of a file, each with the path of its key.
 */
function picturesOf({
  branding = {},
  logo_uri,
}: Look): { path: string[]; name: string }[] {
  const all = [
    ...PICTURES.map(key => ({
      path: ['branding', key],
      name: branding[key] ?? '',
    })),
    { path: ['logo_uri'], name: logo_uri ?? '' },
  ]
  return all.filter(({ name }) => name)
}

const COLOURS = [
  'accent',
  'accent_dark',
  'background',
  'background_dark',
] as const

/**
 * Returns findings for colours that are hard to read, or hard to read on: WCAG
 * 2.2, 1.4.3.
 */
function colourFindings({ at, value: { branding = {} } }: Branded): Finding[] {
  return COLOURS.flatMap(key => {
    const colour = branding[key]
    const problem = colour && contrastProblem(key, colour)
    return problem ? [at(['branding', key], 'contrast', problem)] : []
  })
}

/** An accent colours text, and a background is below text. */
function contrastProblem(
  key: (typeof COLOURS)[number],
  colour: string,
): string | undefined {
  const scheme = key.endsWith('dark') ? 'dark' : 'light'
  const isText = key.startsWith('accent')
  const ratio = isText
    ? contrastIn(scheme, colour)
    : contrast(SCHEMES[scheme].text, colour)
  if (ratio >= MIN_TEXT_CONTRAST) return undefined
  // Rounded down: 4.499 is not enough.
  const measured = `${(Math.floor(ratio * 100) / 100).toFixed(2)}:1`
  const needed = `contrast ${measured}, where text needs ${MIN_TEXT_CONTRAST}:1 (WCAG 2.2, 1.4.3)`
  if (!isText) return `text is hard to read on it: ${needed}`
  return `hard to read on the ${scheme} page, use '${readableIn(scheme, colour)}': ${needed}`
}

/**
 * Returns findings for SVG logos that are hard to see on the light or the dark
 * page: WCAG 2.2, 1.4.11.
 */
export const logoFindings = (usher: ValidFile<UsherFile>, pictures: Pictures) =>
  brokenRules(LOGO_RULES, usher, pictures)

const LOGO_RULES: Rule<UsherFile, Pictures>[] = [
  {
    rule: 'logo-contrast',
    at: 'branding.logo',
    when: ({ branding: { logo, logo_dark } }, pictures) =>
      isHidden(logo, 'light', pictures) ||
      (!logo_dark && isHidden(logo, 'dark', pictures)),
  },
  {
    rule: 'logo-contrast',
    at: 'branding.logo_dark',
    when: ({ branding: { logo_dark } }, pictures) =>
      isHidden(logo_dark, 'dark', pictures),
  },
]

/** Whether an SVG has a colour that is hard to see on the page of a scheme. */
function isHidden(
  name: string | undefined,
  scheme: Scheme,
  pictures: Pictures,
): boolean {
  if (!name?.endsWith('.svg')) return false
  const svg = Buffer.from(pictures[name] ?? '', 'base64').toString()
  if (/prefers-color-scheme|currentColor/.test(svg)) return false
  const [page = ''] = SCHEMES[scheme].backgrounds
  return coloursOnPage(svg).some(
    colour => contrast(colour, page) < MIN_GRAPHICS_CONTRAST,
  )
}

/**
 * From the top or left edge to the bottom or right one, whichever is further.
 */
type Square = { from: number; to: number }

/**
 * Returns the colours of an SVG that are drawn on the page: without those of a
 * shape that begins within the square around an earlier shape.
 */
function coloursOnPage(svg: string): string[] {
  const squares: Square[] = []
  const drawn = svg.replace(/<(defs|clipPath|mask)\b.*?<\/\1>/gs, '')
  return (drawn.match(/<\w[^>]*>/g) ?? []).flatMap(tag => {
    const points = pointsOf(tag)
    const start = points.slice(0, 2)
    const isInside = squares.some(
      ({ from, to }) => Math.min(...start) >= from && Math.max(...start) <= to,
    )
    if (/^<(path|polygon|rect|circle)/.test(tag))
      squares.push(squareOf(tag, points))
    const colours = tag.match(
      /(?<=(?:fill|stroke)\s*[=:]\s*["']?\s*)#(?:[0-9a-f]{3}){1,2}\b/gi,
    )
    return isInside ? [] : (colours ?? [])
  })
}

/**
 * Returns an attribute of a tag; empty if there is none. `name` is a part of a
 * regular expression.
 */
const attributeOf = (tag: string, name: string) =>
  new RegExp(`\\s${name}\\s*=\\s*["']([^"']*)`).exec(tag)?.[1] ?? ''

const sizeOf = (tag: string, name: string) =>
  Number.parseFloat(attributeOf(tag, name)) || 0

/** Returns the coordinates of a shape: of its path, or where it stands. */
function pointsOf(tag: string): number[] {
  const path = attributeOf(tag, '(?:d|points)').match(/-?\d+(\.\d+)?/g)
  return path?.map(Number) ?? [sizeOf(tag, 'c?x'), sizeOf(tag, 'c?y')]
}

function squareOf(tag: string, points: number[]): Square {
  const radius = sizeOf(tag, 'r')
  const reach = Math.max(sizeOf(tag, 'width'), sizeOf(tag, 'height'), radius)
  return { from: Math.min(...points) - radius, to: Math.max(...points) + reach }
}

function pictureProblem(name: string, bytes: Buffer): string | undefined {
  if (bytes.length > MAX_PICTURE_BYTES) return 'is larger than 256 KiB'
  if (name.endsWith('.svg')) {
    return /<svg[\s>]/.test(bytes.toString('latin1')) ? undefined : 'is no SVG'
  }
  if (name.endsWith('.png'))
    return bytes.indexOf(PNG) === 0 ? undefined : 'is no PNG'
  return 'has to be NAME.svg or NAME.png'
}

/**
 * Returns the files of pages/ by their names. pages/templates.ts checks the
 * code of the templates.
 */
function readPages(folder: string, pictures: string[], findings: Finding[]) {
  const pages: Record<string, string> = {}
  const paths = pictures.map(name => resolve(folder, name))
  for (const { name } of entriesOf(join(folder, 'pages'), findings)) {
    const file = join(folder, 'pages', name)
    if (name.startsWith('.') || paths.includes(resolve(file))) continue
    const { text = '', problem } = readText(file)
    if (!FILES.includes(name)) findings.push(strayFile(file, FILES))
    else if (problem) findings.push({ file, rule: 'file', message: problem })
    else pages[name] = text
  }
  return pages
}

/**
 * Colours of style.css: the page, the ground around it, soft text, and the
 * direction of more contrast.
 */
export const SCHEMES = {
  light: {
    backgrounds: ['#ffffff', '#f5f6f8'],
    text: '#555c6b',
    towards: '#000000',
  },
  dark: {
    backgrounds: ['#1b1e25', '#101217'],
    text: '#b0b6c3',
    towards: '#ffffff',
  },
}
/** The two colour schemes of the pages. */
export type Scheme = keyof typeof SCHEMES

/** WCAG 2.2, 1.4.3. */
export const MIN_TEXT_CONTRAST = 4.5
/** WCAG 2.2, 1.4.11. */
const MIN_GRAPHICS_CONTRAST = 3
const LIGHT_INK = '#ffffff'
const DARK_INK = '#0d1526'

/**
 * Returns the lowest contrast of a colour against the backgrounds of a scheme.
 */
export const contrastIn = (scheme: Scheme, colour: string) =>
  Math.min(
    ...SCHEMES[scheme].backgrounds.map(background =>
      contrast(colour, background),
    ),
  )

/**
 * Returns the nearest colour that is readable as text: the colour itself, a
 * darker or a lighter one.
 */
export function readableIn(scheme: Scheme, colour: string): string {
  const { towards } = SCHEMES[scheme]
  const mixes = Array.from({ length: 101 }, (_, percent) =>
    mix(colour, towards, percent / 100),
  )
  return (
    mixes.find(mixed => contrastIn(scheme, mixed) >= MIN_TEXT_CONTRAST) ??
    towards
  )
}

/** Returns the colour for text on `colour`. */
export const inkOn = (colour: string) =>
  contrast(LIGHT_INK, colour) >= contrast(DARK_INK, colour)
    ? LIGHT_INK
    : DARK_INK

/** Contrast ratio of two colours (WCAG 2.2). */
function contrast(one: string, other: string): number {
  const ofOne = luminanceOf(one)
  const ofOther = luminanceOf(other)
  return (Math.max(ofOne, ofOther) + 0.05) / (Math.min(ofOne, ofOther) + 0.05)
}

/** Relative luminance of a colour (WCAG 2.2). */
function luminanceOf(colour: string): number {
  const [red = 0, green = 0, blue = 0] = channelsOf(colour).map(linear)
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/** Returns a channel of sRGB, 0 to 255, as its part of the light, 0 to 1. */
function linear(channel: number): number {
  const part = channel / 255
  return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
}

/** Returns the colour at `share` of the way between two. */
function mix(from: string, to: string, share: number): string {
  const target = channelsOf(to)
  const mixed = channelsOf(from).map(
    (channel, i) => channel + ((target[i] ?? 0) - channel) * share,
  )
  return `#${Buffer.from(mixed.map(Math.round)).toString('hex')}`
}

/** The red, green and blue of `#rrggbb` or `#rgb`, 0 to 255 each. */
const channelsOf = (colour: string) =>
  Buffer.from(colour.slice(1).replace(/^(.)(.)(.)$/, '$1$1$2$2$3$3'), 'hex')
    .values()
    .toArray()
