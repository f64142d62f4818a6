import { once } from 'node:events'
import { createInterface } from 'node:readline'
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
    const program = stage.write('application.mjs', blockOf('ciba.md', 'js application'))
    const child = stage.spawn(process.execPath, program)
    const exited = once(child, 'exit')
    if (!child.stdout) throw new Error('the application has no stdout')
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
    expect((await lines.next()).value).toContain('Till 4, 12:31')
    expect((await browser.open('/account/requests')).text).toContain('Till 4, 12:31')
    await answer(browser, 'allow')
    expect((await lines.next()).value).toBe('Ada Lovelace')
    expect((await exited)[0]).toBe(0)
  },
)
