// Every kind of record: the type of its value, and whether a backup has it. A test finds kinds that src
// writes and that are missing here.

/**
 * A backup has only kinds that are safe to restore at a later time. An old copy of the others would make a
 * used code or invitation, an ended session, a rotated token or a retired key valid again, or repeat a
 * notification.
 */
export const KINDS = {
  AccessRequests: { type: 'AccessRequest[]', inBackup: false },
  AccessToken: { type: 'Payload', inBackup: false },
  Account: { type: 'Account', inBackup: true },
  Attempts: { type: 'Count', inBackup: false },
  AuthorizationCode: { type: 'Payload', inBackup: false },
  BackchannelAuthenticationRequest: { type: 'Payload', inBackup: false },
  Client: { type: 'Kept', inBackup: true },
  ClientCredentials: { type: 'Payload', inBackup: false },
  Consent: { type: 'Consent', inBackup: true },
  DeviceCode: { type: 'Payload', inBackup: false },
  Failure: { type: 'FailedRequest', inBackup: false },
  Grant: { type: 'GrantRecord', inBackup: false },
  InitialAccessToken: { type: 'Invitation', inBackup: false },
  Interaction: { type: 'Payload', inBackup: false },
  Link: { type: 'Claim', inBackup: true },
  OperatorEvent: { type: 'Kept', inBackup: false },
  Outside: { type: 'Outside', inBackup: true },
  OutsideName: { type: '{ id }', inBackup: false },
  Ping: { type: 'Ping', inBackup: false },
  Probe: { type: '{}', inBackup: false },
  PushedAuthorizationRequest: { type: 'Payload', inBackup: false },
  RefreshToken: { type: 'Family', inBackup: false },
  RegistrationAccessToken: { type: 'Payload', inBackup: true },
  ReplayDetection: { type: '{}', inBackup: false },
  Session: { type: 'SessionRecord', inBackup: false },
  SessionCookie: { type: 'Pointer', inBackup: false },
  SigningKeys: { type: 'Schedule', inBackup: false },
  SignOut: { type: 'SignOut', inBackup: false },
  Subject: { type: '{ id }', inBackup: true },
  UpstreamLogout: { type: '{}', inBackup: false },
  UpstreamRequest: { type: 'UpstreamRequest', inBackup: false },
  UpstreamSession: { type: 'UpstreamSession', inBackup: false },
  UserCode: { type: '{ id }', inBackup: false },
  Username: { type: 'Claim', inBackup: true },
} as const

/** The kinds that a backup has. */
export const BACKUP_KINDS = Object.entries(KINDS).flatMap(([kind, { inBackup }]) =>
  inBackup ? [kind] : [],
)
