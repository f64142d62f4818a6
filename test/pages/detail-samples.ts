// Samples of authorization details on the pages: values of the client within a sentence of the operator.

import type { DetailInWords } from '../../src/pages/page-data.ts'
import type { Words } from '../../src/pages/words.ts'
import { LONG } from './sample.ts'

export function payment({ t, number }: Words, to = 'Grace Hopper'): DetailInWords {
  const [amount, recipient] = [number(1234.5), to].map(text => ({ text, isValue: true }))
  const say = (text: string) => ({ text, isValue: false })
  return {
    sentence: [say('Pay '), amount, say(' euros to '), recipient].flatMap(part => part ?? []),
    facts: [
      { label: 'Reference', value: `<b>${LONG}</b>` },
      { label: 'Each month', value: t('detail.yes') },
      { label: 'Tell the recipient', value: t('detail.no') },
    ],
    at: 'Payments',
  }
}

export const allowed = (words: Words, at: number) => ({
  details: [{ ...payment(words), since: words.date(at) }],
})
