// How well a colour is told from what it lies on (WCAG 2.2, 1.4.3), and which near it is told better.

/** What accents lie on, as style.css has it: the page, and the ground around it. */
export const SCHEMES = {
  light: { backgrounds: ['#ffffff', '#f3f4f6'], towards: '#000000' },
  dark: { backgrounds: ['#1c1f26', '#111318'], towards: '#ffffff' },
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
