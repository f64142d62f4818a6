// The contrast of colours, and the nearest colour that is readable.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import {
  contrastIn,
  inkOn,
  MIN_TEXT_CONTRAST,
  readableIn,
  SCHEMES,
} from '../../src/config/rules/pages.ts'
import { coloursOf } from '../../src/features/mail/message.ts'
import { read } from '../support/config-folder.ts'

const stylesheet = readFileSync(join(import.meta.dirname, '../../src/pages/style.css'), 'utf8')
const [light = '', dark = ''] = stylesheet.split('prefers-color-scheme: dark')
const variable = (css: string, name: string) =>
  (new RegExp(`--${name}: (#\\w+);`).exec(css)?.[1] ?? '').replace(/^#(.)(.)(.)$/, '#$1$1$2$2$3$3')

test.each([
  ['light', light],
  ['dark', dark],
] as const)(
  'the %s backgrounds are those of the stylesheet, and its accent can be read',
  (scheme, css) => {
    expect(SCHEMES[scheme].backgrounds).toEqual(
      ['paper', 'ground'].map(name => variable(css, name)),
    )
    expect(contrastIn(scheme, variable(css, 'accent'))).toBeGreaterThan(MIN_TEXT_CONTRAST)
  },
)

test('the button of a mail has the accents of the stylesheet', () => {
  const { accent, accentDark } = coloursOf({})
  expect(accent).toBe(variable(light, 'accent'))
  expect(accentDark).toBe(variable(dark, 'accent'))
})

test('the contrast of black and white is 21', () => {
  expect(contrastIn('light', '#000000')).toBeCloseTo(21 / 1.1, 0)
  // The first WCAG example, which fails by a small difference.
  expect(contrastIn('light', '#777777')).toBeLessThan(MIN_TEXT_CONTRAST)
})

test.each(['#ff9900', '#00ff00', '#FFFFFF', '#000000', '#1d4ed8', '#e6007e', '#777777'])(
  'for %s there is a readable colour for each scheme, and a readable text colour on it',
  colour => {
    for (const scheme of ['light', 'dark'] as const) {
      const readable = readableIn(scheme, colour)
      expect(contrastIn(scheme, readable)).toBeGreaterThanOrEqual(MIN_TEXT_CONTRAST)
      const ink = inkOn(readable)
      expect(ink).toBe(scheme === 'light' ? '#ffffff' : '#0d1526')
    }
  },
)

test('a readable colour is not changed', () => {
  expect(readableIn('light', '#1d4ed8')).toBe('#1d4ed8')
  expect(readableIn('dark', '#9db8ff')).toBe('#9db8ff')
})

const DISC = '<circle cx="16" cy="16" r="16" fill="#e6007e"/>'
const BOX = '<path d="M0 0H32V32H0Z" fill="#e6007e"/>'
test.each<[what: string, shapes: string, problems: number]>([
  ['dark text beside a bright shape', `${DISC}<text x="40" y="24" fill="#111">Name</text>`, 1],
  ['dark text beside a bright path', `${BOX}<text x="40" y="24" fill="#111">Name</text>`, 1],
  ['light text beside a bright shape', `${DISC}<path d="M40 4h8v8z" fill="#fff"/>`, 1],
  ['a white letter in a shape', `${DISC}<path d="M10 4h8v8z" fill="#fff"/>`, 0],
  ['a white letter in a path', `${BOX}<text x="4" y="24" fill="#fff">N</text>`, 0],
  [
    'a white clip path',
    `${DISC}<defs><clipPath id="a"><rect width="9" height="9" fill="#fff"/></clipPath></defs>`,
    0,
  ],
  [
    'colours that are seen on both pages',
    `${DISC}<text x="40" y="24" fill="#777777">Name</text>`,
    0,
  ],
])(
  'config check looks at each colour of a logo that is drawn on the page: %s',
  async (_, shapes, problems) => {
    const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 32">${shapes}</svg>`
    const found = (await read({ 'usher.yaml': 'branding: { logo: logo.svg }', 'logo.svg': svg }))
      .settings
    expect(found?.warnings).toHaveLength(problems)
  },
)

test.each([
  ['#ffffff', ['logo']],
  ['#101010', ['logo']],
  ['#111', ['logo']],
  ['#777777', []],
])('config check warns about an SVG logo of %s where it is hard to see', async (colour, keys) => {
  const svg = (fill: string) =>
    `<svg xmlns="http://www.w3.org/2000/svg"><path fill="${fill}"/></svg>`
  const files = { 'usher.yaml': 'branding: { logo: logo.svg }', 'logo.svg': svg(colour) }
  const found = (await read(files)).settings?.warnings ?? []
  expect(found.map(({ key }) => key)).toEqual(keys.map(key => `branding.${key}`))
  const both = { ...files, 'dark.svg': svg('#ffffff') }
  both['usher.yaml'] = 'branding: { logo: logo.svg, logo_dark: dark.svg }'
  const isDark = colour === '#101010'
  if (isDark) expect((await read(both)).settings?.warnings).toEqual([])
})
