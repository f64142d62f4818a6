// Data of the templates, which read it as `it`. An operator's template in place
// of Usher's gets the same.

import type { Settings } from '../config/load.ts'
import type { ClientMetadata } from '../config/schema/client.ts'
import type { Comparison } from '../operation/failures.ts'
import type { Asset } from './assets.ts'
import type { Translate, Words } from './words.ts'

/** The signed-in account, as far as every page looks at it. */
export interface PageUser {
  id: string
  username: string
  name?: string
  /** Absent: the account has no password sign-in. */
  password?: string
  attributes: Record<string, unknown>
}

/** An entry of the account navigation. */
export interface Area {
  path: string
  /** A name in icon.eta. */
  icon: string
  label(t: Translate): string
  /** Whether this user has the page. By default every user has it. */
  isFor?(account: PageUser): boolean
}

/**
 * Data of every page. `layout` also has the title and the `body` of the page.
 */
export interface Shared {
  /**
   * Returns the text of a key, with values for its placeholders:
   * `it.t('sign_in.to_continue', { client })`.
   */
  t: Translate
  /** Like `t`, as HTML with the values in bold: `<%~ it.strong(…) %>`. */
  strong: Translate
  lang: string
  dir: 'ltr' | 'rtl'
  /** `branding.name` */
  brand: string
  /** The account navigation. A page gives the path of its entry as `area`. */
  areas: Area[]
  /** The number of requests that wait for the answer of the user. */
  waiting: number
  places: typeof PLACES
  /** Path of the sign-out page. */
  signOut: string
  /** The token of the page's form. Forms of the library have `xsrf`. */
  csrf?: string
  /**
   * The signed-in user. Present on account pages; on others if a user is signed
   * in.
   */
  user?: { username: string; name?: string }
  /**
   * The first letters of the first and the last word of a name, at most two.
   */
  initials(name: string): string
  links: Settings['branding']['links']
  /**
   * `clientLogo` and `clientTheme`: on the sign-in and consent pages of a
   * client with `branding`.
   */
  assets: Record<
    'stylesheet' | 'submit' | 'reveal' | 'menu' | 'copy' | 'passkey' | 'icon',
    Asset
  > &
    Partial<
      Record<
        'theme' | 'logo' | 'logoDark' | 'clientLogo' | 'clientTheme',
        Asset
      >
    >
}

/** A time, as ISO 8601 and as text. */
export type When = ReturnType<Words['date']>
type Client = Pick<ClientMetadata, 'client_name' | 'client_uri'>

/** An entry of the activity, as text. */
export interface ShownActivity {
  /** The audit event. */
  event: string
  /** The event, as a sentence. */
  text: string
  /** The attempts, the application, the browser and the network. */
  facts: string[]
  at: When
}

/**
 * How a list shows a client: its logo, or the first letter of its name in a
 * colour that stays the same.
 */
export interface Mark {
  logo?: string
  initial: string
  /** The number of the colour: `tint-N` in the stylesheet. */
  tint: number
}

/**
 * Paths of the account pages and of the page for a user code. A sign-in may
 * return to these only.
 */
export const PLACES = {
  home: '/account',
  profile: '/account/profile',
  security: '/account/security',
  applications: '/account/applications',
  removal: '/account/applications/remove',
  sessions: '/account/sessions',
  activity: '/account/activity',
  end: '/account/sessions/end',
  password: '/account/password',
  requests: '/account/requests',
  answer: '/account/requests/answer',
  /** Former addresses of parts of the security page. */
  factors: '/account/factors',
  signIns: '/account/sign-ins',
  device: '/device',
  confirmAddress: '/account/confirm-address',
  forgot: '/forgot-password',
}

/**
 * Authorization details as text: a sentence with values, and the fields that it
 * does not contain.
 */
export interface DetailInWords {
  sentence: { text: string; isValue: boolean }[]
  facts: { label: string; value: string }[]
  /** The API. */
  at: string
}

/** A session as text. */
export interface SessionInWords {
  name: string
  network?: string
  isPhone: boolean
  since: When
  lastUsed: When
  /** Names of the applications that the user signed in to there. */
  clients: string[]
  /** Path of the page that signs it out. */
  end: string
}

/** Data of each page, by the name of the template. */
export interface PageData {
  applications: {
    applications: {
      name: string
      mark: Mark
      client_uri?: string
      host?: string
      /** Whether the client still exists. */
      registered: boolean
      /** The client registered itself, and its metadata is unverified. */
      isUnchecked: boolean
      /** Users are not asked for consent. */
      implicit: boolean
      scopes: { words: string; icon: string }[]
      /** Allowed authorization details, the latest first. */
      details: (DetailInWords & { since: When })[]
      since: When
      lastUsed: When
      /**
       * The clients that act for the user through this one, as text; empty
       * without any.
       */
      actors: string
      inUse: string
      /** Path of the page that removes its access. */
      removal: string
    }[]
    /** Name of the application that was just removed. */
    removed?: string
  }
  /**
   * The question before access or a factor is removed, or a browser is signed
   * out.
   */
  confirm: {
    title: string
    /** Effects of the change, a sentence each. */
    effects: string[]
    /** Whether the account is protected well enough afterwards, as text. */
    verdict?: { text: string; isEnough: boolean }
    /** Access that stays, and ends on the page of the applications. */
    kept?: string
    confirm: string
    back: string
  }
  consent: {
    /**
     * `isUnchecked`: the client registered itself, and its metadata is
     * unverified.
     */
    client: {
      client_name: string
      policy_uri?: string
      tos_uri?: string
      isUnchecked: boolean
    }
    /**
     * The host of the document of an unchecked client, and whether the client
     * returns to loopback alone.
     */
    unchecked?: { publisher?: string; isLocal: boolean }
    /** The host to which the user returns. Absent for a device. */
    host?: string
    /** The requesting device: its user code and its network. */
    device?: { code: string; network: string }
    /** A CIBA request. */
    request?: { message?: string; since: When; until: When }
    scopes: {
      name: string
      words: string
      icon: string
      required: boolean
      checked: boolean
      note?: string
    }[]
    /** Requested for this authorization, and allowed or denied as a whole. */
    details: DetailInWords[]
    /** The lifetime of the access, as text, if no scope has it in its note. */
    lifetime?: string
    /**
     * The client's access was removed, or its name or hosts changed, while the
     * page was open.
     */
    withdrawn: boolean
  }
  device: {
    xsrf: string
    /** The code that the user entered, or that the URL contains. */
    user_code: string
    /** The problem of the code. */
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
    /** The client to which the page leads back. */
    client?: Client
    /**
     * Whether an application sent the user here. If it is unknown, no button
     * leads elsewhere.
     */
    isOfApplication: boolean
    /** Whether the user can try the same request again. */
    again: boolean
    /** The name of the application that sent the request, if it is known. */
    application?: string
    /**
     * The value that the request sent, and the registered ones: for developers
     * at a loopback issuer.
     */
    comparison?: Comparison
    /** The reason in the log: for developers at a loopback issuer. */
    detail?: string
  }
  errors: { codes: string[] }
  'hand-over': { action: string; fields: Record<string, unknown> }
  navigate: { url: string }
  /** Problems by field. */
  password: {
    problems: { current?: string; password?: string; repeat?: string }
  }
  'password-changed': object
  'new-password': Pick<PageData['password'], 'problems'>
  requests: {
    requests: {
      name: string
      message?: string
      since: When
      until: When
      answer: string
    }[]
    /** The result of the last change. */
    done?: string
  }
  sessions: {
    /** This browser. */
    here?: SessionInWords
    /**
     * The others by browser, system and network: the group used last comes
     * first.
     */
    groups: {
      /** The number of sessions, as text. Absent if there is one. */
      count?: string
      /** Path of the page that signs out all of them. */
      end: string
      /** The session used last comes first. */
      sessions: SessionInWords[]
    }[]
    /** The latest entries of the activity. */
    activity: ShownActivity[]
    /** Path of the page that signs out all other browsers. */
    endOthers: string
    /** The result of the last change. */
    done?: string
  }
  'select-account': { client: string; isAccount?: boolean }
  'sign-in': {
    client: string
    /**
     * Whether the user continues to the account pages. `client` is then their
     * title.
     */
    isAccount?: boolean
    /** Host of a client that registered itself. Absent for any other client. */
    uncheckedHost?: string
    username: string
    /** The user is signed in and has to enter the password again. */
    again: boolean
    /** Whether the sign-in comes before a change of the account. */
    isForChange?: boolean
    /** The client expects another user than the one who is signed in. */
    expectsOther?: boolean
    /** Why the sign-in failed, as text. */
    problem?: string
    /**
     * The request id of a failed sign-in: `usher config explain` gives its
     * reason.
     */
    failed?: string
    /**
     * Whether the username or the password was wrong: their fields are marked.
     */
    passwordFailed?: boolean
    /**
     * A password was wrong, and no page leads to a new one: users have to ask
     * the administrators.
     */
    mustAsk?: boolean
    /** Whether the user can sign in with a password here. */
    hasPassword: boolean
    /** Whether the user can create an account. */
    canSignUp?: boolean
    /** Whether the user can enter an e-mail address instead of the username. */
    byEmail: boolean
    /**
     * The options of `navigator.credentials.get`, and a passkey that no account
     * has, as JSON.
     */
    passkey?: { options: string; unknown?: string }
    /** The other methods, each with the text of its button. */
    methods: { name: string; label: string; logo?: string }[]
  }
  'sign-out': {
    action: string
    xsrf: string
    client?: string
    /** Whether the client sent an ID token of this user (`id_token_hint`). */
    isHinted?: boolean
    /** The host of the upstream issuer at which the user can sign out, too. */
    upstream?: string
  }
  'signed-out': { client?: Client; stayed: boolean }
}
