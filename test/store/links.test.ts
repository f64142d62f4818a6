// Links on every kind of store: one use succeeds, a newer link replaces an older one, and a change of the password
// closes a link.

import { expect, test } from 'vitest'
import { createLinks, type FoundLink } from '../../src/features/links.ts'
import { createSessions } from '../../src/oidc/adapter/sessions.ts'
import { newAccountId } from '../../src/sign-in/account.ts'
import { checkPassword } from '../../src/sign-in/password.ts'
import { now } from '../../src/store/store.ts'
import { directoryIn } from '../support/directory.ts'
import { onEveryStore } from './every-store.ts'
import { fresh } from './store-suite.ts'

const tokenOf = ({ path }: { path: string }) => path.replace('/welcome/', '')
const PASSWORDS = ['one battery, one staple', 'two batteries, two staples', 'three batteries']

onEveryStore(records => {
  async function setUp(password?: string) {
    const directory = directoryIn(records())
    const links = createLinks(records(), directory)
    const account = await directory.add({ username: fresh() }, password)
    const open = async (token: string): Promise<FoundLink> => {
      const found = await links.find(token)
      if (!found?.isOpen) throw new Error('the link is not open')
      return found
    }
    const passwordIs = async (tried: string) =>
      checkPassword(tried, (await directory.find(account.id))?.password)
    return { directory, links, account, open, passwordIs }
  }

  test('of several uses at once on two nodes, one succeeds, and its password is the one of the account', async () => {
    const { links, account, open, passwordIs } = await setUp()
    const other = createLinks(records(), directoryIn(records()))
    const token = tokenOf(await links.make(account))
    const found = await open(token)
    const uses = PASSWORDS.map((password, i) => (i % 2 ? links : other).use(found, password))
    const results = await Promise.all(uses)
    expect(results.filter(Boolean)).toHaveLength(1)
    expect(await passwordIs(PASSWORDS[results.indexOf(true)] ?? '')).toBe(true)
    expect(await links.find(token)).toBeUndefined()
    expect(await links.use(found, PASSWORDS[0] ?? '')).toBe(false)
  })

  test('a newer link replaces the older one, also after that was used', async () => {
    const { links, account, open } = await setUp()
    const older = tokenOf(await links.make(account))
    const newer = tokenOf(await links.make(account))
    expect(await links.find(older)).toBeUndefined()
    expect(await links.use(await open(newer), PASSWORDS[0] ?? '')).toBe(true)
    const user = (await setUp()).directory
    const again = await user.find(account.id)
    const third = tokenOf(await links.make(again ?? account))
    expect(await links.use(await open(third), PASSWORDS[1] ?? '')).toBe(true)
  })

  test('the links of an account that is removed leave the store, with their addresses', async () => {
    const { links, account } = await setUp()
    const abouts = [{}, { purpose: 'forgot' }, { purpose: 'address', email: 'new@example.org' }]
    const tokens: string[] = []
    for (const about of abouts as Parameters<typeof links.make>[2][]) {
      tokens.push(tokenOf(await links.make(account, 600, about)))
    }
    for (const token of tokens) expect(await links.find(token)).toBeDefined()
    await links.removeAll(account)
    for (const token of tokens) expect(await links.find(token)).toBeUndefined()
  })

  test('a link that has added its account does not add it again after its removal', async () => {
    const { directory, links, open } = await setUp()
    const email = `${fresh()}@example.org`
    const mail = { id: fresh(), at: now() }
    const about = { purpose: 'sign_up', email } as const
    const attempt = () => links.makeForMail(mail, { id: newAccountId() }, 600, about)
    const first = await attempt()
    // The mail is sent a second time, with the same link.
    expect((await attempt())?.path).toBe(first?.path)
    const token = tokenOf(first ?? { path: '' })
    const interrupt = () => Promise.reject(new Error('interrupted'))
    const used = links.use(await open(token), PASSWORDS[0] ?? '', interrupt)
    await expect(used).rejects.toThrow('interrupted')
    const [added] = await directory.findByEmail(email)
    if (!added) throw new Error('there is no account')
    expect(await links.find(token)).toMatchObject({ isUsed: true, account: { id: added.id } })
    await links.removeAll(added)
    await directory.remove(added)
    expect(await links.find(token)).toBeUndefined()
  })

  test('a link of a node whose clock is ahead works once', async () => {
    const { directory, links, account, open } = await setUp()
    await directory.change(account.id, current => ({ ...current, ended: now() + 30 }))
    const ahead = (await directory.find(account.id)) ?? account
    const found = await open(tokenOf(await links.make(ahead)))
    const uses = PASSWORDS.map(password => links.use(found, password))
    expect((await Promise.all(uses)).filter(Boolean)).toHaveLength(1)
  })

  test.each(['disabled', 'removed', 'new password'])(
    'an account that is %s closes its link',
    async how => {
      const { directory, links, account, open } = await setUp(PASSWORDS[0])
      const found = await open(tokenOf(await links.make(account)))
      if (how === 'removed') await directory.remove(account)
      else await directory.endAccess(account.id, it => ({ ...it, enabled: how !== 'disabled' }))
      const left = await directory.find(account.id)
      expect(left && (await links.openOf(left))).toBeUndefined()
      expect(await links.use(found, PASSWORDS[1] ?? '')).toBe(false)
    },
  )

  test('of a link and a change of the password at once, one succeeds, and no session of before remains', async () => {
    const { directory, links, account, open, passwordIs } = await setUp(PASSWORDS[0])
    const sessions = createSessions(records())
    const session = { uid: fresh(), jti: fresh(), accountId: account.id, loginTs: now() + 1 }
    await sessions.save(
      { ...session, kind: 'Session', exp: now() + 600, iat: now() } as never,
      600,
      600,
    )
    const found = await open(tokenOf(await links.make(account)))
    const [used, changed] = await Promise.all([
      links.use(found, PASSWORDS[1] ?? ''),
      directory.changePassword(account.id, PASSWORDS[2] ?? '', session.uid, 600).then(
        () => true,
        () => false,
      ),
    ])
    expect([used, changed].filter(Boolean)).toHaveLength(1)
    expect(await passwordIs(PASSWORDS[used ? 1 : 2] ?? '')).toBe(true)
    expect((await sessions.listOfAccount(account.id)).length).toBe(used ? 0 : 1)
  })
})
