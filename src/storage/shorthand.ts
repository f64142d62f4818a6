// JSON in half its length. What stands in most records is written as one character that JSON has no
// use for: it escapes those below the space.

/** Each is what its place says, in every store there is: only what comes after the last is free. */
const PHRASES = [
  '"acr":"urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport"',
  '"codeChallengeMethod":"S256"',
  '"gty":"authorization_code"',
  '"redirectUri":"https://',
  '"client_id":"',
  '"lastUsed":',
  '"scopes":["openid"',
  '"persistsLogout":true',
  '"accountId":"usr_',
  '"codeChallenge":"',
  '"authorizations":{',
  '"visitor":{"network":"',
  '"kind":"Session"',
  '"sessionUid":"',
  '"amr":["pwd"]',
  '"kind":"Grant"',
  'offline_access',
  '"clientId":"',
  '"generation":',
  '"rotations":',
  '"grantId":"',
  '"payload":{',
  '"authTime":',
  '"loginTs":',
  '"scope":"',
  '"nonce":"',
  '"openid ',
  'profile',
  '"since":',
  '"jti":"',
  '"iat":',
  '"exp":',
]

const codes = new Map(PHRASES.map((phrase, i) => [phrase, String.fromCharCode(i)]))
const literal = (text: string) => text.replaceAll(/[[{.]/g, '\\$&')
const anyCode = new RegExp(`[${[...codes.values()].join('')}]`, 'g')
const anyPhrase = new RegExp(PHRASES.map(literal).join('|'), 'g')

export const shorten = (json: string): string =>
  json.replaceAll(anyPhrase, phrase => codes.get(phrase) ?? phrase)

export const lengthen = (text: string): string =>
  text.replaceAll(anyCode, code => PHRASES[code.charCodeAt(0)] ?? code)
