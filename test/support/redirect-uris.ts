// Mutants of a registered redirect URI: spellings that some URL parser takes for the same address, or for
// an address of the same host.

/** Inserted at every position. */
const INSERTS = [
  '\t',
  '\r\n',
  '\0',
  ' ',
  '\u200b',
  '\uff0e',
  '@',
  '\\',
  '/',
  '//',
  '..',
  '.',
  '/../',
  '%2e%2e',
  '%252e',
  '%2f',
  '%00',
  ';',
  ':',
  '#',
  '?',
  '*',
]

const SUFFIXES = [
  '/',
  '//evil.example',
  '/../callback',
  '/%2e%2e/callback',
  '/..;/callback',
  ';x=1',
  '?',
  '?x=1',
  '&x=1',
  '#',
  '#x',
  '#@evil.example',
  '%23',
  '%0d%0aLocation:%20https://evil.example',
  ' https://evil.example',
  ',https://evil.example',
]

const SCHEMES = ['HTTPS', 'Https', 'http', 'javascript', 'data', 'ftp', 'blob:https', 'view-source']

/** Hosts that resemble 127.0.0.1, [::1] and app.example.org: other spellings, or other owners. */
const HOSTS = [
  'evil.example',
  'app.example.org.',
  'app.example.org.evil.example',
  'evil.app.example.org',
  'appXexample.org',
  'app.example.com',
  'APP.example.org',
  'app.example.org:443',
  'app.example.org:8443',
  'app.example.org:',
  'app.example.org@evil.example',
  'evil.example@app.example.org',
  'evil.example\\@app.example.org',
  'app.example.org\\.evil.example',
  'app.example.org%2eevil.example',
  'app.example.org%00.evil.example',
  'app.ex\u0430mple.org',
  '\uff41\uff50\uff50.example.org',
  'app\u3002example\u3002org',
  'xn--pp-8ia.example.org',
  '0177.0.0.1',
  '2130706433',
  '0x7f000001',
  '127.1',
  '127.0.1',
  '127.0.0.1.',
  '127.0.0.2',
  '0.0.0.0',
  '[::]',
  '[::ffff:127.0.0.1]',
  '[0:0:0:0:0:0:0:1]',
  '[::0:1]',
  '[::1%25lo]',
  'localhost',
  'localhost.',
  'LOCALHOST',
  '\u2460\u2461\u2466.0.0.1',
]

/** Returns at least 400 mutants of every URI, without the URI itself. */
export function mutantsOf(uri: string): string[] {
  const mutants = [
    ...insertions(uri),
    ...characters(uri),
    ...SUFFIXES.map(suffix => uri + suffix),
    ...SCHEMES.map(scheme => uri.replace(/^[^:]+/, scheme)),
    ...HOSTS.map(host => uri.replace(/^([^:]+:\/{1,2})[^/?]*/, `$1${host}`)),
    ...HOSTS.map(host => `https://${host}/callback`),
    ...queries(uri),
    `//${uri.replace(/^[^:]+:\/*/, '')}`,
    `https:${uri}`,
    `https://evil.example/?${uri}`,
    `https://evil.example/#${uri}`,
    encodeURIComponent(uri),
    [...uri].map(character => `%${character.charCodeAt(0).toString(16)}`).join(''),
    uri.toUpperCase(),
    uri.normalize('NFKC').concat('\u0301'),
  ]
  return [...new Set(mutants)].filter(mutant => mutant !== uri)
}

function insertions(uri: string): string[] {
  return INSERTS.flatMap(text =>
    Array.from({ length: uri.length + 1 }, (_, i) => uri.slice(0, i) + text + uri.slice(i)),
  )
}

/** Each character in the other case, removed, doubled, percent-encoded once and twice. */
function characters(uri: string): string[] {
  return [...uri].flatMap((character, i) => {
    const hex = character.charCodeAt(0).toString(16)
    const upper = character.toUpperCase()
    const other = upper === character ? character.toLowerCase() : upper
    return [other, '', character + character, `%${hex}`, `%25${hex}`].map(
      replacement => uri.slice(0, i) + replacement + uri.slice(i + 1),
    )
  })
}

function queries(uri: string): string[] {
  const [path = '', query] = uri.split('?')
  if (query === undefined) return []
  const pairs = query.split('&')
  return [
    path,
    `${path}?`,
    `${path}?${[...pairs].reverse().join('&')}`,
    ...pairs.map(pair => `${path}?${pair}`),
    ...pairs.map(pair => `${path}?${query}&${pair}`),
    `${path}?${query.replaceAll('&', ';')}`,
    `${path}?${query.replaceAll('&', '&amp;')}`,
    `${path}?${query.replaceAll('=', '%3d')}`,
  ]
}
