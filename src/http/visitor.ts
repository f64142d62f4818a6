// Who asks, as roughly as it is worth remembering: the network of their address, and what their
// browser says it is.

import { isIPv4 } from 'node:net'
import type { Context } from 'koa'

export interface Visitor {
  /** In CIDR notation, never the whole address. */
  network: string
  browser?: string
  system?: string
}

type Signs = [sign: RegExp, name: string][]

/** The first that fits: browsers also name those that they want to be taken for. */
const BROWSERS: Signs = [
  [/\bEdg(A|iOS)?\//, 'Microsoft Edge'],
  [/\b(OPR|OPT)\//, 'Opera'],
  [/\bVivaldi\//, 'Vivaldi'],
  [/\bSamsungBrowser\//, 'Samsung Internet'],
  [/\b(Firefox|FxiOS)\//, 'Firefox'],
  [/\b(Headless)?Chrome\/|\bCriOS\//, 'Chrome'],
  [/\bVersion\/\S+.* Safari\//, 'Safari'],
]
const SYSTEMS: Signs = [
  [/\b(iPhone|iPad)\b/, 'iOS'],
  [/\bAndroid\b/, 'Android'],
  [/\bWindows\b/, 'Windows'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bMac OS X\b/, 'macOS'],
  [/\bLinux\b/, 'Linux'],
]

export function visitorOf(ctx: Pick<Context, 'ip' | 'get'>): Visitor {
  const said = ctx.get('User-Agent').slice(0, 512)
  const named = (signs: Signs) => signs.find(([sign]) => sign.test(said))?.[1]
  return { network: networkOf(ctx.ip), browser: named(BROWSERS), system: named(SYSTEMS) }
}

/** What an office or a household has of addresses: /24, or /48 of IPv6. */
export function networkOf(address: string): string {
  if (isIPv4(address)) return address.replace(/\d+$/, '0/24')
  const [head = [], tail = []] = address.split('::').map(part => part.split(':').filter(Boolean))
  const zeros = Array<string>(Math.max(0, 8 - head.length - tail.length)).fill('0')
  const network = [...head, ...zeros, ...tail].slice(0, 3).join(':')
  const { hostname } = new URL(`http://[${network}::]`)
  return `${hostname.slice(1, -1)}/48`
}
