// What an operator brings for the pages: the logo, colours, templates and words, and what is wrong with them.

import { readdirSync } from 'node:fs'
import { extname, join, parse, resolve } from 'node:path'
import { type FileResult, readFile } from '../files.ts'
import type { Finding } from '../report/finding.ts'
import { didYouMean } from '../report/wording.ts'
import { readBytes, readText } from '../report/yaml.ts'
import type { ClientFile } from '../schema/client.ts'
import { flatten, type Locales } from '../schema/locale.ts'
import type { UsherFile } from '../schema/usher.ts'
import { tagProblem } from '../schema/values.ts'

/** Maximum size of a picture. A logo is sent with every first page. */
const MAX_PICTURE_BYTES = 256 * 1024
const PNG = Buffer.from('89504e470d0a1a0a', 'hex')
export const THEME = 'theme.css'

/** Pictures, templates and styles of the folder; what is wrong with them goes to `findings`. */
export function readLook(
  usher: FileResult<UsherFile>,
  clients: FileResult<ClientFile>[],
  folder: string,
  findings: Finding[],
) {
  findings.push(...colourFindings(usher, clients))
  const pictures = readPictures(usher, clients, folder, findings)
  const pages = readPages(folder, pictures, findings)
  return { pictures, pages, warnings: logoWarnings(usher, pictures) }
}

/** A picture of the config folder. */
export interface Picture {
  extension: string
  base64: string
}

type Colour = [path: string[], scheme: Scheme, colour: string | undefined, on?: string]

/** Findings for colours that text cannot be read in, or on: WCAG 2.2, 1.4.3. */
function colourFindings(
  { parts, at }: FileResult<UsherFile>,
  clients: FileResult<ClientFile>[],
): Finding[] {
  const { accent, accent_dark, background, background_dark } = parts.branding ?? {}
  const judge = (file: Pick<FileResult<object>, 'at'>, colours: Colour[]) =>
    colours.flatMap(([key, scheme, colour, text = colour]) => {
      const measured =
        !colour || !text ? ENOUGH : contrastIn(scheme, text, text !== colour ? [colour] : undefined)
      if (measured >= ENOUGH) return []
      // Rounded down: 4.499 is not enough.
      const ratio = (Math.floor(measured * 100) / 100).toFixed(2)
      const message =
        text === colour
          ? `can hardly be read: ${ratio}:1 against the ${scheme} page, where text needs ${ENOUGH}:1 (WCAG 2.2, 1.4.3). The nearest that can: '${readableIn(scheme, colour ?? '')}'`
          : `text can hardly be read on it: ${ratio}:1, where ${ENOUGH}:1 is needed (WCAG 2.2, 1.4.3)`
      return [file.at(key, 'contrast', message)]
    })
  return [
    ...judge({ at }, [
      [['branding', 'accent'], 'light', accent],
      [['branding', 'accent_dark'], 'dark', accent_dark],
      [['branding', 'background'], 'light', background, SCHEMES.light.text],
      [['branding', 'background_dark'], 'dark', background_dark, SCHEMES.dark.text],
    ]),
    ...clients.flatMap(client =>
      judge(client, [
        [['branding', 'accent'], 'light', client.parts.branding?.accent],
        [['branding', 'accent_dark'], 'dark', client.parts.branding?.accent_dark],
      ]),
    ),
  ]
}

/** The pictures that usher.yaml and client files name, by the path that they name. */
function readPictures(
  { parts, at }: FileResult<UsherFile>,
  clients: FileResult<ClientFile>[],
  folder: string,
  findings: Finding[],
): Record<string, Picture> {
  const named = [
    ...(['logo', 'logo_dark', 'favicon'] as const).map(key => ({
      at,
      key,
      name: parts.branding?.[key],
    })),
    ...clients.map(({ parts, at }) => ({ at, key: 'logo', name: parts.branding?.logo })),
  ]
  const pictures: Record<string, Picture> = {}
  for (const { at, key, name } of named) {
    if (!name) continue
    const { bytes, problem = pictureProblem(name, bytes) } = readBytes(resolve(folder, name))
    if (problem) findings.push(at(['branding', key], 'file', `its file ${problem}`))
    else if (bytes) pictures[name] = { extension: extname(name), base64: bytes.toString('base64') }
  }
  return pictures
}

/** WCAG 2.2, 1.4.11: graphics. */
const ENOUGH_FOR_GRAPHICS = 3

/** Warnings for SVG logos that can hardly be seen on the light or the dark page. */
function logoWarnings(
  { parts: { branding }, at }: FileResult<UsherFile>,
  pictures: Record<string, Picture>,
): Finding[] {
  const { logo = '', logo_dark = logo } = branding ?? {}
  const seen = (name: string, scheme: Scheme) => {
    const { extension, base64 } = pictures[name] ?? {}
    if (extension !== '.svg' || !base64) return true
    const text = Buffer.from(base64, 'base64').toString()
    if (/prefers-color-scheme|currentColor/.test(text)) return true
    const found = [...text.matchAll(/(?:fill|stroke)\s*[=:]\s*["']?\s*(#[0-9a-f]{6})\b/gi)]
    const colours = found.map(([, colour = '']) => colour)
    const paper = SCHEMES[scheme].backgrounds.slice(0, 1)
    return !colours.length || colours.some(c => contrastIn(scheme, c, paper) >= ENOUGH_FOR_GRAPHICS)
  }
  const warn = (key: string, message: string) => at(['branding', key], 'logo-contrast', message)
  return [
    ...(seen(logo, 'light') ? [] : [warn('logo', 'can hardly be seen on the light page')]),
    ...(seen(logo_dark, 'dark')
      ? []
      : [
          warn(
            logo_dark === logo ? 'logo' : 'logo_dark',
            'can hardly be seen on the dark page: name a lighter one in branding.logo_dark',
          ),
        ]),
  ]
}

function pictureProblem(name: string, bytes: Buffer = Buffer.alloc(0)): string | undefined {
  const isPng = bytes.subarray(0, PNG.length).equals(PNG)
  const isSvg = /<svg[\s>]/.test(bytes.toString('latin1'))
  if (bytes.length > MAX_PICTURE_BYTES) return 'is larger than 256 KiB'
  if (name.endsWith('.svg')) return isSvg ? undefined : 'is no SVG'
  if (name.endsWith('.png')) return isPng ? undefined : 'is no PNG'
  return 'has to be NAME.svg or NAME.png'
}

/** The files of pages/, by their names: theme.css, and templates that take the place of ours. */
function readPages(
  folder: string,
  pictures: Record<string, Picture>,
  findings: Finding[],
): Record<string, string> {
  const pages: Record<string, string> = {}
  for (const name of namesIn(join(folder, 'pages'))) {
    const file = join(folder, 'pages', name)
    if (Object.keys(pictures).some(name => resolve(folder, name) === resolve(file))) continue
    const { text, problem } = readText(file)
    // Which templates there are, the pages know (pages/templates.ts).
    if (name !== THEME && !name.endsWith('.eta')) {
      const message = `nothing reads this${didYouMean(name, [THEME])}`
      findings.push({ file, rule: 'stray-file', message })
    } else if (problem) findings.push({ file, rule: 'file', message: problem })
    else pages[name] = text ?? ''
  }
  return pages
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).filter(name => !name.startsWith('.'))
  } catch {
    return []
  }
}

/** Colours of style.css: what accents lie on (the page, and the ground around it), and soft text. */
export const SCHEMES = {
  light: { backgrounds: ['#ffffff', '#f5f6f8'], text: '#555c6b', towards: '#000000' },
  dark: { backgrounds: ['#1b1e25', '#101217'], text: '#b0b6c3', towards: '#ffffff' },
}
export type Scheme = keyof typeof SCHEMES

/** For text. */
export const ENOUGH = 4.5
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

/** Against the background it is told from least. */
export const contrastIn = (
  scheme: Scheme,
  colour: string,
  backgrounds = SCHEMES[scheme].backgrounds,
) => Math.min(...backgrounds.map(background => contrast(colour, background)))

/** The colour itself where that is enough, else a darker or lighter one that is. */
export function readableIn(scheme: Scheme, colour: string): string {
  const { towards } = SCHEMES[scheme]
  const mixes = Array.from({ length: 101 }, (_, percent) => mix(colour, towards, percent / 100))
  return mixes.find(mixed => contrastIn(scheme, mixed) >= ENOUGH) ?? towards
}

/** The colour of text that is written on `colour`. */
export const inkOn = (colour: string) =>
  INKS.toSorted((a, b) => contrast(b, colour) - contrast(a, colour))[0] ?? ''

function mix(from: string, to: string, share: number): string {
  const target = channels(to)
  const mixed = channels(from).map((part, i) => part + ((target[i] ?? 0) - part) * share)
  return `#${mixed.map(part => Math.round(part).toString(16).padStart(2, '0')).join('')}`
}

/** The operator's words, by language tag. What is wrong with them goes to `findings`. */
export function readLocales(files: string[], findings: Finding[]): Locales {
  const locales: Locales = {}
  for (const file of files) {
    const tag = parse(file).name
    const problem = tagProblem(tag)
    if (problem) findings.push({ file, rule: 'language', message: `the name ${problem}` })
    const read = readFile(file, 'locale')
    findings.push(...read.findings)
    locales[tag] = flatten(read.value)
  }
  return locales
}
