// The memory, the CPU time and the children of a process, from /proc.

import { readdirSync, readFileSync } from 'node:fs'

const read = (pid: number | undefined, name: string) => readFileSync(`/proc/${pid}/${name}`, 'utf8')

/** The memory of a process (RSS), in MiB. */
export const residentMemory = (pid: number | undefined) =>
  Number(/^VmRSS:\s+(\d+)/m.exec(read(pid, 'status'))?.[1]) / 1024

/** The CPU time of all threads of a process so far, in microseconds. */
export function cpuTime(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`)
  const times = threads.map(thread => Number(read(pid, `task/${thread}/schedstat`).split(' ')[0]))
  return times.reduce((sum, time) => sum + time, 0) / 1000
}

/** Process ids of the children of a process, the oldest first. */
export const childrenOf = (pid: number | undefined) =>
  read(pid, `task/${pid}/children`).split(' ').filter(Boolean).map(Number)
