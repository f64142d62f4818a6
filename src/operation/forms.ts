// Forms of the pages: reads them, and checks that they come from a page of this
// issuer (CSRF).

import type { Context } from 'koa'
import readBody from 'raw-body'
import { BOUNDS } from '../oidc/bounds.ts'
import type { Signatures } from '../oidc/browser.ts'

/** The fields of a form. */
export class Form extends URLSearchParams {
  /**
   * The value of a field; empty if it is missing. Throws 400 if it was sent
   * twice.
   */
  value(name: string): string {
    const [value = '', another] = this.getAll(name)
    if (another === undefined) return value
    throw Object.assign(new Error(`${name} was sent twice`), {
      status: 400,
      expose: true,
    })
  }
}

/**
 * Reads the body of a POST; any other request has an empty form. Throws 415, or
 * 413 for more than `BOUNDS.bodies.max`.
 */
export async function readForm(ctx: Context): Promise<Form> {
  if (ctx.method !== 'POST') return new Form()
  if (!ctx.is('application/x-www-form-urlencoded'))
    ctx.throw(415, 'the body must be application/x-www-form-urlencoded')
  const options = {
    limit: BOUNDS.bodies.max,
    length: ctx.request.length,
    encoding: 'utf8',
  } as const
  return new Form(await readBody(ctx.req, options))
}

/**
 * Returns the CSRF protection. It gives the page the value of its hidden field
 * `csrf`: a keyed hash of a subject, such as a session id. It throws 403 for a
 * POST, unless a page of this origin and subject has sent the form.
 */
export const createCsrf =
  (signatures: Signatures) => (ctx: Context, form: Form, subject: string) => {
    ctx.state.csrf = signatures.sign(subject)
    if (ctx.method !== 'POST') return
    if (signatures.verify(subject, form.value('csrf')) && isSameOrigin(ctx))
      return
    ctx.throw(403, 'this form was not sent from a page of the issuer')
  }

/**
 * Whether a page of this origin, or no page, sent the request. Browsers name
 * the origin in `Sec-Fetch-Site`, older ones in `Origin`.
 */
export function isSameOrigin(ctx: Context): boolean {
  const site = ctx.get('Sec-Fetch-Site')
  if (site) return site === 'same-origin'
  const origin = ctx.get('Origin')
  return !origin || origin === `${ctx.protocol}://${ctx.host}`
}
