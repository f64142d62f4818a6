import { setTimeout } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Browser } from '../support/browser.ts'
import { startHostileIssuer } from '../support/hostile-issuer.ts'
import { authorizationRequest } from '../support/journey.ts'
import { withUpstreams } from '../support/upstream.ts'
import { startUsher } from '../support/usher.ts'

test.each(['token', 'all'] as const)(
  'an upstream issuer that does not answer (%s) delays its sign-in by two seconds, and nothing else',
  async silent => {
    const issuer = await startHostileIssuer()
    const usher = await startUsher(withUpstreams({ example: { issuer: issuer.issuer } }))
    const browser = new Browser(usher.issuer, fetch, [issuer.issuer])
    await browser.open(authorizationRequest(usher).url)
    issuer.state.behaviour = { silent }
    const began = performance.now()
    const waiting = browser.submit({ decision: 'example' })
    await setTimeout(500)
    const asked = performance.now()
    expect((await fetch(`${usher.issuer}/livez`)).status).toBe(200)
    expect(performance.now() - asked).toBeLessThan(1000)
    await waiting
    expect(performance.now() - began).toBeLessThan(2000)
    expect(browser.heading).toBe('Sign in')
    expect(browser.page.text).toContain('role="alert"')
    await usher.close()
    await issuer.close()
  },
)
