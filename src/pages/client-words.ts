// A client as people know it: what its file says in their language goes before what it says otherwise.

import { type ClientMetadata, READ_BY_PEOPLE } from '../config/schema/client.ts'
import type { Words } from './words.ts'

export function clientWords({ pick }: Words, client: ClientMetadata): ClientMetadata {
  const written = Object.entries(client).map(([name, value]) => [name, String(value)])
  const inLanguage = READ_BY_PEOPLE.flatMap(key => {
    const tagged = written.filter(([name = '']) => name.startsWith(`${key}#`))
    const texts = Object.fromEntries(tagged.map(([name = '', text]) => [name.split('#')[1], text]))
    const text = pick(texts)
    return text ? [[key, text]] : []
  })
  return { ...client, ...Object.fromEntries(inLanguage) }
}
