// What users do themselves: change their name and their e-mail address (`accounts.self_service`). A new address is
// in force when its mailbox has confirmed it, with a link (links.ts).

import { randomUUID } from 'node:crypto'
import { domainToASCII } from 'node:url'
import type { Context } from 'koa'
import { type Account, profileSchema } from '../accounts/account.ts'
import { createDirectory } from '../accounts/directory.ts'
import type { Limit } from '../accounts/rate-limit.ts'
import { note } from '../http/audit.ts'
import type { Form } from '../http/forms.ts'
import type { PageData } from '../pages/page-data.ts'
import type { PageFeature } from '../pages/routes.ts'
import { RECENT_SECONDS, type SignedIn, type Site, type Submitted } from '../pages/site.ts'
import type { Dependencies } from '../provider/feature.ts'
import { createLinks, type FoundLink, type Links } from './links.ts'
import { countForm, mailQueue, queueNotice } from './mail-queue.ts'

declare module '../pages/page-data.ts' {
  interface PageData {
    /**
     * `fields`: those that the user may change, with their values; `wrong`: those with a text that is not valid;
     * `pending`: the address that waits for its confirmation.
     */
    profile: { fields: Fields; wrong: Field[]; pending?: string; isSaved: boolean }
    /** The page of a link that confirms an address. */
    'confirm-address': { email: string; isDone: boolean }
  }
}

type Field = 'name' | 'email'
type Fields = Partial<Record<Field, string>>

/** The path of the page. */
const PROFILE_PAGE = '/account/profile'
/** New addresses of an account: each causes a mail to an address that may be of a stranger. */
const OF_ACCOUNT: Limit = { attempts: 5, maxWaitSeconds: 15 * 60 }

/** Returns an address as it is stored: its domain in lower case and in ASCII. Undefined for text that is none. */
function readAddress(typed: string): string | undefined {
  // A quoted local part may contain another address, and programs that read it differ.
  const [, local = '', domain = ''] = /^([^"@]+)@([^@]+)$/.exec(typed) ?? []
  return profileSchema.shape.email.safeParse(`${local}@${domainToASCII(domain.trim())}`).data
}

/** Returns the feature. Off without `accounts.self_service`. */
export function selfService({ settings, records, sessions }: Dependencies): PageFeature {
  const { accounts, upstreams } = settings
  if (!accounts.self_service.length) return {}
  const directory = createDirectory(records, sessions)
  const links = createLinks(records, directory)

  /** The fields that no upstream issuer of the account sets: a sign-in there would overwrite them. */
  function fieldsOf({ links: own = [] }: Account): Field[] {
    const issuers = own.map(({ issuer }) => issuer)
    const theirs = Object.values(upstreams).filter(({ issuer }) => issuers.includes(issuer))
    return accounts.self_service.filter(field => !theirs.some(({ claims }) => claims[field]))
  }
  const isFor = (account: Account) => fieldsOf(account).length > 0

  function pageOf({ views }: Site) {
    type Shown = Partial<PageData['profile']>
    async function show(ctx: Context, { account }: SignedIn, form?: Form, more: Shown = {}) {
      if (!isFor(account)) return ctx.throw(404)
      ctx.state.account = account
      const values = fieldsOf(account).map(field => [
        field,
        form?.get(field) ?? account[field] ?? '',
      ])
      const { pending = (await links.openOf(account, 'address'))?.email } = more
      const fields = Object.fromEntries(values)
      const data = { wrong: [], isSaved: false, ...more, fields, pending }
      views.page(ctx, 'profile', data, data.wrong.length ? 400 : 200)
    }

    async function submit(ctx: Context, { form, ...user }: Submitted) {
      const { id } = user.account
      const textOf = (field: Field) => form.value(field).trim()
      const changes = fieldsOf(user.account).filter(
        field => textOf(field) !== (user.account[field] ?? ''),
      )
      const name = profileSchema.shape.name.safeParse(textOf('name') || undefined)
      const email = readAddress(textOf('email'))
      const wrong = changes.filter(field => (field === 'name' ? name.error : !email))
      if (wrong.length) return show(ctx, user, form, { wrong })
      const pending = changes.includes('email') ? email : undefined
      if (pending) {
        await countForm(ctx, records, [`addresses of ${id}`, OF_ACCOUNT])
        const mail = {
          id: randomUUID(),
          account: id,
          address: pending,
          lang: views.words(ctx).lang,
        }
        await mailQueue(records).enqueue(mail)
        note(ctx, 'email_change_requested', { account: id })
      }
      const rename = (current: Account) => ({ ...current, name: name.data })
      const saved = changes.includes('name') && (await directory.change(id, rename))
      if (saved) note(ctx, 'name_changed', { account: id })
      const account = saved || user.account
      await show(ctx, { ...user, account }, undefined, { pending, isSaved: Boolean(saved) })
    }
    return { show, submit }
  }

  return {
    areas: [{ path: PROFILE_PAGE, icon: 'pen', label: t => t('profile.title'), isFor }],
    addPages(pages, site) {
      const { show, submit } = pageOf(site)
      pages.get(PROFILE_PAGE, site.signedIn(show, RECENT_SECONDS))
      pages.post(PROFILE_PAGE, site.submitted(submit, RECENT_SECONDS))
    },
  }
}

/** Returns the page of a link that confirms an address. It works without a sign-in. */
export function confirmAddressPage({ views, records, settings }: Site, links: Links) {
  const show = (ctx: Context, { link: { email = '' } }: FoundLink, isDone = false) =>
    views.page(ctx, 'confirm-address', { email, isDone })
  return {
    show,
    async submit(ctx: Context, found: FoundLink) {
      const before = await links.confirm(found)
      if (!before) return false
      note(ctx, 'email_changed', { account: before.id })
      // The notice goes to the former address, which the audit log does not have.
      const change = { event: 'account_changed', account: before.id, formerEmail: before.email }
      await queueNotice(settings, records, [change], views.words(ctx).lang)
      show(ctx, found, true)
    },
  }
}
