// All pages in all states as files that need no server: an index, a folder for each language, and the assets.

import type { Views } from '../../src/pages/views.ts'
import type { State } from './sample.ts'
import { STATES } from './samples.ts'

type Files = Map<string, string | Buffer>

export function preview(views: Views, tags: string[]): Files {
  const files: Files = new Map([['index.html', index(tags)]])
  for (const { path, content } of views.assets) files.set(path.slice(1), content)
  // Without this script, no page submits itself.
  for (const path of files.keys()) if (path.startsWith('assets/submit-')) files.set(path, '')
  for (const tag of tags) {
    const words = views.find(tag) ?? views.english()
    for (const state of STATES) {
      const html = state.render(views, words).replaceAll('"/assets/', '"../assets/')
      files.set(pathOf(tag, state), html)
    }
  }
  return files
}

export const pathOf = (tag: string, { name }: Pick<State, 'name'>) => `${tag}/${name}.html`

function index(tags: string[]): string {
  const row = (state: State) => {
    const links = tags.map(tag => `<a href="${pathOf(tag, state)}" target="page">${tag}</a>`)
    return `<tr><th scope="row">${state.name}</th><td>${links.join(' ')}</td></tr>`
  }
  return `<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Pages</title>
<style>
  body { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1rem; font: 0.9rem/1.6 system-ui, sans-serif; }
  main { flex: 0 1 22rem; }
  th { padding-inline-end: 1rem; font-weight: 400; text-align: start; }
  iframe { flex: 1 1 20rem; height: calc(100vh - 2rem); border: 1px solid; resize: horizontal; }
</style>
<main>
<h1>Pages</h1>
<table>${STATES.map(row).join('\n')}</table>
</main>
<iframe name="page" title="The page" src="${STATES[0] ? pathOf(tags[0] ?? '', STATES[0]) : ''}"></iframe>
`
}
