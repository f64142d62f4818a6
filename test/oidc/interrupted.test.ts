// Operations of several writes, with a store that stops at the n-th write, for every n. The first write makes the
// operation safe, and each can be repeated afterwards until it is complete.

import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { createFactors, type Factor } from '../../src/features/factors/factors.ts'
import { createLinks } from '../../src/features/links.ts'
import { accountFor, addLink, withoutIssuer } from '../../src/features/upstream/identities.ts'
import { openSigningKeys } from '../../src/operation/signing-keys.ts'
import { FILES } from '../support/apis.ts'
import { Browser } from '../support/browser.ts'
import { EXCHANGING, exchange, introspect } from '../support/exchange.ts'
import { nextCode } from '../support/factors.ts'
import { type Scene, scene, signIn, signingOut } from '../support/interleave.ts'
import { type Answer, post, redeem, refresh, userinfo } from '../support/journey.ts'
import { Authenticator, addPasskey, optionsOn } from '../support/passkeys.ts'
import {
  copyOf,
  credentials,
  fieldsOf,
  isSignedIn,
  open,
  send,
  signedIn,
  words,
} from '../support/people.ts'
import { STORES, startOn } from '../support/redis-together.ts'
import {
  invite,
  METADATA,
  manage,
  REGISTER,
  type Registration,
  register,
  registered,
  registerNew,
} from '../support/registration.ts'
import { oneOf, placesOn } from '../support/some-of.ts'
import { stopping } from '../support/stopping.ts'
import { PASSWORD, type Usher } from '../support/usher.ts'
import * as wire from '../support/wire.ts'

const NEW = 'another battery, another staple'
const ISSUER = 'https://central.example.org'
const ONLINE = 'openid profile'
const OFFLINE = `${ONLINE} offline_access`

let usher: Usher

/** Each fact is true, or a promise of that. */
type Facts = Record<string, unknown>

interface Operation {
  /** Throws if the store has failed. */
  run(): Promise<unknown>
  /** Holds once the first write has succeeded: an attacker can use nothing of this any more. */
  safe?(): Facts
  /** Holds after a run that succeeded. */
  complete(): Facts | Promise<Facts>
}

/** Returns the names of the facts that are false. */
async function falseOf(facts: Facts = {}): Promise<string[]> {
  const entries = Object.entries(facts)
  const values = await Promise.all(entries.map(([, value]) => value))
  return entries.filter((_, i) => !values[i]).map(([name]) => name)
}

const isRefused = ({ status }: { status: number }) => [400, 401].includes(status)

const refusedTokens = ({ access_token, refresh_token }: Answer['body']): Facts => ({
  'UserInfo is refused': userinfo(usher, access_token).then(isRefused),
  'a refresh is refused': refresh(usher, refresh_token).then(isRefused),
})

/** A user who is signed in to `web`, which has tokens, and whose sessions notify `web`. */
async function signedInUser(scope: string) {
  const user = await scene(usher, scope)
  await signIn(user)
  const { browser, request } = await open(usher, { scope }, copyOf(user.browser))
  const { body } = await redeem(usher, browser.page.params.get('code') ?? '', request)
  const ended = (): Facts => ({
    ...(scope === OFFLINE ? refusedTokens(body) : {}),
    'UserInfo is refused': userinfo(usher, body.access_token).then(isRefused),
    'the session has ended': isSignedIn(user.browser).then(is => !is),
  })
  const isNotified = () => notificationsOf(user).then(n => n === 1)
  return { ...user, tokens: body, ended, isNotified }
}

async function notificationsOf({ id }: Scene): Promise<number> {
  const all = await usher.records.of<{ accountId: string }>('SignOut').list('sign-outs', 'new')
  return all.filter(({ accountId }) => accountId === id).length
}

/** An operation that ends all access of a user. */
async function ending(run: (user: Awaited<ReturnType<typeof signedInUser>>) => Promise<unknown>) {
  const user = await signedInUser(OFFLINE)
  const grants = () => usher.records.of('Grant').list('grants of account', user.id)
  return {
    user,
    run: () => run(user),
    safe: user.ended,
    complete: (): Facts => ({
      ...user.ended(),
      'its applications are notified once': user.isNotified(),
      'no grant is left': grants().then(({ length }) => length === 0),
    }),
  }
}

const canSignIn = async (username: string, password: string) => {
  const { authenticate } = await usher.directory.candidate(username, [])
  return (await authenticate(password)).account !== undefined
}
/** A name that an interrupted operation left behind is free after a minute. */
async function isFree(username: string) {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 61_000 })
  const added = await usher.directory.add({ username }).catch(() => undefined)
  vi.useRealTimers()
  return added !== undefined
}

let networks = 0
let names = 0
const newName = (text: string) => `${text}${names++}`

async function throwIfUnavailable<T extends { status: number }>(sent: Promise<T>): Promise<T> {
  const answer = await sent
  if (answer.status >= 500) throw new Error(`answered ${answer.status}`)
  return answer
}

/** A sign-in by these answers to its pages. After a fault the user begins again at the application. */
async function signingIn(
  answers: [heading: string, (browser: Browser) => Promise<Record<string, string>>][],
) {
  const { browser, request } = await open(usher)
  return {
    async run() {
      await browser.open(request.url)
      for (const [heading, answer] of answers) {
        if (browser.heading === heading) await browser.submit(await answer(browser))
      }
      const { status } = browser.page
      if (status >= 400) throw new Error(`answered ${status}`)
    },
    complete: () => ({ 'the user is signed in': isSignedIn(browser) }),
  }
}

const OPERATIONS: Record<string, () => Promise<Operation>> = {
  async 'a sign-out'() {
    const user = await signedInUser(ONLINE)
    const run = await signingOut(user)
    return {
      run,
      safe: () => ({ 'the session has ended': isSignedIn(user.browser).then(is => !is) }),
      complete: () => ({
        ...user.ended(),
        'its applications are notified once': user.isNotified(),
      }),
    }
  },
  async 'the end of the other sessions of an account'() {
    const user = await signedInUser(ONLINE)
    const other = new Browser(usher.issuer)
    await signIn({ ...user, browser: other })
    const page = '/account/sessions/end?session=others'
    await other.open(page)
    const form = fieldsOf(other.page)
    return {
      run: () => throwIfUnavailable(send(other, page, { form })),
      complete: () => ({
        ...user.ended(),
        'this session stays': isSignedIn(other),
        'its applications are notified once': user.isNotified(),
      }),
    }
  },
  'the end of all access': () => ending(({ id }) => usher.directory.endAccess(id)),
  async 'the disabling of an account'() {
    const disable = (account: object) => ({ ...account, enabled: false })
    return ending(({ id }) => usher.directory.endAccess(id, disable as never))
  },
  async 'a change of password'() {
    const operation = await ending(async ({ id }) => {
      const [session] = await usher.sessions.list(id)
      await usher.directory.changePassword(id, NEW, session?.uid ?? '', 3600)
    })
    const { username } = operation.user
    const facts = () => ({
      'the new password is valid': canSignIn(username, NEW),
      'the old one is not': canSignIn(username, PASSWORD).then(is => !is),
    })
    return {
      ...operation,
      safe: () => ({ ...operation.safe(), ...facts() }),
      complete: () => ({ ...operation.complete(), ...facts() }),
    }
  },
  async 'the change of a temporary password'() {
    const { id, username, browser } = await scene(usher, ONLINE)
    const change_password_by = Math.floor(Date.now() / 1000) + 3600
    await usher.directory.endAccess(id, account => ({ ...account, change_password_by }))
    await browser.open('/account')
    await browser.submit(credentials(username))
    const { url } = browser.page
    const form = fieldsOf(browser.page, { password: NEW, repeat: NEW })
    let next: string | undefined
    return {
      async run() {
        const answer = await throwIfUnavailable(send(browser, url, { form }))
        next = /content="0;url=([^"]+)"/.exec(await answer.text())?.[1]
      },
      async complete() {
        await browser.open(next?.replaceAll('&amp;', '&') ?? '/account')
        return {
          'the new password is valid': canSignIn(username, NEW),
          'the old one is not': canSignIn(username, PASSWORD).then(is => !is),
          'the user is signed in': browser.heading === 'Your account',
        }
      },
    }
  },
  async 'the use of a link that removes the second factors'() {
    let path = ''
    let status = 0
    const links = createLinks(usher.records, usher.directory)
    const operation = await ending(async ({ browser }) => {
      const form = fieldsOf(browser.page, { password: NEW, repeat: NEW })
      status = (await throwIfUnavailable(send(browser, path, { form }))).status
    })
    const { id, username, browser } = operation.user
    const account = await usher.directory.find(id)
    if (account) ({ path } = await links.make(account, 3600, { resetFactors: true }))
    const app = { id: 'x'.repeat(16), name: '', created: 0, type: 'totp', secret: 'A', step: 0 }
    await createFactors(usher.records).add(id, app as Factor)
    await browser.open(path)
    return {
      run: operation.run,
      complete: () => ({
        ...operation.complete(),
        'the user learns that it worked': status === 200,
        'the new password is valid': canSignIn(username, NEW),
        'no second factor is left': createFactors(usher.records)
          .read(id)
          .then(({ factors }) => factors.length === 0),
      }),
    }
  },
  async 'a sign-in with a code'() {
    const { id, username } = await scene(usher, ONLINE)
    const secret = 'A'.repeat(32)
    const app = { id: 'x'.repeat(16), name: '', created: 0, type: 'totp', secret, step: 0 }
    await createFactors(usher.records).add(id, app as Factor)
    return signingIn([
      [words('sign_in.title'), async () => credentials(username)],
      // A code that was used before the fault stays used: this is another one.
      [words('factors.step_title'), async () => ({ code: await nextCode(usher, id) })],
    ])
  },
  async 'a sign-in with a passkey'() {
    const { username } = await scene(usher, ONLINE)
    const phone = new Authenticator(usher.issuer)
    const own = await signedIn(usher, username)
    await addPasskey(own, phone)
    const answer = async (browser: Browser) => ({ passkey: phone.get(optionsOn(browser)) })
    return signingIn([[words('sign_in.title'), answer]])
  },
  async 'a token exchange'() {
    const user = await signedInUser(OFFLINE)
    let token = ''
    return {
      async run() {
        const { status, body } = await throwIfUnavailable(
          exchange(usher, user.tokens.access_token, { client_id: 'web', resource: FILES }),
        )
        token = status === 200 ? body.access_token : ''
      },
      async complete() {
        const { active } = await introspect(usher, token)
        await post(usher, '/api/oauth/revoke', { token: user.tokens.refresh_token })
        const ended = await introspect(usher, token)
        return {
          'the token is valid': active === true,
          'it ends with its subject': ended.active === false,
        }
      },
    }
  },
  async 'the addition of an account'() {
    const username = newName('added')
    const minute = () => vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 61_000 })
    return {
      // An interrupted addition blocks its username for a minute.
      run: () => usher.directory.add({ username }).finally(minute),
      async complete() {
        vi.useRealTimers()
        return { 'the account is found': usher.directory.findByUsername(username) }
      },
    }
  },
  async 'the import of an account'() {
    const { id, username } = { id: newName('usr_imported'), username: newName('imported') }
    const account = { id, username, enabled: true, email_verified: false, attributes: {} }
    return {
      run: () => usher.directory.transfer(account as never),
      complete: () => ({ 'the account is found': usher.directory.findByUsername(username) }),
    }
  },
  async 'a rename'() {
    const { id, username } = await scene(usher, ONLINE)
    const renamed = newName('renamed')
    return {
      run: () => usher.directory.change(id, account => ({ ...account, username: renamed })),
      complete: () => ({
        'the new name is of the account': usher.directory
          .findByUsername(renamed)
          .then(found => found?.id === id),
        'the old name is free': isFree(username),
      }),
    }
  },
  async 'a change of the e-mail address'() {
    const { id } = await scene(usher, ONLINE)
    const email = `${newName('new')}@example.org`
    return {
      run: () => usher.directory.change(id, account => ({ ...account, email })),
      complete: () => ({
        'the account is found by it': usher.directory
          .findByEmail(email)
          .then(all => all.length === 1),
      }),
    }
  },
  async 'linking an account'() {
    const { id } = await scene(usher, ONLINE)
    const link = { issuer: ISSUER, subject: newName('user') }
    return {
      run: () => addLink(usher.directory, id, link),
      complete: () => ({
        'the link is found': usher.directory.findByLink(link).then(one => one?.id === id),
      }),
    }
  },
  async 'the first sign-in of a user of an issuer'() {
    const claims = { sub: newName('user'), preferred_username: newName('new') }
    const fields = { name: 'central', issuer: ISSUER, accounts: 'create', allow: { claims: {} } }
    const upstream = { ...fields, claims: { username: 'preferred_username' } }
    return {
      run: () => accountFor(usher.directory, upstream as never, claims as never),
      complete: () => ({
        'the account has its username': usher.directory
          .findByLink({ issuer: ISSUER, subject: claims.sub })
          .then(account => account?.username === claims.preferred_username),
      }),
    }
  },
  async 'unlinking an account'() {
    const { id } = await scene(usher, ONLINE)
    const other = await scene(usher, ONLINE)
    const link = { issuer: ISSUER, subject: newName('user') }
    const unlinkedIssuer = { issuer: ISSUER, claims: {} }
    await addLink(usher.directory, id, link)
    const unlinked = () => usher.directory.findByLink(link).then(found => !found)
    return {
      run: () => usher.directory.change(id, account => withoutIssuer(account, unlinkedIssuer)),
      safe: () => ({ 'the link gives no access': unlinked() }),
      async complete() {
        const isUnlinked = await unlinked()
        vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 61_000 })
        const linked = await addLink(usher.directory, other.id, link).catch(() => undefined)
        vi.useRealTimers()
        return { 'the link is gone': isUnlinked, 'another account can link it': linked }
      },
    }
  },
  async 'the removal of an account'() {
    const before: { account?: Awaited<ReturnType<typeof usher.directory.find>> } = {}
    const operation = await ending(async ({ id }) => {
      before.account ??= await usher.directory.find(id)
      if (before.account) await usher.directory.remove(before.account)
    })
    const { id, username } = operation.user
    return {
      ...operation,
      complete: () => ({
        ...operation.complete(),
        'the account is gone': usher.directory.find(id).then(found => !found),
        'its consents are gone': usher.consents.list(id).then(all => all.length === 0),
        'its name is free': isFree(username),
      }),
    }
  },
  async 'the withdrawal of a consent'() {
    const user = await signedInUser(OFFLINE)
    return {
      run: () => usher.consents.withdraw(user.id, 'web'),
      complete: () => ({
        'the consent is gone': usher.consents.find(user.id, 'web').then(found => !found),
        ...refusedTokens(user.tokens),
      }),
    }
  },
  async 'a consent to less than before'() {
    const user = await signedInUser(OFFLINE)
    const less = { scopes: ['openid'], declined: ['profile'] }
    const { version } = await usher.consents.read(user.id, 'web')
    return {
      run: () => usher.consents.decide(user.id, 'web', { ...less, version }),
      complete: () => ({
        'the consent is less': usher.consents
          .find(user.id, 'web')
          .then(found => !found?.scopes.includes('profile')),
        ...refusedTokens(user.tokens),
      }),
    }
  },
  async 'the revocation of a refresh token'() {
    const { tokens } = await signedInUser(OFFLINE)
    const refused = () => refusedTokens(tokens)
    const run = () =>
      throwIfUnavailable(post(usher, '/api/oauth/revoke', { token: tokens.refresh_token }))
    return { run, safe: refused, complete: refused }
  },
  async 'a rotation of the signing keys'() {
    const keys = await openSigningKeys(usher.records, usher.settings)
    const before = (await keys.list()).map(({ kid }) => kid)
    const isNew = ({ kid, state }: { kid: string; state: string }) =>
      state === 'next' && !before.includes(kid)
    return {
      run: () => keys.rotate(),
      complete: () => ({ 'keys are announced': keys.list().then(all => all.some(isNew)) }),
    }
  },
  async 'the registration of a client'() {
    const token = await invite(usher, 1)
    let answer: Awaited<ReturnType<typeof register>> | undefined
    return {
      async run() {
        answer = await throwIfUnavailable(register(usher, token))
      },
      complete: () => ({
        'the client is registered': answer?.status === 201,
        'it can read its metadata':
          answer && manage(usher, answer.json).then(({ status }) => status === 200),
        'the initial access token is used up': register(usher, token).then(isRefused),
      }),
    }
  },
  async 'a registration without a token'() {
    const metadata = { redirect_uris: ['http://localhost:3334/callback'] }
    const address = { 'x-forwarded-for': `192.0.2.${networks++}` }
    const headers = { 'content-type': 'application/json', ...address }
    let client: Registration | undefined
    return {
      async run() {
        const body = JSON.stringify(metadata)
        const sent = wire.send<Registration>(usher, REGISTER, { headers, body })
        client = (await throwIfUnavailable(sent)).json
      },
      complete: () => ({
        'the client is registered': registered(usher).find(client?.client_id ?? ''),
      }),
    }
  },
  async 'the update of a registered client'() {
    const client = await registerNew(usher)
    const metadata = { ...METADATA, client_id: client.client_id, client_name: newName('Name ') }
    return {
      run: () => throwIfUnavailable(manage(usher, client, metadata)),
      complete: () => ({
        'the name is new': registered(usher)
          .find(client.client_id)
          .then(found => found?.client_name === metadata.client_name),
      }),
    }
  },
  async 'the removal of a registered client'() {
    const client = await registerNew(usher)
    const gone = () => ({
      'the client is gone': registered(usher)
        .find(client.client_id)
        .then(one => !one),
    })
    const run = () => throwIfUnavailable(manage(usher, client, undefined, 'DELETE'))
    return { run, safe: gone, complete: gone }
  },
}

describe.each(oneOf(STORES))('on %s', (store, startStore) => {
  beforeAll(async () => {
    const backchannel_logout_uri = 'https://app.example.org/backchannel-logout'
    const { clients, resources } = EXCHANGING
    usher = await startOn(startStore, {
      clients: { ...clients, web: { ...clients.web, backchannel_logout_uri } },
      resources,
      usher: {
        features: { dynamic_registration: { mode: 'open' } },
        sign_in: { methods: ['password', 'passkey'], second_factor: 'optional' },
        proxy: ['127.0.0.1'],
      },
    })
  })
  afterAll(() => usher.close())

  test.each(Object.entries(OPERATIONS))(
    '%s can be interrupted at every write',
    async (_name, prepare) => {
      const faults: string[] = []
      const { first, step } = placesOn(store, 4)
      for (let n = first, isOver = false; !isOver && n < 60; n += step) {
        const { run, safe, complete } = await prepare()
        isOver = await stopping(usher.store)(n, run).then(
          () => true,
          () => false,
        )
        const note = (facts: string[] = []) => faults.push(...facts.map(fact => `${n}: ${fact}`))
        if (!isOver && n > 0) note(await falseOf(safe?.()))
        if (!isOver) await run().catch(error => note([`cannot be repeated: ${error.message}`]))
        note(await falseOf(await complete()))
      }
      expect(faults).toEqual([])
    },
  )
})
