// A DNS server on a loopback port. This process uses it instead of the system's servers.

import { createSocket } from 'node:dgram'
import dns from 'node:dns'
import { once } from 'node:events'
import { isIPv6 } from 'node:net'

const TYPES = { 1: 'A', 28: 'AAAA' } as const

/** Starts the server. `addresses` returns the addresses of a name, or undefined to send no response. */
export async function startNameServer(addresses: (name: string) => string[] | undefined) {
  const queries: string[] = []
  const socket = createSocket('udp4')
  socket.on('message', (question, { port, address }) => {
    const end = question.indexOf(0, 12)
    const name = labels(question.subarray(12, end))
    const type = TYPES[question.readUInt16BE(end + 1) as keyof typeof TYPES]
    queries.push(`${type} ${name}`)
    const found = addresses(name)?.filter(one => isIPv6(one) === (type === 'AAAA'))
    if (!found) return
    const head = Buffer.from(question.subarray(0, end + 5))
    head.writeUInt16BE(0x8180, 2)
    head.writeUInt16BE(found.length, 6)
    head.writeUInt32BE(0, 8)
    socket.send(Buffer.concat([head, ...found.map(record)]), port, address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  const before = dns.getServers()
  dns.setServers([`127.0.0.1:${socket.address().port}`])
  return {
    queries,
    close() {
      dns.setServers(before)
      socket.close()
    },
  }
}

function labels(bytes: Buffer): string {
  const found: string[] = []
  for (let at = 0; at < bytes.length; at += 1 + (bytes[at] ?? 0)) {
    found.push(bytes.toString('latin1', at + 1, at + 1 + (bytes[at] ?? 0)))
  }
  return found.join('.')
}

function bytesOf(address: string): Buffer {
  if (!isIPv6(address)) return Buffer.from(address.split('.').map(Number))
  const groups = address.split(':').map(group => group.padStart(4, '0'))
  return Buffer.from(groups.join(''), 'hex')
}

/** A record for the name in the question, with a TTL of 0. */
function record(address: string): Buffer {
  const data = bytesOf(address)
  const type = isIPv6(address) ? 28 : 1
  const head = Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 0, 0, data.length])
  return Buffer.concat([head, data])
}
