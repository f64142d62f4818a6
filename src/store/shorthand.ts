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
const anyPhrase = new RegExp(PHRASES.map(literal).join('|'), 'g')

export function shorten(value: object): string {
  return JSON.stringify(value).replaceAll(anyPhrase, phrase => codes.get(phrase) ?? phrase)
}

export function lengthen<T>(text: string): T {
  let json = ''
  let done = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code >= PHRASES.length) continue
    json += text.slice(done, i) + PHRASES[code]
    done = i + 1
  }
  return JSON.parse(json + text.slice(done)) as T
}
