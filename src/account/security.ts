// The security page of the account: the password, and what features add to it:
// passkeys, apps, recovery codes, and sign-in methods. All of its forms are one.

import type { Context } from 'koa'
import type { Form } from '../operation/forms.ts'
import { type PageData, PLACES } from '../pages/page-data.ts'
import type { Words } from '../pages/words.ts'
import type { Account } from '../sign-in/account.ts'
import type { SignedIn, Site, Submitted } from '../sign-in/site.ts'
import type { Pages } from './page-feature.ts'
import { elsewhereOf } from './sessions.ts'

declare module '../pages/page-data.ts' {
  interface PageData {
    security: {
      verdict: Verdict
      /** Absent: the account has no password here. */
      password?: { changed?: When }
      /** Absent: second factors and passkeys are off. */
      factors?: FactorsSection
      /** Absent: there are no upstream issuers. */
      methods?: MethodsSection
      /** The result of the last change; `isWrong`: nothing was changed. */
      outcome?: Outcome
      /**
       * The other browsers with a session, after a change of the factors (ASVS
       * 5.0 7.4.3).
       */
      elsewhere?: Elsewhere
    }
  }
}

/**
 * The other browsers with a session, as text, and the path that ends them.
 */
export type Elsewhere = NonNullable<Awaited<ReturnType<typeof elsewhereOf>>>

/** The result of a change, as text. `isWrong`: nothing was changed. */
export interface Outcome {
  text: string
  isWrong?: boolean
}

/** The factors of an account on the page. */
export interface FactorsSection {
  /** Absent: they are off. */
  passkeys?: ShownFactor[]
  /** Absent: they are off. */
  apps?: ShownFactor[]
  /**
   * The passkeys that are valid, for `signalAllAcceptedCredentials`, as JSON;
   * absent if they are off.
   */
  accepted?: string
  /** The last factor of an account that needs one: it cannot be removed. */
  isLast: boolean
  /** How many recovery codes are left, as text. Absent without a factor. */
  left?: string
}

/** A passkey or an app on the page. */
export interface ShownFactor {
  id: string
  name: string
  /** When it was added. */
  created: string
  /** When and where it was used, as text. */
  used?: string
}

/** The sign-in methods of an account on the page. */
export interface MethodsSection {
  /** The upstream issuers, each with the text of its button. */
  methods: { name: string; label: string; logo?: string; isLinked: boolean }[]
  /** The account has one link and no password: the link cannot be removed. */
  isLast: boolean
}

/** How an account is protected. */
export interface Protection {
  hasPassword: boolean
  /** Absent: passkeys, or apps, are off. */
  passkeys?: number
  apps?: number
  recoveryCodes: number
  /** Whether the password alone is enough for a sign-in, whatever there is. */
  isPasswordEnough: boolean
}

/** How the factors protect an account, for the overview. */
export type FactorProtection = Omit<Protection, 'hasPassword'>

/** A feature with a part of the page. */
interface SecurityPart<Section> {
  section(ctx: Context, user: SignedIn): Promise<Section>
  /** The result of the last change, if it was one of this part. */
  outcomeOf(ctx: Context): Outcome | undefined
  /** Makes the change of a form. False if the form is not of this part. */
  submit(ctx: Context, user: Submitted): Promise<boolean>
}

/** The sign-in methods, for the account pages. */
export type MethodsOfAccount = SecurityPart<MethodsSection>

/** The second factors, for the account pages. */
export interface FactorsOfAccount extends SecurityPart<FactorsSection> {
  /**
   * Whether the request is for the page that adds a factor, or asks before one
   * is removed.
   */
  isChange(ctx: Context): boolean
  showChange(ctx: Context, user: SignedIn): Promise<void>
  /** Whether the request is for the page that names a factor. */
  isName(ctx: Context): boolean
  showName(ctx: Context, user: SignedIn): Promise<void>
  /** Whether a form names a factor: this needs no proof. */
  isNaming(form: Form): boolean
  /** How the factors protect an account. */
  protectionOf(account: Account): Promise<FactorProtection>
}

/** Whether the protection of an account is enough, as text. */
export interface Verdict {
  text: string
  isEnough: boolean
}

/** The verdicts that ask the user to do something. */
const NOT_ENOUGH = ['no_factor', 'no_codes']

/** Returns how an account is protected, by what is on. */
export async function protectionOf(
  account: Account,
  factors?: FactorsOfAccount,
): Promise<Protection> {
  const own = await factors?.protectionOf(account)
  return {
    hasPassword: account.password !== undefined,
    recoveryCodes: 0,
    isPasswordEnough: false,
    ...own,
  }
}

/**
 * Returns whether the protection of an account is enough: the end of the key of
 * a text, `security.VERDICT`.
 */
export function verdictOf(protection: Protection) {
  const { passkeys, apps, hasPassword, recoveryCodes } = protection
  if (!hasPassword) return passkeys ? 'enough' : 'elsewhere'
  if (passkeys === undefined && apps === undefined) return 'password_only'
  if (!passkeys && !apps) return 'no_factor'
  if (protection.isPasswordEnough) return 'passkey_beside'
  return recoveryCodes ? 'enough' : 'no_codes'
}

/** Returns whether the protection of an account is enough, as text. */
export function shownVerdict({ t }: Words, protection: Protection): Verdict {
  const verdict = verdictOf(protection)
  return {
    text: t(`security.${verdict}`),
    isEnough: !NOT_ENOUGH.includes(verdict),
  }
}

/** Adds the security page to a router. */
export function addSecurityPage(
  pages: Pages,
  site: Site,
  factors?: FactorsOfAccount,
  methods?: MethodsOfAccount,
) {
  const { views } = site

  async function showAll(ctx: Context, user: SignedIn) {
    const { password, password_changed } = user.account
    const words = views.words(ctx)
    const changed =
      password_changed === undefined ? undefined : words.date(password_changed)
    const ofFactors = factors?.outcomeOf(ctx)
    const data: PageData['security'] = {
      verdict: shownVerdict(words, await protectionOf(user.account, factors)),
      password: password === undefined ? undefined : { changed },
      factors: await factors?.section(ctx, user),
      methods: await methods?.section(ctx, user),
      outcome: ofFactors ?? methods?.outcomeOf(ctx),
      elsewhere:
        ofFactors &&
        (await elsewhereOf(ctx, site, user.account.id, user.session.uid)),
    }
    views.page(ctx, 'security', data)
  }

  async function submit(ctx: Context, user: Submitted) {
    if (await factors?.submit(ctx, user)) return
    if (await methods?.submit(ctx, user)) return
    ctx.redirect(PLACES.security)
  }

  const showChange =
    factors && site.changing('second_factor_added', factors.showChange)
  const showList = site.signedIn((ctx, user) =>
    factors?.isName(ctx) ? factors.showName(ctx, user) : showAll(ctx, user),
  )
  pages.get(PLACES.security, ctx =>
    showChange && factors?.isChange(ctx) ? showChange(ctx) : showList(ctx),
  )
  // Without these parts, the page has no form. All changes need the same proof.
  if (!factors && !methods) return
  const needsProof = (form: Form) => !factors?.isNaming(form)
  pages.post(
    PLACES.security,
    site.changing('second_factor_added', submit, needsProof),
  )
}
