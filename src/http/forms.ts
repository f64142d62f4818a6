// Forms of our own pages: reading them, and knowing that they are ours.

import type { Context } from 'koa'
import readBody from 'raw-body'
import type { Signatures } from './cookies.ts'

/** Bytes. */
const LONGEST = 16 * 1024

export class Form extends URLSearchParams {
  /** The one value of a field; empty when it is missing, 400 when it came twice. */
  value(name: string): string {
    const [value = '', another] = this.getAll(name)
    if (another === undefined) return value
    throw Object.assign(new Error(`${name} was sent twice`), { status: 400, expose: true })
  }
}

/** The body of a POST; 415 when it is no form, 413 when it is longer than `limit` bytes. */
export async function readForm(ctx: Context, limit = LONGEST): Promise<Form> {
  if (!ctx.is('application/x-www-form-urlencoded')) ctx.throw(415, 'this takes a form')
  const length = ctx.request.length
  return new Form(await readBody(ctx.req, { limit, length, encoding: 'utf8' }))
}

export type Csrf = ReturnType<typeof createCsrf>

export function createCsrf({ sign, isSigned }: Signatures) {
  /** For a hidden field `csrf`; good for this subject only, and as long as it. */
  const token = (subject: string) => sign(subject)

  /** Throws 403 unless the form was sent from our own page and carries the token. */
  function check(ctx: Context, form: Form, subject: string) {
    const matches = isSigned(subject, form.value('csrf'))
    if (!matches || !isOurs(ctx)) ctx.throw(403, 'this form was not sent from our page')
  }

  return { token, check }
}

/** Browsers say where a request comes from: in `Sec-Fetch-Site`, older ones in `Origin`. */
function isOurs(ctx: Context): boolean {
  const site = ctx.get('Sec-Fetch-Site')
  if (site) return site === 'same-origin'
  const origin = ctx.get('Origin')
  return !origin || origin === `${ctx.protocol}://${ctx.host}`
}
