// Renders pages from templates and texts. Everything that a template prints is escaped; `it.t(key)` is a
// text in the language of the user.

import type { Eta } from 'eta'
import type { Context } from 'koa'
import type { Account } from '../accounts/account.ts'
import type { Settings } from '../config/load.ts'
import { type ClientMetadata, READ_BY_USERS } from '../config/schema/client.ts'
import { allowFormAnywhere } from '../http/edge.ts'
import { reasonOf } from '../storage/store.ts'
import { createAssets } from './assets.ts'
import { type Area, type PageData, PLACES, type Shared, type User } from './page-data.ts'
import { createTemplates } from './templates.ts'
import { createLanguages, type Translate, type Words } from './words.ts'

declare module 'koa' {
  interface DefaultState {
    /** `ui_locales` of the authorization request: language tags, the preferred first. */
    uiLocales?: string
    words?: Words
    /** The user whom the page names. */
    user?: User
    /** Whether the signed-in account has a password that can be changed here. */
    hasPassword?: boolean
    /** The client whose sign-in or consent page this is. */
    clientId?: string
  }
}

/** Settings of the look of all pages. */
export type Look = Pick<
  Settings,
  'branding' | 'pictures' | 'pages' | 'locales' | 'clients' | 'features'
>

/** The account navigation, in order. */
const AREAS: Area[] = [
  { path: PLACES.home, icon: 'home' },
  { path: PLACES.applications, icon: 'applications' },
  { path: PLACES.sessions, icon: 'monitor' },
  { path: PLACES.password, icon: 'key' },
  { path: PLACES.requests, icon: 'bell' },
]
/** Assets of a client with `branding`. */
type ClientLook = Pick<Shared['assets'], 'clientLogo' | 'clientTheme'>

/** Renders the pages. */
export type Views = ReturnType<typeof createViews>

interface Options {
  /** Returns a client that registered itself. Absent: there are none. */
  registered?(id: string): Promise<ClientMetadata | undefined>
}

/** Sets the user whom the page names. Templates get no other field of the account. */
export function setUser(ctx: Context, account?: Account) {
  ctx.state.user = account && { username: account.username, name: account.name }
  ctx.state.hasPassword = account?.password !== undefined
}

interface Appearance {
  areas?: Area[]
  user?: User
  look?: ClientLook
  engine?: Eta
}

/** Returns the renderer of the pages. */
export function createViews(settings: Look, { registered }: Options = {}) {
  const { branding, locales } = settings
  const eta = createTemplates(settings.pages)
  const shipped = createTemplates({})
  const languages = createLanguages(locales)
  const { site, looks } = createAssets(settings)

  /** Languages of the request (`ui_locales`) come before those of the browser. */
  function words(ctx: Context): Words {
    const named = ctx.state.uiLocales ?? String(ctx.query.ui_locales ?? '')
    const choose = () =>
      named.split(' ').map(languages.find).find(Boolean) ??
      languages.find(ctx.acceptsLanguages(languages.tags) || '') ??
      languages.english
    ctx.state.words ??= choose()
    return ctx.state.words
  }

  /** A client of the config folder, with its names in the language of the user. */
  function ownClient(ctx: Context, id: string) {
    const found = settings.clients.find(({ client_id }) => client_id === id)
    return found && { ...clientWords(words(ctx), found), isUnchecked: false }
  }

  /** Any client. `isUnchecked`: it registered itself, and its metadata is unverified. */
  async function client(ctx: Context, id: string) {
    const own = ownClient(ctx, id)
    if (own) return own
    const found = await registered?.(id)
    return found && { ...found, isUnchecked: true }
  }

  /** The name of a client, or its id if the client no longer exists. */
  async function nameOf(ctx: Context, id: string): Promise<string> {
    return (await client(ctx, id))?.client_name ?? id
  }

  /** Returns texts as HTML, with the values in bold. */
  function strongly(t: Translate): Translate {
    return (key, values = {}) => {
      const marked = Object.entries(values).map(([name, value]) => [name, `\x01${value}\x02`])
      const html = eta.config.escapeFunction(t(key, Object.fromEntries(marked)))
      return html.replaceAll('\x01', '<strong>').replaceAll('\x02', '</strong>')
    }
  }

  /** Returns a page as HTML. The template reads `data` and the shared data as `it`. */
  function render<T extends keyof PageData>(
    { t, lang, dir }: Words,
    template: T,
    data: PageData[T],
    { areas = AREAS, user, look, engine = eta }: Appearance = {},
  ) {
    const { name: brand, links } = branding
    const shared: Shared = {
      t,
      strong: strongly(t),
      lang,
      dir,
      brand,
      links,
      assets: { ...site, ...look },
      areas,
      user,
      initials,
    }
    return engine.render(template, { ...shared, ...data })
  }

  /** Answers with a page. */
  function page<T extends keyof PageData>(
    ctx: Context,
    template: T,
    data: PageData[T],
    status = 200,
  ) {
    ctx.status = status
    ctx.type = 'html'
    ctx.set('Cache-Control', 'no-store')
    const absent = [
      ...(ctx.state.hasPassword === false ? [PLACES.password] : []),
      ...(settings.features.ciba ? [] : [PLACES.requests]),
    ]
    const appearance = {
      areas: AREAS.filter(({ path }) => !absent.includes(path)),
      user: ctx.state.user,
      look: looks.get(ctx.state.clientId ?? ''),
    }
    try {
      ctx.body = render(words(ctx), template, data, appearance)
    } catch (error) {
      // A template of the operator that fails must not prevent sign-in.
      ctx.state.log.fault = `pages/${template}.eta: ${reasonOf(error)}`
      ctx.body = render(words(ctx), template, data, { ...appearance, engine: shipped })
    }
    ctx.state.isPage = true
  }

  /**
   * Answers a POST with a small page that navigates on. A redirect would be held against the
   * `form-action` of the page the form was on, at every hop up to the application.
   */
  function navigate(ctx: Context, url: string) {
    page(ctx, 'navigate', { url })
  }

  /** Answers with a form that submits itself, or at a button without JavaScript. */
  function handOver(ctx: Context, action: string, fields: Record<string, unknown>) {
    page(ctx, 'hand-over', { action, fields }, 'error' in fields ? 400 : 200)
  }

  /** Like `handOver`, to a client: `response_mode=form_post`. */
  function formPost(ctx: Context, redirectUri: string, fields: Record<string, unknown>) {
    allowFormAnywhere(ctx)
    handOver(ctx, redirectUri, fields)
  }

  const { english, find } = languages
  return {
    words,
    client,
    ownClient,
    nameOf,
    english,
    find,
    tags: languages.tags,
    /** All static files. */
    assets: [
      ...Object.values(site),
      ...[...looks.values()].flatMap(look => Object.values(look)),
    ].filter(asset => asset !== undefined),
    render,
    page,
    navigate,
    handOver,
    formPost,
  }
}

function initials(name: string): string {
  const words = name.split(' ').filter(Boolean)
  return [words[0], words.length > 1 ? words.at(-1) : '']
    .map(word => [...(word ?? '')][0] ?? '')
    .join('')
    .toUpperCase()
}

/** Returns the client with its names and addresses in this language (RFC 7591 §2.2). */
function clientWords({ pick }: Words, client: ClientMetadata): ClientMetadata {
  const written = Object.entries(client).map(([name, value]) => [name, String(value)])
  const inLanguage = READ_BY_USERS.flatMap(key => {
    const tagged = written.filter(([name = '']) => name.startsWith(`${key}#`))
    const texts = Object.fromEntries(tagged.map(([name = '', text]) => [name.split('#')[1], text]))
    const text = pick(texts)
    return text ? [[key, text]] : []
  })
  return { ...client, ...Object.fromEntries(inLanguage) }
}
