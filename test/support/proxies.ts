// The proxy files of docs/deploy, run by the real proxies. Only their addresses and certificates are replaced.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { vi } from 'vitest'
import { makeCertificate } from './certificates.ts'
import { findProgram } from './programs.ts'

const SHIPPED = join(import.meta.dirname, '../../docs/deploy')

interface Place {
  /** A folder of the test. */
  folder: string
  /** The port of the proxy. */
  front: number
  /** The ports of the nodes. */
  ports: number[]
  /** Changes the configuration. */
  change?: (text: string) => string
}

/** Starts the proxy of a file: `haproxy` for `haproxy.cfg`, otherwise nginx. */
export async function startProxy(name: string, place: Place): Promise<ChildProcess> {
  const start = name === 'haproxy.cfg' ? startHaproxy : startNginx
  const proxy = start(name, place)
  await vi.waitFor(
    async () => {
      const socket = connect(place.front, '127.0.0.1')
      await once(socket, 'connect')
      socket.destroy()
    },
    { timeout: 10_000 },
  )
  return proxy
}

/** Stops a proxy, and resolves when it has ended. */
export async function stopProxy(proxy: ChildProcess): Promise<void> {
  const exited = once(proxy, 'exit')
  proxy.kill('SIGTERM')
  await exited
}

function configurationOf(name: string, { front, ports, change = text => text }: Place): string {
  const addresses = ports.map(port => `127.0.0.1:${port}`)
  const shipped = readFileSync(join(SHIPPED, name), 'utf8')
  // A test with fewer nodes than the file names the last one again.
  const nextAddress = () => (addresses.length > 1 ? addresses.shift() : addresses[0]) ?? ''
  const text = shipped
    .replaceAll(/[\d.]+:3000/g, nextAddress)
    .replace(/(listen|bind) (\*?:?)443/, `$1 127.0.0.1:${front}`)
    .replace(/(listen|bind) \[::\]:443/, `$1 [::1]:${front}`)
  return change(text)
}

function startNginx(name: string, place: Place): ChildProcess {
  const { folder } = place
  const { cert, key } = makeCertificate(folder, 'localhost')
  const text = configurationOf(name, place)
    .replace('/etc/ssl/id.example.org.pem', cert)
    .replace('/etc/ssl/id.example.org.key', key)
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  const paths = temporary.map(kind => `${kind}_temp_path ${folder}/${kind};`)
  writeFileSync(join(folder, 'usher.conf'), text)
  writeFileSync(
    join(folder, 'nginx.conf'),
    `daemon off; pid ${folder}/pid; error_log ${folder}/error.log;
     events {} http { access_log off; ${paths.join(' ')} include ${folder}/usher.conf; }`,
  )
  const words = ['-p', folder, '-c', join(folder, 'nginx.conf')]
  return spawn(findProgram('nginx', 'nginx'), words, { stdio: ['ignore', 'ignore', 'inherit'] })
}

function startHaproxy(name: string, place: Place): ChildProcess {
  const { folder } = place
  const { cert, key } = makeCertificate(folder, 'localhost')
  const both = join(folder, 'both.pem')
  writeFileSync(both, readFileSync(cert, 'utf8') + readFileSync(key, 'utf8'))
  const text = configurationOf(name, place).replace('/etc/ssl/id.example.org.both.pem', both)
  writeFileSync(join(folder, 'haproxy.cfg'), text)
  const words = ['-db', '-f', join(folder, 'haproxy.cfg')]
  return spawn(findProgram('haproxy', 'haproxy'), words, { stdio: ['ignore', 'ignore', 'inherit'] })
}
