// The network that an address belongs to: people and attackers change addresses within one as they like.

import { isIPv6 } from 'node:net'

/** `192.0.2` for a /24, `2001:db8:0:1` for a /64. */
export function networkOf(ip: string): string {
  if (!isIPv6(ip)) return ip.split('.').slice(0, 3).join('.')
  const [head = [], tail = []] = ip.split('::').map(half => half.split(':').filter(Boolean))
  const zeros = Array.from({ length: 8 - head.length - tail.length }, () => '0')
  const groups = [...head, ...zeros, ...tail].slice(0, 4)
  return groups.map(group => Number.parseInt(group, 16).toString(16)).join(':')
}
