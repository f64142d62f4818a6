// The one application that asks, and what is the same for all that it asks. Nothing of Usher's is
// imported here: the bare library is to be without what Usher does to it.

export const CLIENT = {
  client_id: 'web',
  client_name: 'Web application',
  redirect_uris: ['https://app.example.org/callback'],
  post_logout_redirect_uris: ['https://app.example.org/bye'],
  grant_types: ['authorization_code', 'refresh_token', 'client_credentials'],
}

export const SECRET = 'a-secret-of-at-least-thirty-two-characters'

export const ONLINE = 'openid profile email'
export const OFFLINE = `${ONLINE} offline_access`

/** Seconds that tokens live: longer than anything is measured. */
export const LIFETIME = 3600
