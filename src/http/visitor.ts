// Who asks, as roughly as it is worth remembering: the network of their address, and what their
// browser says it is.

import { isIPv4 } from 'node:net'
import type { Context } from 'koa'
import { networkOf } from './network.ts'

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
  [/ Safari\//, 'Safari'],
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
  return { network: prefixOf(ctx.ip), browser: named(BROWSERS), system: named(SYSTEMS) }
}

/** What an office or a household has of addresses: /24, or /48 of IPv6. */
export function prefixOf(address: string): string {
  const network = networkOf(address)
  if (isIPv4(address)) return `${network}.0/24`
  const { hostname } = new URL(`http://[${network.split(':').slice(0, 3).join(':')}::]`)
  return `${hostname.slice(1, -1)}/48`
}
