// Client info: the IP network of a request, and the browser and system that its
// user agent names. Users and attackers change addresses within a network
// freely; limits are therefore kept by network.

import { BlockList, isIPv6 } from 'node:net'
import ipaddr from 'ipaddr.js'
import type { Context } from 'koa'
import type { ClientInfo } from '../oidc/adapter/session-record.ts'

type Signs = [sign: RegExp, name: string][]

/**
 * The first match is taken: browsers also name the browsers that they are
 * compatible with.
 */
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

/**
 * The client info of a request, as sessions and device codes keep it: never the
 * whole address.
 */
export function clientInfoOf(ctx: Pick<Context, 'ip' | 'get'>): ClientInfo {
  const userAgent = ctx.get('User-Agent').slice(0, 512)
  const named = (signs: Signs) =>
    signs.find(([sign]) => sign.test(userAgent))?.[1]
  return {
    network: networkOf(ctx.ip),
    browser: named(BROWSERS),
    system: named(SYSTEMS),
  }
}

/**
 * The network of an office or a household in CIDR notation: a /24, or a /48 of
 * IPv6. Every limit by network uses it. A user of one /48 has 65,536 networks
 * of /64, and would have each limit as often.
 */
export function networkOf(address: string): string {
  if (!isIPv6(address))
    return `${address.split('.').slice(0, 3).join('.')}.0/24`
  return `${ipaddr.IPv6.networkAddressFromCIDR(`${address}/48`)}/48`
}

/**
 * Returns a function that tests whether an address is one of `entries`, or in a
 * range among them.
 */
export function among(entries: string[]): (address: string) => boolean {
  const list = new BlockList()
  for (const entry of entries) {
    const [address = '', bits] = entry.split('/')
    const family = isIPv6(address) ? 'ipv6' : 'ipv4'
    if (bits) list.addSubnet(address, Number(bits), family)
    else list.addAddress(address, family)
  }
  return address => list.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')
}
