// How an operator's pages look: what branding in usher.yaml means, the logo it names, and the files of
// pages/.

import { readdirSync } from 'node:fs'
import { extname, join, relative, resolve } from 'node:path'
import type { FileResult } from '../files.ts'
import type { Finding } from '../report/finding.ts'
import { didYouMean } from '../report/wording.ts'
import { contrastIn, ENOUGH, readableIn, type Scheme } from '../rules/contrast.ts'
import { readBytes, readText } from '../text-file.ts'
import type { UsherFile } from './usher.ts'

/** Of the logo; it is sent with every first page. */
const LARGEST = 256 * 1024
const PNG = Buffer.from('89504e470d0a1a0a', 'hex')
export const THEME = 'theme.css'
const TEMPLATES = readdirSync(join(import.meta.dirname, '../../pages/templates'))

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
  const known = [THEME, ...TEMPLATES]
  for (const name of namesIn(join(folder, 'pages'))) {
    const file = join(folder, 'pages', name)
    if (logo && !relative(resolve(folder, logo), resolve(file))) continue
    const { text, problem } = readText(file)
    if (!known.includes(name)) {
      const message = `nothing reads this${didYouMean(name, known)}`
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
