// Renders pages from templates and texts. Everything that a template prints is
// escaped; `it.t(key)` is a text in the language of the user.
//
// The folder pages/: how pages look. Not here: what a form does.
//
//   page-data.ts        the data of a page
//     templates.ts      its template in templates/, or that of the operator
//       words.ts        its texts in locales/, in the language of the user
//         views.ts      the layout around it, and the answer
//           assets.ts   stylesheet, scripts and logos that it links to

import { hash } from 'node:crypto'
import type { Context } from 'koa'
import type { Settings } from '../config/load.ts'
import { type ClientMetadata, READ_BY_USERS } from '../config/schema/client.ts'
import { refusalOf } from '../oidc/clients.ts'
import { routesOf } from '../oidc/endpoints.ts'
import { ACCOUNT_CLIENT } from '../oidc/vocabulary.ts'
import { allowFormAnywhere } from '../operation/edge.ts'
import { reasonOf } from '../store/reasons.ts'
import { type Asset, createAssets } from './assets.ts'
import {
  type Area,
  type Mark,
  type PageData,
  type PageUser,
  PLACES,
  type Shared,
} from './page-data.ts'
import { createTemplates } from './templates.ts'
import { createLanguages, type Translate, type Words } from './words.ts'

declare module 'koa' {
  interface DefaultState {
    /**
     * `ui_locales` of the authorization request: language tags, the preferred
     * first.
     */
    uiLocales?: string
    words?: Words
    /** The token of the form on the page. */
    csrf?: string
    /** The client whose sign-in or consent page this is. */
    clientId?: string
    /** The number of requests that wait for the answer of the user. */
    waiting?: number
  }
}

/**
 * The account navigation of the core, in order. `areasInOrder` adds those of
 * features.
 */
export const AREAS: Area[] = [
  { path: PLACES.home, icon: 'home', label: t => t('account.overview') },
  { path: PLACES.security, icon: 'shield', label: t => t('security.title') },
  { path: PLACES.sessions, icon: 'monitor', label: t => t('sessions.area') },
  {
    path: PLACES.applications,
    icon: 'applications',
    label: t => t('applications.title'),
  },
]

/** The order of the account navigation. */
const MENU = [
  PLACES.home,
  PLACES.profile,
  PLACES.security,
  PLACES.sessions,
  PLACES.applications,
  PLACES.requests,
]

/** Returns entries of the account navigation in the order of the menu. */
export const areasInOrder = (areas: Area[]) =>
  areas.toSorted((a, b) => MENU.indexOf(a.path) - MENU.indexOf(b.path))

/**
 * A client as pages show it. `isUnchecked`: it registered itself, and its
 * metadata is unverified.
 */
type ShownClient = ClientMetadata & { isUnchecked: boolean }

/** Renders the pages. */
export interface Views extends ReturnType<typeof createLanguages> {
  /** Whether there is a page for a forgotten password. */
  canReset: boolean
  /**
   * Languages of the request (`ui_locales`) come before those of the browser.
   */
  words(ctx: Context): Words
  /** Any client. */
  client(ctx: Context, id: string): Promise<ShownClient | undefined>
  /**
   * A client of the config folder, with its names in the language of the user.
   */
  configuredClient(ctx: Context, id: string): ShownClient | undefined
  /**
   * The name of a client, or its id if the client no longer exists. The account
   * pages are a client, too.
   */
  nameOf(ctx: Context, id: string): Promise<string>
  /** The account navigation. */
  areas(): Area[]
  /** The path of the sign-out page. */
  signOut: string
  /** The path of the logo on the button of an upstream. */
  buttonLogo(name: string): string | undefined
  /** The path of the logo of a client; undefined if it has none. */
  logoOf(id: string): string | undefined
  /**
   * The address at which users begin at a client: its home page, or else its
   * sign-in (OIDC Core §4).
   */
  startOf(client: Partial<ClientMetadata>): string | undefined
  /**
   * Returns the applications of the config folder that the user may open, by
   * name.
   */
  launcher(
    ctx: Context,
    account: PageUser,
    connected: string[],
  ): { name: string; url: string; mark: Mark }[]
  /** All static files. */
  assets: Asset[]
  /**
   * Returns a page as HTML. The template reads `data` and the shared data as
   * `it`.
   */
  render<T extends Template>(
    words: Words,
    template: T,
    data: PageData[T],
    shown?: Partial<Shared>,
  ): string
  /** Answers with a page. */
  page<T extends Template>(
    ctx: Context,
    template: T,
    data: PageData[T],
    status?: number,
  ): void
  /**
   * Redirects a GET, and answers a POST with a small page that navigates on.
   * Browsers would apply the `form-action` of the page with the form to a
   * redirect, at every hop up to the application.
   */
  navigate(ctx: Context, url: string): void
  /**
   * Answers with a form that submits itself, or at a button without JavaScript.
   * A URL, not a path, is that of a client (`response_mode=form_post`), which
   * may redirect anywhere.
   */
  handOver(ctx: Context, action: string, fields: Record<string, unknown>): void
}

type Template = keyof PageData
/** Finds a client that registered itself. */
type FindClient = (
  id: string,
  ctx: Context,
) => Promise<ClientMetadata | undefined>

/**
 * Additions of features to all pages. The features are made with the views, so
 * that `app.ts` fills this in later.
 */
export interface PageAdditions {
  /** The account navigation. */
  areas: Area[]
  /** Absent: only clients of the config folder have names. */
  describeClient?: FindClient
}

/** Returns the renderer of the pages. */
export function createViews(
  settings: Settings,
  additions: PageAdditions = { areas: AREAS },
): Views {
  const { name: brand, links: given } = settings.branding
  const { mail, accounts } = settings
  const forgot_password =
    given.forgot_password ??
    (mail && !accounts.module ? PLACES.forgot : undefined)
  const links = { ...given, forgot_password }
  const eta = createTemplates(settings.pages)
  const shipped = createTemplates({})
  const languages = createLanguages(settings.locales)
  const { site, looks, buttons } = createAssets(settings)
  const signOut = routesOf(settings.features).paths.end_session
  const base = {
    brand,
    links,
    assets: site,
    areas: AREAS,
    waiting: 0,
    places: PLACES,
    signOut,
    initials,
  }

  function words(ctx: Context): Words {
    const named = ctx.state.uiLocales ?? String(ctx.query.ui_locales ?? '')
    ctx.state.words ??=
      named.split(' ').map(languages.find).find(Boolean) ??
      languageOfBrowser(ctx)
    return ctx.state.words
  }

  /**
   * The language that the browser prefers. Its dates and numbers are those of
   * the region that the browser names.
   */
  function languageOfBrowser(ctx: Context): Words {
    const accepted = ctx.acceptsLanguages(languages.tags) || ''
    const found = languages.find(accepted) ?? languages.english()
    return languages.inRegionOf(found, ctx.acceptsLanguages())
  }

  function configuredClient(ctx: Context, id: string) {
    const found = settings.clients.find(({ client_id }) => client_id === id)
    return found && { ...clientWords(words(ctx), found), isUnchecked: false }
  }

  async function client(ctx: Context, id: string) {
    const own = configuredClient(ctx, id)
    if (own) return own
    const found = await additions.describeClient?.(id, ctx)
    return found && { ...found, isUnchecked: true }
  }

  function startOf({
    client_uri,
    initiate_login_uri,
  }: Partial<ClientMetadata>) {
    if (client_uri || !initiate_login_uri) return client_uri
    const url = new URL(initiate_login_uri)
    url.searchParams.set('iss', settings.issuer)
    return url.href
  }

  function launcher(ctx: Context, account: PageUser, connected: string[]) {
    const language = words(ctx)
    // A client without `allow` is for everyone: many users never use it.
    const isOwn = ({ client_id, allow }: ClientMetadata) =>
      allow !== undefined || connected.includes(client_id)
    const allowed = settings.clients.filter(
      client => isOwn(client) && !refusalOf(client, account),
    )
    const all = allowed.flatMap(client => {
      const {
        client_id,
        client_name: name,
        ...addresses
      } = clientWords(language, client)
      const url = client.redirect_uris.length ? startOf(addresses) : undefined
      return url
        ? [{ name, url, mark: markOf(client_id, name, logoOf(client_id)) }]
        : []
    })
    return all.toSorted((a, b) => a.name.localeCompare(b.name, language.lang))
  }

  const logoOf = (id: string) => looks.get(id)?.mark?.path

  async function nameOf(ctx: Context, id: string): Promise<string> {
    if (id === ACCOUNT_CLIENT) return words(ctx).t('account.title')
    return (await client(ctx, id))?.client_name ?? id
  }

  /** Returns texts as HTML, with the values in bold. */
  function strongly(t: Translate): Translate {
    return (key, values = {}) => {
      const marked = Object.entries(values).map(([name, value]) => [
        name,
        `\x01${value}\x02`,
      ])
      const html = eta.config.escapeFunction(t(key, Object.fromEntries(marked)))
      return html.replaceAll('\x01', '<strong>').replaceAll('\x02', '</strong>')
    }
  }

  function render<T extends Template>(
    { t, lang, dir }: Words,
    template: T,
    data: PageData[T],
    shown: Partial<Shared> = {},
    engine = eta,
  ) {
    const shared: Shared = {
      ...base,
      t,
      strong: strongly(t),
      lang,
      dir,
      ...shown,
    }
    return engine.render(template, { ...shared, ...data })
  }

  function page<T extends Template>(
    ctx: Context,
    template: T,
    data: PageData[T],
    status = 200,
  ) {
    const { account, csrf, clientId = '', log, waiting = 0 } = ctx.state
    const isOfRequests = ctx.path.startsWith(PLACES.requests)
    ctx.status = status
    ctx.type = 'html'
    ctx.set('Cache-Control', 'no-store')
    const shown = {
      areas: additions.areas.filter(({ path, isFor }) => {
        if (account && isFor?.(account) === false) return false
        // The menu has the requests while one waits, and on their pages.
        return path !== PLACES.requests || waiting > 0 || isOfRequests
      }),
      waiting,
      user: account && { username: account.username, name: account.name },
      csrf,
      assets: { ...site, ...looks.get(clientId) },
    }
    try {
      ctx.body = render(words(ctx), template, data, shown)
    } catch (error) {
      // A template of the operator that fails must not prevent sign-in.
      log.fault = `pages/${template}.eta: ${reasonOf(error)}`
      ctx.body = render(words(ctx), template, data, shown, shipped)
    }
    ctx.state.isPage = true
  }

  function navigate(ctx: Context, url: string) {
    if (ctx.method === 'POST') page(ctx, 'navigate', { url })
    else ctx.redirect(url)
  }

  function handOver(
    ctx: Context,
    action: string,
    fields: Record<string, unknown>,
  ) {
    if (URL.canParse(action)) allowFormAnywhere(ctx)
    page(ctx, 'hand-over', { action, fields }, 'error' in fields ? 400 : 200)
  }

  return {
    ...languages,
    canReset: forgot_password !== undefined,
    words,
    client,
    configuredClient,
    nameOf,
    areas: () => additions.areas,
    signOut,
    buttonLogo: (name: string) => buttons.get(name)?.path,
    logoOf,
    startOf,
    launcher,
    assets: [site, ...looks.values(), Object.fromEntries(buttons)]
      .flatMap(files => Object.values(files))
      .filter(file => file !== undefined),
    render,
    page,
    navigate,
    handOver,
  }
}

function initials(name: string): string {
  const [first, ...others] = name.match(/(?<!\S)\S/gu) ?? []
  return [first, others.at(-1)].join('').toUpperCase()
}

/** The colours of marks: `tint-0` and so on in the stylesheet. */
const TINTS = 8

/**
 * Returns how a list shows a client. `id`: its client_id, which decides the
 * colour.
 */
export function markOf(id: string, name: string, logo?: string): Mark {
  const [initial = ''] = name.trim()
  const [byte = 0] = hash('sha256', id, 'buffer')
  return { logo, initial: initial.toUpperCase(), tint: byte % TINTS }
}

/**
 * Returns the client with its names and addresses in this language (RFC 7591
 * §2.2).
 */
function clientWords({ pick }: Words, client: ClientMetadata): ClientMetadata {
  const inLanguage = READ_BY_USERS.flatMap(key => {
    const tagged = Object.entries(client).filter(([name]) =>
      name.startsWith(`${key}#`),
    )
    const texts = tagged.map(([name, text]) => [
      name.slice(key.length + 1),
      String(text),
    ])
    const text = pick(Object.fromEntries(texts))
    return text ? [[key, text]] : []
  })
  return { ...client, ...Object.fromEntries(inLanguage) }
}
