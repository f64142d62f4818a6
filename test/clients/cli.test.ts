import { once } from 'node:events'
import { createInterface } from 'node:readline'
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
    const program = stage.write('application.mjs', blockOf('cli.md', 'js application'))
    const child = stage.spawn(process.execPath, program)
    const exited = once(child, 'exit')
    if (!child.stdout) throw new Error('the application has no stdout')
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
    const { value: line = '' } = await lines.next()
    const [, address = '', user_code = ''] = /^Open (\S+) and enter (\S+)$/.exec(line) ?? []
    const visitor = new Visitor(stage.usher)
    await visitor.open(address)
    await visitor.provider.submit({ user_code })
    await visitor.provider.submit({ decision: 'allow' })
    expect(visitor.provider.heading).toBe(words('device.done_title'))
    expect((await lines.next()).value).toBe('Ada Lovelace')
    expect((await lines.next()).value).toBe('600')
    expect((await exited)[0]).toBe(0)
  },
)
