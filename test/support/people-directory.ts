// The directory of docs/examples, as a process of its own, and one that answers whatever a test says.

import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes, scryptSync } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './service.ts'
import { PASSWORD } from './usher.ts'

const ROOT = join(import.meta.dirname, '../..')

export type PeopleDirectory = Awaited<ReturnType<typeof startPeopleDirectory>>

export async function startPeopleDirectory() {
  const folder = mkdtempSync(join(tmpdir(), 'usher-people-'))
  const [people, secret_file] = [join(folder, 'people.json'), join(folder, 'secret')]
  const url = `http://localhost:${await freePort()}/`
  writeFileSync(secret_file, `${randomBytes(32).toString('hex')}\n`)
  let child: ChildProcess | undefined

  async function start() {
    const env = { ...process.env, PEOPLE: people, SECRET_FILE: secret_file, URL: url }
    child = spawn('node', ['docs/examples/directory.ts'], { cwd: ROOT, env })
    if (child.stdout) await once(child.stdout, 'data')
  }
  async function stop() {
    if (!child || child.exitCode !== null) return
    child.kill()
    await once(child, 'exit')
  }
  await start()
  return {
    /** As it stands in usher.yaml. */
    settings: { url, secret_file },
    start,
    stop,
    /** Who there is, all with the same password. */
    write(persons: object[]) {
      const salt = randomBytes(16)
      const scrypt = `${salt.toString('hex')}:${scryptSync(PASSWORD, salt, 32).toString('hex')}`
      writeFileSync(people, JSON.stringify(persons.map(person => ({ scrypt, ...person }))))
    },
    async close() {
      await stop()
      rmSync(folder, { recursive: true })
    },
  }
}

/** Counts what it is asked. */
export async function startAnswering(answer: RequestListener) {
  let asked = 0
  const server = createServer((req, res) => {
    asked++
    answer(req, res)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    asked: () => asked,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
