// Random numbers that a seed repeats.

import { hash } from 'node:crypto'

export type Random = ReturnType<typeof createRandom>

/** Returns functions that draw from one sequence. */
export function createRandom(seed: string) {
  let drawn = 0
  const draw = () => hash('sha256', `${seed} ${drawn++}`)
  const share = () => Number.parseInt(draw().slice(0, 8), 16) / 2 ** 32
  const pick = <T>(all: T[]) => all[Math.floor(share() * all.length)] as T
  return {
    pick,
    chance: (of: number) => share() < of,
    text: (length: number) => draw().slice(0, length),
  }
}
