// The tests that can reach a file of src, by imports, the nearest first.

import { globSync, readFileSync } from 'node:fs'
import { basename, dirname, join, normalize } from 'node:path'

const IMPORT = /\bfrom '(\.[^'\n]+)'|\bimport\(?\s*'(\.[^'\n]+)'/g

/** Returns a function that lists the tests of a checkout, from its root, that reach a file. */
export function createReach(root: string, isTest: (path: string) => boolean) {
  const paths = globSync('{src,test}/**/*.ts', { cwd: root })
  const importers = new Map<string, string[]>()
  for (const path of paths) {
    for (const imported of importsOf(root, path)) {
      importers.set(imported, [...(importers.get(imported) ?? []), path])
    }
  }

  return (file: string): string[] => {
    const distances = distancesTo(file, importers)
    const words = wordsOf(file)
    const likeness = (test: string) => wordsOf(test).filter(word => words.includes(word)).length
    // A name in common is worth more than a step: most tests are as far as `app.ts`.
    const cost = (test: string) => (distances.get(test) ?? 0) - 3 * likeness(test)
    const found = [...distances.keys()].filter(isTest)
    return found.toSorted((a, b) => cost(a) - cost(b) || a.localeCompare(b))
  }
}

function importsOf(root: string, path: string): string[] {
  const text = readFileSync(join(root, path), 'utf8')
  const names = [...text.matchAll(IMPORT)].map(([, from, by]) => from ?? by ?? '')
  return names.map(name => normalize(join(dirname(path), name)))
}

/** The number of imports between each file and this one. */
function distancesTo(file: string, importers: Map<string, string[]>): Map<string, number> {
  const distances = new Map([[file, 0]])
  for (const [path, distance] of distances) {
    for (const importer of importers.get(path) ?? []) {
      if (!distances.has(importer)) distances.set(importer, distance + 1)
    }
  }
  return distances
}

/** `src/oidc/adapter/refresh-tokens.ts` and `test/oidc/token-refresh.test.ts` have both words in common. */
function wordsOf(path: string): string[] {
  const names = [basename(dirname(path)), basename(path).replace(/\..*$/, '')]
  return names.flatMap(name => name.split('-')).map(word => word.replace(/s$/, ''))
}
