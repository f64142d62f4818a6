// A user with Chromium, and a provider with relying parties.

import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { type Complaints, collectComplaints, launchChromium, waitForFocus } from './chromium.ts'
import { words } from './people.ts'
import { type RelyingParty, type RelyingPartyOptions, startRelyingParty } from './relying-party.ts'
import { ADA, PASSWORD, startUsher, type UsherOptions } from './usher.ts'

export type Stage = Awaited<ReturnType<typeof startStage>>

/** Starts Chromium, a provider with Ada's account, and a relying party for each of `options`. */
export async function startStage(options: RelyingPartyOptions[], provider: UsherOptions = {}) {
  const parties = await Promise.all(options.map(startRelyingParty))
  const clients = Object.fromEntries(parties.map(({ metadata }) => [metadata.client_id, metadata]))
  const starting = startUsher({ clients, ...provider })
  const [usher, browser] = await Promise.all([starting, launchChromium()])
  const { id: ada } = await usher.addAccount(ADA)
  await Promise.all(parties.map(party => party.connect(usher.issuer)))
  return {
    usher,
    browser,
    ada,
    party(client_id: string): RelyingParty {
      const found = parties.find(({ metadata }) => metadata.client_id === client_id)
      if (!found) throw new Error(`no relying party has the client_id ${client_id}`)
      return found
    },
    /** Removes Ada's consents. */
    async forgetConsents() {
      await Promise.all(
        Object.keys(clients).map(client_id => usher.consents.withdraw(ada, client_id)),
      )
    },
    async close() {
      await browser.close()
      await usher.close()
      await Promise.all(parties.map(party => party.close()))
    },
  }
}

export class Visit {
  page: Page
  complaints: Complaints

  constructor(page: Page, complaints: Complaints) {
    this.page = page
    this.complaints = complaints
  }

  static async start(browser: Browser, options: BrowserContextOptions = {}): Promise<Visit> {
    const context = await browser.newContext(options)
    context.setDefaultTimeout(10_000)
    const complaints = await collectComplaints(context)
    return new Visit(await context.newPage(), complaints)
  }

  /** The heading of the page, which is not yet there on the page that leads on by itself. */
  heading() {
    const heading = this.page.getByRole('heading', { level: 1 })
    return heading.filter({ hasNotText: words('navigate.title') }).textContent()
  }

  button(name: string) {
    return this.page.getByRole('button', { name, exact: true })
  }

  link(name: string) {
    return this.page.getByRole('link', { name, exact: true })
  }

  async signIn(password = PASSWORD) {
    await this.page.getByLabel('Username').fill('ada')
    await this.page.getByLabel('Password').fill(password)
    await this.button('Sign in').click()
  }

  /** Signs in with the password on the account page, with the keyboard alone. */
  async enterPassword({ issuer }: { issuer: string }) {
    const { keyboard } = this.page
    await this.page.goto(`${issuer}/account`)
    await waitForFocus(this.page)
    await keyboard.type('ada')
    await keyboard.press('Tab')
    await keyboard.type(PASSWORD)
    await keyboard.press('Enter')
  }

  async beginAt({ origin }: RelyingParty) {
    await this.page.goto(origin)
    await this.link('Sign in').click()
  }

  /** Goes from the relying party through sign-in and consent, up to the authorization response. */
  async signInAt(party: RelyingParty) {
    await this.beginAt(party)
    await this.signIn()
    await this.button('Allow').click()
  }

  close(): Promise<void> {
    return this.page.context().close()
  }
}
