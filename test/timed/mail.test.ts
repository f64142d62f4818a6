// The duration of the forms that send mails must not reveal which accounts exist.

import { expect, onTestFinished, test } from 'vitest'
import { Browser } from '../support/browser.ts'
import { startMailServer } from '../support/mail-server.ts'
import { fieldsOf, open, send } from '../support/people.ts'
import { ADA, GRACE, startUsher } from '../support/usher.ts'

const ROUNDS = 220
const WARM_UP_ROUNDS = 20
const MAX_DIFFERENCE_MS = 2

const FORMS = [
  {
    name: 'forgot',
    field: 'username',
    typed: ['ada', 'nobody', 'grace', 'ada@example.org', 'nobody@example.org'],
  },
  {
    name: 'sign-up',
    field: 'email',
    typed: ['ada@example.org', 'nobody@example.org', 'grace@example.org'],
  },
]

test.each(FORMS)(
  'the form $name takes the same time for known and unknown names',
  async ({ name, field, typed }) => {
    const server = await startMailServer({ authOptional: true })
    const mail = {
      from: 'id@example.org',
      smtp: { host: '127.0.0.1', port: server.port, tls: 'none' },
    }
    const usher = await startUsher({ usher: { mail, sign_up: { email_domains: ['example.org'] } } })
    onTestFinished(async () => {
      await usher.close()
      await server.close()
    })
    await usher.addAccount(ADA)
    await usher.addAccount(GRACE)
    const browser =
      name === 'forgot'
        ? new Browser(usher.issuer)
        : (await open(usher, { prompt: 'create' })).browser
    if (name === 'forgot') await browser.open('/forgot-password')
    const times = new Map(typed.map(text => [text, [] as number[]]))
    for (let round = 0; round < ROUNDS; round++) {
      // A service sends the mails between the forms. The limit of a network is not what is measured.
      await usher.deliver('new')
      await usher.records.of('Attempts').remove(`${name} network 127.0.0.0/24`, 1)
      for (const [text, list] of [...times].sort(() => Math.random() - 0.5)) {
        const form = fieldsOf(browser.page, { [field]: text, decision: 'continue' })
        const started = performance.now()
        const { status } = await send(browser, browser.page.url, { form })
        if (round >= WARM_UP_ROUNDS) list.push(performance.now() - started)
        expect(status).toBe(200)
      }
    }
    const medians = [...times.values()].map(
      list => list.sort((a, b) => a - b)[list.length >> 1] ?? 0,
    )
    expect(Math.max(...medians) - Math.min(...medians)).toBeLessThan(MAX_DIFFERENCE_MS)
  },
)
