import { expect, onTestFinished, test } from 'vitest'
import { answer } from '../support/ciba.ts'
import { blockOf, stageClient } from '../support/client-page.ts'
import { signedIn } from '../support/people.ts'

const SLOW = { timeout: 30_000 }

test(
  'a till requests access, the user allows it on the account page, and the till continues',
  SLOW,
  async () => {
    const stage = await stageClient(blockOf('ciba.md', 'yaml client'), { features: { ciba: true } })
    onTestFinished(() => stage.close())
    const browser = await signedIn(stage.usher)
    const application = stage.start(blockOf('ciba.md', 'js application'))
    expect(await application.line()).toContain('Till 4, 12:31')
    expect((await browser.open('/account/requests')).text).toContain('Till 4, 12:31')
    await answer(browser, 'allow')
    expect(await application.line()).toBe('Ada Lovelace')
    expect(await application.exitCode()).toBe(0)
  },
)
