// `usher pages preview`: the pages with the texts, colours and templates of the
// config folder.

import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { readSettings } from '../config/load.ts'
import { checkOperatorTemplates } from '../pages/templates.ts'
import { createViews, type Views } from '../pages/views.ts'
import { Failure, type Invocation, notFound } from './command.ts'
import { hint } from './output.ts'

/**
 * The samples live with the tests: this command works in a checkout, not in the
 * image.
 */
const SAMPLES = join(import.meta.dirname, '../../test/pages/preview.ts')
type Samples = {
  preview(views: Views, tags: string[]): Map<string, string | Buffer>
}

/**
 * `pages preview [FOLDER] [--lang TAG,…]`: writes to `preview` by default;
 * other files there stay.
 */
export async function previewPages({
  values,
  args: [folder = 'preview'],
}: Invocation) {
  const settings = await readSettings()
  checkOperatorTemplates(settings)
  const views = createViews(settings)
  const tags = values.lang ? values.lang.split(',') : views.tags
  const unknown = tags.find(tag => !views.tags.includes(tag))
  if (unknown !== undefined) {
    throw notFound(
      '--lang: language',
      unknown,
      views.tags,
      ` Languages: ${views.tags.join(', ')}`,
    )
  }
  if (!existsSync(SAMPLES))
    throw new Failure(
      'The image has no sample pages: run this in a checkout of the source.',
    )
  const samples: Samples = await import(SAMPLES)
  const files = samples.preview(views, tags)
  for (const [path, content] of files) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), content)
  }
  hint(`${files.size} files. Open ${join(folder, 'index.html')} in a browser.`)
}
