// An operation that ends access succeeds while many requests write the same record without a pause.

import { setImmediate, setTimeout } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { createSessions } from '../../src/oidc/adapter/sessions.ts'
import { Consents } from '../../src/oidc/consents.ts'
import { now } from '../../src/store/store.ts'
import { directoryIn } from '../support/directory.ts'
import { onEveryStore } from './every-store.ts'
import { fresh } from './store-suite.ts'

const WRITERS = [4, 11, 24]
const ROUNDS = 5
const CLIENT = 'web'

onEveryStore(records => {
  describe.each(WRITERS)('against %i writers', writers => {
    async function contest(write: () => Promise<unknown>, end: () => Promise<unknown>) {
      let isOver = false
      const writing = Array.from({ length: writers }, async () => {
        while (!isOver) {
          await write()
          // Reads of SQLite are synchronous, and give no other task a turn.
          await setImmediate()
        }
      })
      await setTimeout(20)
      await end().finally(() => {
        isOver = true
      })
      await Promise.all(writing)
    }

    /** An account, and a write that changes its name. */
    async function setUp() {
      const directory = directoryIn(records())
      const { id } = await directory.add({ username: fresh() })
      const rename = () => directory.change(id, account => ({ ...account, name: fresh() }))
      return { directory, id, rename }
    }

    /** A consent, and a write that changes its scopes. */
    async function setUpConsent() {
      const consents = new Consents(records())
      const id = fresh()
      const decide = (scopes: string[], declined: string[]) =>
        consents.decide(id, CLIENT, { scopes, declined, version: 0 })
      await decide(['profile', 'email'], [])
      return { consents, id, decide }
    }

    const eachRound = (name: string, round: () => Promise<void>) =>
      test(name, async () => {
        for (let i = 0; i < ROUNDS; i++) await round()
      })

    eachRound('disabling an account', async () => {
      const { directory, id, rename } = await setUp()
      await contest(rename, () =>
        directory.endAccess(id, account => ({ ...account, enabled: false })),
      )
      expect(await directory.find(id)).toMatchObject({ enabled: false, ended: expect.any(Number) })
    })

    eachRound('a change of password', async () => {
      const { directory, id, rename } = await setUp()
      const session = { uid: fresh(), jti: fresh(), accountId: id, loginTs: now(), exp: now() + 60 }
      await createSessions(records()).save({ ...session, kind: 'Session', iat: now() }, 60, 60)
      await contest(rename, () => directory.changePassword(id, 'another one', session.uid, 60))
      expect(await directory.find(id)).toMatchObject({
        password: expect.any(String),
        ended: expect.any(Number),
      })
    })

    eachRound('the removal of an account', async () => {
      const { directory, id, rename } = await setUp()
      const account = await directory.find(id)
      await contest(rename, async () => account && directory.remove(account))
      expect(await directory.find(id)).toBeUndefined()
    })

    eachRound('a narrower consent', async () => {
      const { consents, id, decide } = await setUpConsent()
      await contest(
        () => decide(['profile'], []),
        () => decide(['profile'], ['email']),
      )
      expect(await consents.find(id, CLIENT)).toMatchObject({
        scopes: ['profile'],
        declined: ['email'],
      })
    })

    eachRound('the withdrawal of a consent', async () => {
      const { consents, id, decide } = await setUpConsent()
      await contest(
        () => decide(['profile'], []),
        () => consents.withdraw(id, CLIENT),
      )
      expect(await consents.find(id, CLIENT)).toBeUndefined()
    })
  })
})
