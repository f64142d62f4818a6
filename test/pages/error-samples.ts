// The error page in every state.

import { PLACES } from '../../src/pages/page-data.ts'
import { state } from './sample.ts'

const WIKI = { client_name: 'Wiki', client_uri: 'https://wiki.example.org/' }

const WRONG_URI = {
  parameter: 'redirect_uri',
  sent: 'http://localhost:3001/callback',
  registered: ['http://localhost:3001/auth/callback', 'https://wiki.example.org/auth/callback'],
}

/** The error codes, and the keys of their texts. */
// biome-ignore format: a table
const ERRORS = [
  { name: 'error-request',     error: 'invalid_request',         title: 'title',       text: 'request_text', isOfApplication: true, description: 'there is no client with this client_id' },
  { name: 'error-developer',   error: 'invalid_redirect_uri',    title: 'title',       text: 'request_text', isOfApplication: true, description: 'redirect_uri must be registered', application: 'Wiki', comparison: WRONG_URI, detail: 'redirect_uri did not match' },
  { name: 'error-application',   error: 'invalid_redirect_uri',    title: 'title',       text: 'request_text', isOfApplication: true, application: 'Wiki' },
  { name: 'error-form',        error: 'access_denied',           title: 'form',        text: 'form_text' },
  { name: 'error-denied',      error: 'access_denied',           title: 'denied',      text: 'denied_text' },
  { name: 'error-expired',     error: 'interaction_gone',        title: 'interaction', text: 'interaction_text', client: WIKI },
  { name: 'error-browser',     error: 'another_browser',         title: 'another_browser', text: 'another_browser_text', client: WIKI },
  { name: 'error-cookie',      error: 'cookie_missing',          title: 'cookie',      text: 'cookie_text', client: WIKI },
  { name: 'error-link',        error: 'link_gone',               title: 'link',        text: 'link_text' },
  { name: 'error-not-found',   error: 'not_found',               title: 'not_found',   text: 'not_found_text' },
  { name: 'error-address',     error: 'misdirected_request',     title: 'misdirected', text: 'request_text' },
  { name: 'error-too-many',    error: 'temporarily_unavailable', title: 'too_many',    text: 'too_many_text' },
  { name: 'error-unavailable', error: 'temporarily_unavailable', title: 'unavailable', text: 'unavailable_text', again: true },
  { name: 'error-server',      error: 'server_error',            title: 'title',       text: 'server_error_text', again: true },
]

export const errorStates = ERRORS.map(
  ({ name, title, text, again = false, isOfApplication = false, ...about }) =>
    state(name, 'error', ({ t }) => ({
      title: t(`error.${title}`),
      text: t(`error.${text}`),
      errorUri: `/errors#${about.error}`,
      requestId: '4kq2v9x0c7ah',
      account: PLACES.home,
      again,
      isOfApplication,
      ...about,
    })),
)
