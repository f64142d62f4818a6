import { expect, onTestFinished, test } from 'vitest'
import { blockOf, stageClient, Visitor } from '../support/client-page.ts'
import { words } from '../support/people.ts'

const SLOW = { timeout: 30_000 }

test(
  'a command line continues after the user has entered its code in a browser',
  SLOW,
  async () => {
    const stage = await stageClient(blockOf('cli.md', 'yaml client'), {
      features: { device_flow: true },
    })
    onTestFinished(() => stage.close())
    const application = stage.start(blockOf('cli.md', 'js application'))
    const line = await application.line()
    const [, address = '', user_code = ''] = /^Open (\S+) and enter (\S+)$/.exec(line) ?? []
    const visitor = new Visitor(stage.usher)
    await visitor.open(address)
    await visitor.provider.submit({ user_code })
    await visitor.provider.submit({ decision: 'allow' })
    expect(visitor.provider.heading).toBe(words('device.done_title'))
    expect(await application.line()).toBe('Ada Lovelace')
    expect(await application.line()).toBe('600')
    expect(await application.exitCode()).toBe(0)
  },
)
