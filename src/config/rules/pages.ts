// What an operator brings for the pages: the logo, colours, templates and words, and what is wrong with them.

import { readdirSync } from 'node:fs'
import { extname, join, parse, relative, resolve } from 'node:path'
import { type FileResult, readFile } from '../files.ts'
import type { Finding } from '../report/finding.ts'
import { didYouMean } from '../report/wording.ts'
import { readBytes, readText } from '../report/yaml.ts'
import { flatten, type Locales } from '../schema/locale.ts'
import type { UsherFile } from '../schema/usher.ts'
import { tagProblem } from '../schema/values.ts'

/** Of the logo; it is sent with every first page. */
const LARGEST = 256 * 1024
const PNG = Buffer.from('89504e470d0a1a0a', 'hex')
export const THEME = 'theme.css'

export interface Logo {
  extension: string
  base64: string
}

export function accentFindings({ parts, at }: FileResult<UsherFile>): Finding[] {
  const judge = (key: 'accent' | 'accent_dark', scheme: Scheme) => {
    const colour = parts.branding?.[key]
    const measured = colour ? contrastIn(scheme, colour) : ENOUGH
    if (!colour || measured >= ENOUGH) return []
    // Rounded down: 4.499 is not enough.
    const ratio = (Math.floor(measured * 100) / 100).toFixed(2)
    const message = `can hardly be read: ${ratio}:1 against the ${scheme} page, where text needs ${ENOUGH}:1 (WCAG 2.2, 1.4.3). The nearest that can: '${readableIn(scheme, colour)}'`
    return [at(['branding', key], 'contrast', message)]
  }
  return [...judge('accent', 'light'), ...judge('accent_dark', 'dark')]
}

/** `path` is relative to the folder. */
export function readLogo(
  { parts, at }: FileResult<UsherFile>,
  folder: string,
  findings: Finding[],
): Logo | undefined {
  const { logo } = parts.branding ?? {}
  if (!logo) return undefined
  const { bytes, problem = logoProblem(logo, bytes) } = readBytes(resolve(folder, logo))
  if (problem) findings.push(at(['branding', 'logo'], 'file', `its file ${problem}`))
  return bytes && { extension: extname(logo), base64: bytes.toString('base64') }
}

function logoProblem(name: string, bytes: Buffer = Buffer.alloc(0)): string | undefined {
  const isPng = bytes.subarray(0, PNG.length).equals(PNG)
  const isSvg = /<svg[\s>]/.test(bytes.toString('latin1'))
  if (bytes.length > LARGEST) return 'is larger than 256 KiB'
  if (name.endsWith('.svg')) return isSvg ? undefined : 'is no SVG'
  if (name.endsWith('.png')) return isPng ? undefined : 'is no PNG'
  return 'has to be NAME.svg or NAME.png'
}

/** The files of pages/, by their names: theme.css, and templates that take the place of ours. */
export function readPages(
  folder: string,
  logo: string | undefined,
  findings: Finding[],
): Record<string, string> {
  const pages: Record<string, string> = {}
  for (const name of namesIn(join(folder, 'pages'))) {
    const file = join(folder, 'pages', name)
    if (logo && !relative(resolve(folder, logo), resolve(file))) continue
    const { text, problem } = readText(file)
    // Which templates there are, the pages know (own-templates.ts).
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

/** What accents lie on, as style.css has it: the page, and the ground around it. */
export const SCHEMES = {
  light: { backgrounds: ['#ffffff', '#f5f6f8'], towards: '#000000' },
  dark: { backgrounds: ['#1b1e25', '#101217'], towards: '#ffffff' },
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
export const contrastIn = (scheme: Scheme, colour: string) =>
  Math.min(...SCHEMES[scheme].backgrounds.map(background => contrast(colour, background)))

/** The colour itself where that is enough, else a darker or lighter one that is. */
export function readableIn(scheme: Scheme, colour: string): string {
  const { towards } = SCHEMES[scheme]
  const mixes = Array.from({ length: 101 }, (_, percent) => mix(colour, towards, percent / 100))
  return mixes.find(mixed => contrastIn(scheme, mixed) >= ENOUGH) ?? towards
}

/** What text on the colour is written in. */
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
