// Second factors on every store: each code has one winner among concurrent requests.

import { expect, test } from 'vitest'
import { readSettings } from '../../src/config/load.ts'
import { createFactors, type Factors, type Totp } from '../../src/features/factors/factors.ts'
import { createPasskeys } from '../../src/features/factors/passkeys.ts'
import { withFolder } from '../support/config-folder.ts'
import { Authenticator } from '../support/passkeys.ts'
import { onEveryStore } from './every-store.ts'

const app = (id: string, step = 0): Totp => {
  return { type: 'totp', id, name: '', created: 1_777_000_000, secret: 'ABCD', step }
}
const times = <T>(count: number, work: (n: number) => Promise<T>) =>
  Promise.all(Array.from({ length: count }, (_, n) => work(n)))

onEveryStore(records => {
  test('a recovery code has one winner', async () => {
    const factors = createFactors(records())
    const [code = ''] = (await factors.add('recovery', app('one'))) ?? []
    const won = await times(8, () => factors.useRecovery('recovery', code))
    expect(won.filter(Boolean)).toHaveLength(1)
    expect((await factors.read('recovery')).recovery).toHaveLength(9)
  })

  test('a one-time code has one winner', async () => {
    const factors = createFactors(records())
    await factors.add('code', app('one'))
    const use = () =>
      factors.replaceFactor('code', factor =>
        factor.type === 'totp' && factor.step < 7 ? { ...factor, step: 7 } : undefined,
      )
    expect((await times(8, use)).filter(Boolean)).toHaveLength(1)
  })

  test('concurrent additions keep every factor, and make recovery codes once', async () => {
    const factors = createFactors(records())
    const made = await times(5, n => factors.add('many', app(`app ${n}`)))
    expect((await factors.read('many')).factors).toHaveLength(5)
    expect(made.filter(codes => codes?.length)).toHaveLength(1)
  })

  test('a factor is added once, and an account has at most 20', async () => {
    const factors = createFactors(records())
    expect(await factors.add('full', app('one'))).toHaveLength(10)
    expect(await factors.add('full', app('one'))).toBeUndefined()
    for (let n = 1; n < 20; n++) await factors.add('full', app(`app ${n}`))
    expect(await factors.add('full', app('last'))).toBeUndefined()
  })

  test('of two that remove the last two factors at once, one fails if one is needed', async () => {
    const factors = createFactors(records())
    for (const id of ['one', 'two']) await factors.add('pair', app(id))
    const ids = ['one', 'two']
    const isEnough = ({ factors: remaining }: Factors) => remaining.length > 0
    const removed = await Promise.all(ids.map(id => factors.remove('pair', id, isEnough)))
    expect(removed.filter(Boolean)).toHaveLength(1)
    expect((await factors.read('pair')).factors).toHaveLength(1)
  })

  test('reset leaves nothing, and the period of grace begins again', async () => {
    const factors = createFactors(records())
    const due = await factors.startOrReadGrace('reset', 600)
    expect(await factors.startOrReadGrace('reset', 6000)).toBe(due)
    await factors.add('reset', app('one'))
    expect(await factors.reset('reset')).toHaveLength(1)
    expect(await factors.read('reset')).toEqual({ accountId: 'reset', factors: [], recovery: [] })
  })

  test('an answer of a passkey has one winner, and so has a counter', async () => {
    const settings = await withFolder({}, folder => readSettings({ USHER_CONFIG: folder }))
    const factors = createFactors(records())
    const moments = { created: 0, updated: 0 }
    const about = { enabled: true, attributes: {}, email_verified: false }
    const account = { id: 'passkey', username: 'ada', ...moments, ...about }
    const nodes = [1, 2].map(() => createPasskeys(settings, records(), createFactors(records())))
    const [passkeys] = nodes
    if (!passkeys) throw new Error('no node')
    const phone = new Authenticator(settings.issuer)
    phone.counter = 1
    const answerWith = (text: string) => ({ text, place: 'page', use: { at: 1_777_000_000 } })
    const added = answerWith(phone.create(await passkeys.addOptions('page', account, [])))
    await factors.add(account.id, await passkeys.confirm(added, ''))
    const use = (text: string, n: number) =>
      nodes[n % 2]?.use(account.id, answerWith(text), { mustVerify: true })
    const same = phone.get(await passkeys.useOptions('page'))
    const answers = await Promise.allSettled(Array.from({ length: 8 }, (_, n) => use(same, n)))
    expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    // A copy of the passkey answers two other challenges with one counter.
    const copies = await times(2, async () =>
      phone.get(await passkeys.useOptions('page'), { counter: 9 }),
    )
    const both = await Promise.allSettled(copies.map(use))
    expect(both.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  })
})
