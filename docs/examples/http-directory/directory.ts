// A small directory of users for accounts-source.ts. The users are in the JSON file PEOPLE. A request is a
// POST whose body is a JWT (HS256), signed with the shared secret. Its claims are one of:
//
//   { "find": { "username": "ada" } }   { "find": { "id": "17" } }
//   { "authenticate": { "username": "ada", "password": "…" } }
//
// The response is {"account": {…}}, or {"account": null} for an unknown user and for a wrong password.
//
//   PEOPLE       people.json: [{ "id", "username", "name", …, "scrypt": "SALT:HASH" (hex) }]
//   DIRECTORY_SECRET_FILE, DIRECTORY_URL: as for accounts-source.ts

import { scrypt, timingSafeEqual } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { jwtVerify } from 'jose'

const { PEOPLE = 'people.json', DIRECTORY_SECRET_FILE = 'secret' } = process.env
const { DIRECTORY_URL = 'http://localhost:4100/' } = process.env
const MAX_BODY_BYTES = 16 * 1024

interface Person {
  id: string
  username: string
  scrypt?: string
}
interface Question {
  find?: { id?: string; username?: string }
  authenticate?: { username: string; password: string }
}

/** Throws unless Usher signed the request for this directory within the last minute. */
async function readQuestion(request: IncomingMessage): Promise<Question> {
  if (Number(request.headers['content-length'] ?? MAX_BODY_BYTES) >= MAX_BODY_BYTES)
    throw new Error('too long')
  const secret = new TextEncoder().encode(readFileSync(DIRECTORY_SECRET_FILE, 'utf8').trim())
  const options = { algorithms: ['HS256'], audience: DIRECTORY_URL, maxTokenAge: '60 s' }
  return (await jwtVerify<Question>(await text(request), secret, options)).payload
}

async function answer({ find, authenticate }: Question) {
  const people: Person[] = JSON.parse(readFileSync(PEOPLE, 'utf8'))
  const { id, username }: { id?: string; username?: string } = find ?? authenticate ?? {}
  const person = people.find(one => one.id === id || one.username === username?.toLowerCase())
  // The hash is computed for an unknown name too, so that it takes as long as a wrong password.
  const isRight = !authenticate || (await matches(authenticate.password, person?.scrypt))
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
server.listen(Number(new URL(DIRECTORY_URL).port), '127.0.0.1', () =>
  console.log(`The directory answers at ${DIRECTORY_URL}`),
)
