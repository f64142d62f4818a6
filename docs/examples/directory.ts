// A directory of people for Usher (`accounts.http` in usher.yaml), small enough to be copied: who they
// are stands in PEOPLE, a JSON file. Usher sends a JWT as the body of a POST; its claims are the question:
//
//   { "find": { "username": "ada" } }   { "find": { "id": "17" } }
//   { "check": { "username": "ada", "password": "…" } }
//
// and is answered {"account": {…}}, or {"account": null} for nobody and for a wrong password.
//
//   PEOPLE       people.json: [{ "id", "username", "name", …, "scrypt": "SALT:HASH" (hex) }]
//   SECRET_FILE  the same as accounts.http.secret_file
//   URL          http://localhost:4100/ as in accounts.http.url

import { scrypt, timingSafeEqual } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { jwtVerify } from 'jose'

const { PEOPLE = 'people.json', SECRET_FILE = 'secret' } = process.env
const { URL: HERE = 'http://localhost:4100/' } = process.env
const LONGEST = 16 * 1024

interface Person {
  id: string
  username: string
  scrypt?: string
}
interface Question {
  find?: { id?: string; username?: string }
  check?: { username: string; password: string }
}

/** Throws for whatever Usher did not sign, for us, within the last minute. */
async function readQuestion(request: IncomingMessage): Promise<Question> {
  if (Number(request.headers['content-length'] ?? LONGEST) >= LONGEST) throw new Error('too long')
  const secret = new TextEncoder().encode(readFileSync(SECRET_FILE, 'utf8').trim())
  const options = { algorithms: ['HS256'], audience: HERE, maxTokenAge: '60 s' }
  return (await jwtVerify<Question>(await text(request), secret, options)).payload
}

async function answer({ find, check }: Question) {
  const people: Person[] = JSON.parse(readFileSync(PEOPLE, 'utf8'))
  const { id, username }: { id?: string; username?: string } = find ?? check ?? {}
  const person = people.find(one => one.id === id || one.username === username?.toLowerCase())
  // Also for nobody: an unknown name must not be answered sooner than a wrong password.
  const isRight = !check || (await matches(check.password, person?.scrypt))
  if (!person || !isRight) return { account: null }
  const { scrypt: _, ...account } = person
  return { account }
}

async function matches(password: string, kept = `00:${'00'.repeat(32)}`): Promise<boolean> {
  const [salt, hash] = kept.split(':').map(hex => Buffer.from(hex, 'hex'))
  if (!salt || !hash) return false
  const made = await promisify<string, Buffer, number, Buffer>(scrypt)(password, salt, 32)
  return timingSafeEqual(made, hash)
}

const server = createServer(async (request, response) => {
  const question = await readQuestion(request).catch(() => undefined)
  if (!question) return response.writeHead(401).end()
  response.setHeader('Content-Type', 'application/json')
  response.end(JSON.stringify(await answer(question)))
})
server.listen(Number(new URL(HERE).port), '127.0.0.1', () => console.log(`Asked at ${HERE}`))
