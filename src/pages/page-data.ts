// What each template knows as `it`, besides the words: what pages give, what samples show, and what an
// operator's template in the place of ours can rely on.

import type { Settings } from '../config/load.ts'
import type { Asset } from './assets.ts'
import type { Translate } from './words.ts'

/** On every page; `layout` has the title and the `body` of the page as well. */
export interface Shared {
  /** Words by their key, with values for their places: `it.t('sign_in.to_continue', { client })`. */
  t: Translate
  /** The same as HTML with the values in bold, to be printed as it is: `<%~ it.strong(…) %>`. */
  strong: Translate
  lang: string
  dir: 'ltr' | 'rtl'
  /** `branding.name` */
  brand: string
  /** The account navigation; a page of it says with `area` which entry is current. */
  areas: Area[]
  /** The first letters of the first and the last word of a name, at most two. */
  initials(name: string): string
  links: Settings['branding']['links']
  /** `clientLogo` and `clientTheme`: on the sign-in and consent pages of a client with `branding`. */
  assets: Record<'stylesheet' | 'submit' | 'reveal' | 'icon', Asset> &
    Partial<Record<'theme' | 'logo' | 'logoDark' | 'clientLogo' | 'clientTheme', Asset>>
}

/** A time, for programs and for people. */
interface When {
  iso: string
  words: string
}

interface Client {
  client_name?: string
  client_uri?: string
}

/** Paths of the account pages and of the page for a user code. A sign-in may return to these only. */
export const PLACES = {
  home: '/account',
  applications: '/account/applications',
  removal: '/account/applications/remove',
  sessions: '/account/sessions',
  end: '/account/sessions/end',
  endOthers: '/account/sessions/end-others',
  password: '/account/password',
  requests: '/account/requests',
  answer: '/account/requests/answer',
  device: '/device',
}
type Places = Pick<
  typeof PLACES,
  'home' | 'applications' | 'sessions' | 'endOthers' | 'password' | 'requests'
>

/** A page of the account navigation, with an icon of icon.eta. */
export interface Area {
  path: string
  icon: string
}

/** Authorization details in words: a sentence with the values in it, and what it does not say. */
export interface DetailInWords {
  sentence: { text: string; isValue: boolean }[]
  facts: { label: string; value: string }[]
  /** The API. */
  at: string
}

/** By the name of the template. `person` is the username of who is signed in. */
export interface PageData {
  account: {
    person: string
    name?: string
    facts: { label: string; value?: string }[]
    places: Places
    /** Says how many applications wait for an answer; absent: none does. */
    waiting?: string
    /** Not where passwords are kept elsewhere. */
    canChangePassword: boolean
    signOut: string
  }
  applications: {
    person: string
    applications: {
      name: string
      client_uri?: string
      host?: string
      /** Whether there is still such a client. */
      registered: boolean
      /** It registered itself, and nobody has looked at what it says. */
      isUnchecked: boolean
      /** People are not asked for it. */
      implicit: boolean
      scopes: { words: string; icon: string }[]
      /** Allowed one by one, the last one first. */
      details: (DetailInWords & { since: When })[]
      since: When
      lastUsed: When
      inUse: string
      /** Where its access can be removed. */
      removal: string
    }[]
    places: Places
    /** The name of the application that was removed just now. */
    removed?: string
  }
  /** Before access is removed, or a browser signed out. */
  confirm: {
    person: string
    csrf: string
    title: string
    /** What will happen, a sentence each. */
    effects: string[]
    /** What will not, and where that can be ended. */
    kept?: string
    applications?: string
    confirm: string
    back: string
  }
  consent: {
    csrf: string
    /** `isUnchecked`: nobody has checked what it says of itself, such as its name. */
    client: { client_name: string; policy_uri?: string; tos_uri?: string; isUnchecked: boolean }
    /** Where the person is sent next; a device waits elsewhere. */
    host?: string
    /** The device that asks: the code it shows, and the network it is in. */
    device?: { code: string; network: string }
    /** Of an application that asks from elsewhere. */
    request?: { message?: string; since: When; until: When }
    person?: string
    scopes: {
      name: string
      words: string
      icon: string
      required: boolean
      checked: boolean
      note?: string
    }[]
    /** Asked for this once, to be allowed or refused as a whole. */
    details: DetailInWords[]
    /** How long the access lasts, where no scope says so. */
    lifetime?: string
    /** They removed the application while the page was open. */
    withdrawn: boolean
  }
  device: {
    person: string
    xsrf: string
    /** As it was entered, or came with the address. */
    user_code: string
    /** What is wrong with it. */
    problem?: string
  }
  'device-done': { title: string; text: string; again: boolean }
  error: {
    title: string
    text: string
    error: string
    description?: string
    errorUri: string
    requestId: string
    account: string
    client?: Client
    /** Whether it makes sense to try the same again. */
    again: boolean
  }
  errors: { codes: string[] }
  'hand-over': { action: string; fields: Record<string, unknown> }
  navigate: { url: string }
  password: {
    person: string
    csrf: string
    /** What is wrong with what was typed, by field. */
    problems: { current?: string; password?: string; repeat?: string }
    back: string
  }
  'password-changed': { person: string; places: Places }
  requests: {
    person: string
    requests: { name: string; message?: string; since: When; until: When; answer: string }[]
    places: Places
    /** What happened just now. */
    done?: string
  }
  sessions: {
    person: string
    browsers: {
      name: string
      isPhone: boolean
      since: When
      lastUsed: When
      /** Names of the applications that were signed in to there. */
      clients: string[]
      /** Where it can be signed out. */
      end: string
      isHere: boolean
    }[]
    places: Places
    signOut: string
    /** What happened just now. */
    done?: string
  }
  'select-account': {
    csrf: string
    client: string
    /** The username of who is signed in; absent: nobody any more. */
    person?: string
    name?: string
  }
  'sign-in': {
    csrf: string
    client: string
    /** The host that an application is at which nobody has checked; absent for any other. */
    uncheckedHost?: string
    username: string
    /** They are signed in, and are asked for the password again. */
    again: boolean
    /** The request id of a failed sign-in: `usher config explain` gives its reason. */
    failed?: string
  }
  'sign-out': { action: string; xsrf: string; client?: string }
  'signed-out': { client?: Client; stayed: boolean }
}
