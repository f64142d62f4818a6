// What browsers are told about every answer (HD1). Scripts have to be named in the policy, for the
// library adds the hash of its one script only where it finds `script-src`.

import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import helmet from 'helmet'
import type { Context, Middleware } from 'koa'

const YEAR = 365 * 24 * 3600

/** They are the same for all, and so made once. */
export function securityHeaders(issuer: string): Middleware {
  const headers = Object.entries(headersOf(issuer))
  return (ctx, next) => {
    for (const [name, value] of headers) ctx.res.setHeader(name, value)
    return next()
  }
}

function headersOf(issuer: string) {
  const request = new IncomingMessage(new Socket())
  const response = new ServerResponse(request)
  helmet({
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        'default-src': ["'none'"],
        'script-src': ["'self'"],
        'style-src': ["'self'"],
        'img-src': ["'self'"],
        'form-action': ["'self'"],
        'base-uri': ["'none'"],
        'frame-ancestors': ["'none'"],
      },
    },
    // Whoever opened a pop-up to sign in could lead it elsewhere while a password is typed into it. Client
    // libraries do without the tie; `same-origin-allow-popups` would not keep it: that is for what we open.
    crossOriginOpenerPolicy: { policy: 'same-origin' },
    strictTransportSecurity: issuer.startsWith('https:') ? { maxAge: YEAR } : false,
    // `no-referrer` would make browsers send `Origin: null` with our own forms.
    referrerPolicy: { policy: 'same-origin' },
    xFrameOptions: { action: 'deny' },
  })(request, response, () => {})
  return response.getHeaders() as Record<string, string>
}

/**
 * For the one page whose form goes to an application: `form_post`. Browsers hold every redirect that
 * follows against `form-action`, and where the application sends people next nobody can list (HD4).
 */
export function allowFormAnywhere(ctx: Context): void {
  const policy = ctx.response.get('Content-Security-Policy')
  const kept = policy.split(';').filter(directive => !directive.trim().startsWith('form-action'))
  ctx.set('Content-Security-Policy', kept.join(';'))
}
