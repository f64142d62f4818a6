// The pages as they will be seen: with the words, colours and templates of the folder.

import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { readSettings } from '../config/load.ts'
import { didYouMean } from '../config/report/wording.ts'
import { checkOwnTemplates } from '../pages/templates.ts'
import { createViews, type Views } from '../pages/views.ts'
import { Failure, hint, type Invocation } from './command.ts'

/** The sample pages live with the tests: `pages preview` runs in a checkout, not in the image. */
const SAMPLES = join(import.meta.dirname, '../../test/pages/preview.ts')
interface Samples {
  preview(views: Views, tags: string[]): Map<string, string | Buffer>
}

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
  if (!existsSync(SAMPLES)) {
    throw new Failure(
      'The sample pages are not part of the image: run this in a checkout of the source.',
    )
  }
  const { preview }: Samples = await import(SAMPLES)
  const files = preview(views, wanted)
  for (const [path, content] of files) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), content)
  }
  hint(`${files.size} files. Open ${join(folder, 'index.html')} in a browser.`)
}
