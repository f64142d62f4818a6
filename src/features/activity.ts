// Recent activity of the account: the page with sign-ins, failed ones and changes, and the notice about a
// sign-in with a browser or in a network that the account did not have before.

import { ACCOUNT_CLIENT } from '../config/schema/client.ts'
import { type ClientInfo, clientInfoOf } from '../http/client-info.ts'
import { PLACES } from '../pages/page-data.ts'
import type { PageFeature } from '../pages/routes.ts'
import { nameOf } from '../pages/sessions.ts'
import type { Views } from '../pages/views.ts'
import { type Activity, recentActivity } from '../state/activity.ts'
import type { Records } from '../storage/records.ts'
import { now } from '../storage/store.ts'

declare module '../pages/page-data.ts' {
  interface PageData {
    /** `event`: the end of the key of its text. */
    activity: {
      entries: (Pick<Activity, 'event' | 'count'> &
        Partial<Record<'client' | 'browser' | 'network', string>> & { at: When })[]
    }
  }
}

/** A new sign-in is a notice for this time. */
const NEW_SECONDS = 7 * 24 * 3600
const keyOf = ({ network, browser, system }: Partial<ClientInfo> = {}) =>
  JSON.stringify([network, browser, system])

/** Returns the feature recent activity. */
export function activity(records: Records, views: Views): PageFeature {
  return {
    areas: [{ path: PLACES.activity, icon: 'clock', label: t => t('account.nav_activity') }],

    async notices(words, { account }, ctx) {
      const all = await recentActivity(records, account.id)
      const signIns = all.filter(({ event }) => event === 'sign_in_succeeded')
      const keys = signIns.map(({ clientInfo }) => keyOf(clientInfo))
      const isNew = (key: string, i: number) => i + 1 < keys.length && !keys.includes(key, i + 1)
      const here = keyOf(clientInfoOf(ctx))
      const found = signIns[keys.findIndex((key, i) => isNew(key, i) && key !== here)]
      if (!found?.clientInfo || found.at < now() - NEW_SECONDS) return []
      const place = `${nameOf(words, found.clientInfo)}, ${found.clientInfo.network}`
      const text = words.t('activity.new_sign_in', { place, time: words.ago(found.at).words })
      return [{ icon: 'alert', text, path: PLACES.activity }]
    },

    addPages(pages, { signedIn }) {
      const show = signedIn(async (ctx, { account }) => {
        const words = views.words(ctx)
        const all = await recentActivity(records, account.id)
        const entries = all.map(async ({ at, clientInfo, client_id: id, ...entry }) => ({
          ...entry,
          client: id && id !== ACCOUNT_CLIENT ? await views.nameOf(ctx, id) : undefined,
          browser: clientInfo && nameOf(words, clientInfo),
          network: clientInfo?.network,
          at: words.ago(at),
        }))
        views.page(ctx, 'activity', { entries: await Promise.all(entries) })
      })
      pages.get(PLACES.activity, show)
    },
  }
}
