// Two Ushers: one is the upstream issuer of the other.

import { hashSecret } from '../../src/oidc/clients.ts'
import { Browser, type Page } from './browser.ts'
import { CLIENTS, PASSWORD, SECRET, startUsher, type UsherOptions } from './usher.ts'

export type Upstream = Awaited<ReturnType<typeof startUpstream>>

/** The text of the button on the sign-in page. */
export const LABEL = 'Sign in with Example'

/** A native client may use any port in its redirect URI. So the upstream issuer can start first. */
export const DOWNSTREAM = {
  client_id: 'usher',
  client_name: 'Usher',
  application_type: 'native',
  redirect_uris: ['http://localhost/sign-in/example/callback'],
  token_endpoint_auth_method: 'client_secret_basic',
  client_secret_hashes: [hashSecret(SECRET)],
  consent: 'implicit',
}

const SIGNED_OUT = 'http://localhost/sign-in/example/signed-out'
const COMPLETE = {
  client_id: 'usher',
  client_secret_file: 'secret.txt',
  label: LABEL,
  accounts: 'create',
}

/** Options of an Usher with these files in upstreams/. Each file is complete, with these changes. */
export function withUpstreams(upstreams: Record<string, object>): UsherOptions {
  const files = Object.entries(upstreams).map(([name, changes]) => {
    return [`upstreams/${name}.yaml`, JSON.stringify({ ...COMPLETE, ...changes })]
  })
  return {
    usher: { egress: { allow: ['localhost', '127.0.0.1'] } },
    files: { 'secret.txt': SECRET, ...Object.fromEntries(files) },
  }
}

/** Starts both. `file`: changes of upstreams/example.yaml; `issuer`: options of the upstream issuer. */
export async function startUpstream(
  file: object = {},
  options: UsherOptions = {},
  issuer: UsherOptions = {},
) {
  const upstream = await startUsher({
    host: '127.0.0.1',
    clients: { usher: { ...DOWNSTREAM, post_logout_redirect_uris: [SIGNED_OUT] } },
    ...issuer,
  })
  const { usher: settings, files } = withUpstreams({
    example: { issuer: upstream.issuer, ...file },
  })
  const usher = await startUsher({
    clients: CLIENTS,
    ...options,
    usher: { ...settings, ...options.usher },
    files: { ...files, ...options.files },
  })
  /** Goes from the sign-in page of the upstream issuer to the application. */
  async function continueAt(browser: Browser, username = 'ada'): Promise<Page> {
    const isThere = () => browser.page.url.origin === upstream.issuer
    if (isThere()) await browser.submit({ username, password: PASSWORD, decision: 'continue' })
    if (browser.heading === 'Allow access') await browser.submit({ decision: 'allow' })
    return browser.page
  }

  return {
    usher,
    upstream,
    /** A browser that fetches the pages of both. */
    browser: () => new Browser(usher.issuer, fetch, [upstream.issuer]),
    /** Goes from the sign-in page of Usher to the application. */
    async signIn(browser: Browser, username = 'ada'): Promise<Page> {
      await browser.submit({ decision: 'example' })
      return continueAt(browser, username)
    },
    continueAt,
    async close() {
      await usher.close()
      await upstream.close()
    },
  }
}
