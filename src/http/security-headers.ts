// Headers of every answer that tell browsers what they may do with it.

import type { Context, Middleware } from 'koa'

const YEAR_SECONDS = 365 * 24 * 3600

const HEADERS = {
  // `script-src` is named, because the library adds the hash of its one script only where it finds it.
  'Content-Security-Policy':
    "default-src 'none';script-src 'self';style-src 'self';img-src 'self';form-action 'self';base-uri 'none';frame-ancestors 'none'",
  // A page that opened a pop-up to sign in could lead it elsewhere while a password is typed into it.
  // Client libraries do without the tie; `same-origin-allow-popups` is about windows that we open.
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Origin-Agent-Cluster': '?1',
  // `no-referrer` would make browsers send `Origin: null` with our own forms.
  'Referrer-Policy': 'same-origin',
  'X-Content-Type-Options': 'nosniff',
  'X-DNS-Prefetch-Control': 'off',
  'X-Frame-Options': 'DENY',
  'X-Permitted-Cross-Domain-Policies': 'none',
  'X-XSS-Protection': '0',
}

/** Sets the headers; an https issuer also tells browsers never to use http. */
export function securityHeaders(issuer: string): Middleware {
  const transport = issuer.startsWith('https:') && {
    'Strict-Transport-Security': `max-age=${YEAR_SECONDS}; includeSubDomains`,
  }
  const headers = { ...HEADERS, ...transport }
  return (ctx, next) => {
    ctx.set(headers)
    return next()
  }
}

/**
 * For the `form_post` page, whose form goes to a client. Browsers hold every redirect that follows
 * against `form-action`, and nobody can list where the client redirects next.
 */
export function allowFormAnywhere(ctx: Context): void {
  const policy = ctx.response.get('Content-Security-Policy')
  const kept = policy.split(';').filter(directive => !directive.trim().startsWith('form-action'))
  ctx.set('Content-Security-Policy', kept.join(';'))
}
