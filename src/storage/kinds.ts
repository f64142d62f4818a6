// Every kind of record, as KIND:TYPE, where TYPE is that of its value; and whether a backup has it. A test
// finds kinds that src writes and that are missing here.

import { namesIn } from '../config/schema/values.ts'

/** Kinds that are safe to restore at a later time. */
const IN_BACKUP = namesIn(
  'Account:Account Client:Kept Consent:Consent Factors:Factors Link:Claim Outside:Outside',
  'RegistrationAccessToken:Payload Subject:{id} Username:Claim',
)
/**
 * Kinds that a backup leaves out. An old copy would make a used code or invitation, an ended session, a
 * rotated token or a retired key valid again, or repeat a notification. A new kind belongs here, until it is
 * known to be safe.
 */
const NOT_IN_BACKUP = namesIn(
  'AccessRequests:AccessRequest[] AccessToken:Payload AccountLink:AccountLink Activity:Activity[]',
  'Attempts:Count AuthorizationCode:Payload',
  'BackchannelAuthenticationRequest:Payload ClientCredentials:Payload DeviceCode:Payload',
  'Failure:FailedRequest ForgotPause:{at} Grant:GrantRecord InitialAccessToken:Invitation Interaction:Payload Mail:Mail',
  'OperatorEvent:Kept OutsideName:{id} Ping:Ping Probe:{} PushedAuthorizationRequest:Payload',
  'RefreshToken:Family ReplayDetection:{} Session:SessionRecord SessionCookie:Pointer',
  'SigningKeys:Schedule SignOut:SignOut UpstreamLogout:{} UpstreamRequest:UpstreamRequest',
  'UpstreamSession:UpstreamSession UserCode:{id}',
)
const typesOf = (pairs: string[]) =>
  new Map(pairs.map(pair => pair.split(':')).map(([kind = '', type = '']) => [kind, type]))

/** The kinds that a backup has, with the types of their values. */
export const BACKUP_KINDS = typesOf(IN_BACKUP)
/** All kinds, with the types of their values. */
export const KINDS = typesOf([...IN_BACKUP, ...NOT_IN_BACKUP])
