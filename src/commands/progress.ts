// How far long work has come, beside its output: a bar on a terminal, elsewhere a line for each ten
// thousand.

import { hint } from './command.ts'

const EVERY = 10_000
/** Milliseconds between two looks of the bar. */
const PAUSE = 100
const WIDTH = 30
const CLEAR = '\r\u001b[2K'

export function createProgress() {
  const isTerminal = process.stderr.isTTY
  let shown = 0

  /** `share`: of the whole, from 0 to 1, where that is known. */
  function show(what: string, done: number, share?: number): void {
    if (isTerminal) draw(`${bar(share)}${done.toLocaleString('en')} ${what} …`)
    else if (done && done % EVERY === 0) hint(`${done} ${what} …`)
  }

  function draw(line: string) {
    if (performance.now() - shown < PAUSE) return
    shown = performance.now()
    process.stderr.write(CLEAR + line)
  }

  /** Before anything else is said. */
  function clear(): void {
    if (isTerminal) process.stderr.write(CLEAR)
  }

  return { show, clear }
}

function bar(share?: number): string {
  if (share === undefined) return ''
  const full = Math.round(share * WIDTH)
  const percent = String(Math.floor(share * 100)).padStart(3)
  return `${'█'.repeat(full)}${'░'.repeat(WIDTH - full)} ${percent} %  `
}
