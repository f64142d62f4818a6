// The directory: accounts are added, renamed and removed, and usernames are unique.

import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { ZodError } from 'zod'
import { addLink } from '../../src/features/upstream/identities.ts'
import { Consents } from '../../src/oidc/consents.ts'
import {
  type Account,
  foldUsername,
  InvalidAccount,
  newAccountId,
} from '../../src/sign-in/account.ts'
import type { OwnAccounts } from '../../src/sign-in/directory.ts'
import { type Installation, openInstallation } from '../../src/store/open.ts'
import { openRecords } from '../../src/store/records.ts'
import { openSqliteStore } from '../../src/store/sqlite.ts'
import { directoryIn } from '../support/directory.ts'
import { stopping } from '../support/stopping.ts'
import { ADA, PASSWORD } from '../support/usher.ts'

let installation: Installation
let directory: OwnAccounts
beforeAll(async () => {
  installation = await openInstallation('sqlite::memory:', [])
  directory = directoryIn(installation.records)
})
afterAll(() => installation.store.close())

const reasonsOf = (results: PromiseSettledResult<unknown>[]) =>
  results.flatMap(result => (result.status === 'rejected' ? [result.reason] : []))

test('an added account is found by subject, and by username in any spelling', async () => {
  const account = await directory.add(ADA)
  expect(account).toMatchObject({ ...ADA, enabled: true, id: expect.stringMatching(/^usr_/) })
  expect(account).not.toHaveProperty('password')
  expect(await directory.find(account.id)).toEqual(account)
  expect(await directory.findByUsername('ＡＤＡ')).toEqual(account)
  expect(await directory.find('usr_nobody')).toBeUndefined()
  expect(await directory.findByUsername('nobody')).toBeUndefined()
})

test('recordName is the record that find reads: a request reads it with a consent', async () => {
  let request: object | undefined
  const store = await openSqliteStore(':memory:')
  onTestFinished(() => store.close())
  const records = await openRecords(store, [Buffer.alloc(32)], () => request)
  const directory = directoryIn(records)
  const { id } = await directory.add(ADA)
  request = {}
  await new Consents(records).read(id, 'app', directory.recordName(id))
  const reads = vi.spyOn(store, 'getMany')
  expect(await directory.find(id)).toMatchObject(ADA)
  expect(reads).not.toHaveBeenCalled()
})

test('a username that exists in another spelling is refused', async () => {
  await directory.add({ username: 'groß' })
  for (const username of ['groß', 'GROSS', 'Ｇross']) {
    await expect(directory.add({ username })).rejects.toBeInstanceOf(InvalidAccount)
  }
})

test('an invalid profile is not added, and its username stays free', async () => {
  const wrong = { username: 'grace', email: 'nowhere' }
  await expect(directory.add(wrong)).rejects.toBeInstanceOf(ZodError)
  await expect(directory.add({ username: 'grace' })).resolves.toMatchObject({ username: 'grace' })
})

test('only one of twenty concurrent accounts with one username is added', async () => {
  const spellings = ['Alan', 'alan', 'ALAN', 'ａlan']
  const results = await Promise.allSettled(
    Array.from({ length: 20 }, (_, i) => directory.add({ username: spellings[i % 4] })),
  )
  const added = results.flatMap(result => (result.status === 'fulfilled' ? [result.value] : []))
  expect(added).toHaveLength(1)
  for (const reason of reasonsOf(results)) expect(reason).toBeInstanceOf(InvalidAccount)
  const list = await Array.fromAsync(directory.all())
  expect(list.filter(({ username }) => foldUsername(username) === 'alan')).toEqual(added)
  expect(await directory.findByUsername('alan')).toEqual(added[0])
})

test('a username whose account was never written becomes free after the write timeout', async () => {
  const { records } = installation
  const id = 'usr_lost'
  const claim = { id, since: Math.floor(Date.now() / 1000) }
  await records.of('Username', { backup: true }).save(foldUsername('Lost'), claim, { version: 0 })
  await expect(directory.add({ username: 'lost' })).rejects.toThrow(InvalidAccount)
  const late = () => ({ id, since: claim.since - 61 })
  await records.of('Username', { backup: true }).change(foldUsername('Lost'), late)
  expect(await directory.findByUsername('lost')).toBeUndefined()
  const account = await directory.add({ username: 'lost' })
  expect(await directory.findByUsername('lost')).toEqual(account)
})

const rename = ({ id }: Account, username: string) =>
  directory.change(id, account => ({ ...account, username }))

test('a rename frees the old name and takes the new one', async () => {
  const account = await directory.add({ username: 'byron' })
  await rename(account, 'king')
  expect(await directory.findByUsername('King')).toMatchObject({ id: account.id, username: 'king' })
  expect(await directory.findByUsername('byron')).toBeUndefined()
  await expect(directory.add({ username: 'byron' })).resolves.toBeDefined()
})

test('a rename to another spelling of the same name keeps it', async () => {
  const account = await directory.add({ username: 'hopper' })
  await rename(account, 'Hopper')
  expect(await directory.findByUsername('hopper')).toMatchObject({ username: 'Hopper' })
})

test('a rename to an existing username changes nothing', async () => {
  const account = await directory.add({ username: 'turing' })
  await directory.add({ username: 'church' })
  await expect(rename(account, 'CHURCH')).rejects.toBeInstanceOf(InvalidAccount)
  expect(await directory.findByUsername('turing')).toMatchObject({ id: account.id })
  expect(await directory.findByUsername('church')).not.toMatchObject({ id: account.id })
})

test('only one of twenty concurrent renames to one username succeeds', async () => {
  const racers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => directory.add({ username: `racer${i}` })),
  )
  const results = await Promise.allSettled(racers.map(account => rename(account, 'winner')))
  expect(reasonsOf(results)).toHaveLength(19)
  const holder = await directory.findByUsername('winner')
  const accounts = await Array.fromAsync(directory.all())
  const named = accounts.filter(({ username }) => username === 'winner')
  expect(named.map(({ id }) => id)).toEqual([holder?.id])
})

test('a change never changes the subject, and twenty concurrent changes are all saved', async () => {
  const account = await directory.add({ username: 'counter', attributes: { count: 0 } })
  await Promise.all(
    Array.from({ length: 20 }, () =>
      directory.change(account.id, current => ({
        ...current,
        id: 'usr_another',
        attributes: { count: Number(current.attributes.count) + 1 },
      })),
    ),
  )
  expect(await directory.find(account.id)).toMatchObject({
    id: account.id,
    attributes: { count: 20 },
  })
  expect(await directory.change('usr_nobody', current => current)).toBeUndefined()
})

test('a disabled account is found, and not found as an enabled one', async () => {
  const account = await directory.add({ username: 'disabled' }, PASSWORD)
  await directory.change(account.id, current => ({ ...current, enabled: false }))
  expect(await directory.find(account.id)).toMatchObject({ enabled: false })
  expect(await directory.findEnabled(account.id)).toBeUndefined()
})

test('a removed account is not found, and its username is free', async () => {
  const account = await directory.add({ username: 'leaver' }, PASSWORD)
  await directory.remove(account)
  expect(await directory.find(account.id)).toBeUndefined()
  expect(await directory.findByUsername('leaver')).toBeUndefined()
  expect((await Array.fromAsync(directory.all())).map(({ id }) => id)).not.toContain(account.id)
  const next = await directory.add({ username: 'leaver' })
  expect(next.id).not.toBe(account.id)
  expect(await directory.findByUsername('leaver')).toEqual(next)
})

test('a removal that was interrupted at any write can be repeated', async () => {
  const { records, store } = installation
  const consents = new Consents(records)
  const stopAfter = stopping(store)
  let isWhole = false
  for (let writes = 0; !isWhole; writes++) {
    const { id } = await directory.add({ username: `leaver-${writes}` })
    await consents.decide(id, 'web', { scopes: ['openid'], declined: [], version: 0 })
    const remove = async () => {
      const account = await directory.find(id)
      if (account) await directory.remove(account)
      return true
    }
    isWhole = await stopAfter(writes, remove).catch(() => false)
    await remove()
    expect(await directory.find(id)).toBeUndefined()
    expect(await consents.list(id)).toEqual([])
  }
})

test('a change after the removal does not restore the account', async () => {
  const account = await directory.add({ username: 'ghost' })
  await directory.remove(account)
  expect(await directory.change(account.id, current => current)).toBeUndefined()
  expect(await directory.find(account.id)).toBeUndefined()
})

test('only one of two concurrent imports with one id adds the account, which has its username', async () => {
  const one = { username: 'twice', id: newAccountId(), email_verified: false, attributes: {} }
  const imports = [one, one].map(account => directory.transfer({ ...account, enabled: true }))
  const results = await Promise.allSettled(imports)
  expect(reasonsOf(results)).toHaveLength(1)
  expect(await directory.findByUsername('twice')).toMatchObject({ id: one.id })
})

test('twenty concurrent links of one user of an issuer to one account are one link', async () => {
  const { id } = await directory.add({ username: 'linker' })
  const link = { issuer: 'https://issuer.example', subject: 'linker' }
  await Promise.all(Array.from({ length: 20 }, () => addLink(directory, id, link)))
  expect(await directory.findByLink(link)).toMatchObject({ id, links: [link] })
  const other = await directory.add({ username: 'other' })
  await expect(addLink(directory, other.id, link)).rejects.toThrow('linked to another')
})

test('an import that is refused because of its link leaves its username free', async () => {
  const link = { issuer: 'https://issuer.example', subject: 'taken' }
  const bob = { username: 'bob-again', email_verified: false, attributes: {}, enabled: true }
  await directory.transfer({ ...bob, username: 'ann-linked', links: [link] })
  await expect(directory.transfer({ ...bob, links: [link] })).rejects.toThrow('linked to another')
  expect(await directory.transfer(bob)).toBe('added')
  expect(await directory.findByUsername('bob-again')).toBeDefined()
})
