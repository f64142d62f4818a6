// The network that an address belongs to: people and attackers change addresses within one as they like.

import { BlockList, isIPv6 } from 'node:net'

/** `192.0.2` for a /24, `2001:db8:0:1` for a /64. */
export function networkOf(ip: string): string {
  if (!isIPv6(ip)) return ip.split('.').slice(0, 3).join('.')
  const [head = [], tail = []] = ip.split('::').map(half => half.split(':').filter(Boolean))
  const zeros = Array.from({ length: 8 - head.length - tail.length }, () => '0')
  const groups = [...head, ...zeros, ...tail].slice(0, 4)
  return groups.map(group => Number.parseInt(group, 16).toString(16)).join(':')
}

/** Whether an address is one of these, or in one of these ranges. */
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
