// The client of the bench. This file imports nothing from Usher, because the library alone must run without
// Usher's changes of it.

export const CLIENT = {
  client_id: 'web',
  client_name: 'Web application',
  redirect_uris: ['https://app.example.org/callback'],
  grant_types: ['authorization_code', 'refresh_token', 'client_credentials'],
}

export const SECRET = 'a-secret-of-at-least-thirty-two-characters'

export const ONLINE = 'openid profile email'
export const OFFLINE = `${ONLINE} offline_access`

/** The lifetime of tokens: longer than a measurement. */
export const LIFETIME_SECONDS = 3600
