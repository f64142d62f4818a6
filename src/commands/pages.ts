// The pages as they will be seen: with the words, colours and templates of the folder.

import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { readSettings } from '../config/load.ts'
import { didYouMean } from '../config/report/wording.ts'
import { checkOwnTemplates } from '../pages/own-templates.ts'
import { preview } from '../pages/preview.ts'
import { createViews } from '../pages/views.ts'
import { Failure, hint, type Invocation } from './command.ts'

/** Writes to `preview` where no folder is named; what lies there already stays. */
export async function show({ values, positionals: [folder = 'preview'] }: Invocation) {
  const settings = readSettings()
  checkOwnTemplates(settings)
  const views = createViews(settings)
  const wanted = values.lang ? String(values.lang).split(',') : views.tags
  const unknown = wanted.find(tag => !views.tags.includes(tag))
  if (unknown !== undefined) {
    throw new Failure(
      `There is no language ${unknown} (there are ${views.tags.join(', ')})${didYouMean(unknown, views.tags)}`,
    )
  }
  const files = preview(views, wanted)
  for (const [path, content] of files) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), content)
  }
  hint(`${files.size} files. Open ${join(folder, 'index.html')} in a browser.`)
}
