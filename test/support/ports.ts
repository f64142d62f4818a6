// Servers of tests on free ports. Ports for servers that cannot choose a port themselves, and for those that start
// again on the same one.

import { randomInt } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import type { Server as HttpServer } from 'node:http'
import { type AddressInfo, createServer, type Server } from 'node:net'

/** Below the ports that the system gives. A node of a Redis Cluster also listens on its port + 10,000. */
const [FROM, TO] = [10_000, 20_000]

/** Starts a server on `port`; 0 is any free port. Returns the port. */
export async function listen(server: Server, host = '127.0.0.1', port = 0): Promise<number> {
  await once(server.listen(port, host), 'listening')
  return (server.address() as AddressInfo).port
}

/** Stops a server and closes its connections. */
export async function end(server: HttpServer): Promise<void> {
  server.closeAllConnections()
  await new Promise(resolve => server.close(resolve))
}

/** Returns a port that is free, and that no other process gets from this function while this one lives. */
export async function freePort(): Promise<number> {
  const port = randomInt(FROM, TO)
  return (await isClaimed(port)) || (await isInUse(port)) ? freePort() : port
}

/** Returns several of them. */
export function freePorts(count: number): Promise<number[]> {
  return Promise.all(Array.from({ length: count }, freePort))
}

/** Whether a process has claimed the port, by the UDP port of the same number. If none has, this process does. */
function isClaimed(port: number): Promise<boolean> {
  const socket = createSocket('udp4').unref().bind(port, '127.0.0.1')
  return once(socket, 'listening').then(
    () => false,
    () => true,
  )
}

async function isInUse(port: number): Promise<boolean> {
  const server = createServer()
  try {
    await listen(server, '127.0.0.1', port)
  } catch {
    return true
  }
  await new Promise(resolve => server.close(resolve))
  return false
}
