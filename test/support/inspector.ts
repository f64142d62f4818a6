// Reads the memory of a service through Node's inspector, and which functions it runs: start it with
// --inspect=127.0.0.1:0.

import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Service } from './service.ts'

export interface Memory {
  /** Bytes after a garbage collection. */
  heap: number
  /** Instances of the library's Provider in memory. */
  providers: number
}

const PROTOTYPE = `process.getBuiltinModule('module')
  .createRequire(process.cwd() + '/')('oidc-provider').Provider.prototype`
/** Excludes prototypes: Usher makes a subclass for each provider. */
const COUNT = `function () { return this.filter(one => !Object.hasOwn(one, 'constructor')).length }`

async function inspect(service: Service) {
  const [url = ''] = /ws:\/\/127\.0\.0\.1\S+/.exec(service.stderr()) ?? []
  const socket = new WebSocket(url)
  await once(socket, 'open')
  let id = 0
  async function ask<T = Answer>(method: string, params: object): Promise<T> {
    const sent = ++id
    const answer = Promise.withResolvers<T>()
    const onMessage = ({ data }: { data: unknown }) => {
      const message = JSON.parse(String(data))
      if (message.id === sent) answer.resolve(message.result)
    }
    socket.addEventListener('message', onMessage)
    socket.send(JSON.stringify({ id: sent, method, params }))
    return answer.promise.finally(() => socket.removeEventListener('message', onMessage))
  }
  return { ask, close: () => socket.close() }
}

/** Profiles the CPU of the service during `work`, and writes a .cpuprofile. */
export async function profile<T>(
  service: Service,
  work: () => Promise<T>,
  file: string,
): Promise<T> {
  const { ask, close } = await inspect(service)
  await ask('Profiler.enable', {})
  await ask('Profiler.start', {})
  const result = await work()
  const { profile } = await ask('Profiler.stop', {})
  close()
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, JSON.stringify(profile))
  return result
}

export async function memoryOf(service: Service): Promise<Memory> {
  const { ask, close } = await inspect(service)
  const { result: prototype } = await ask('Runtime.evaluate', { expression: PROTOTYPE })
  const prototypeObjectId = prototype?.objectId
  const { objects } = await ask('Runtime.queryObjects', { prototypeObjectId, objectGroup: 'all' })
  const { result: count } = await ask('Runtime.callFunctionOn', {
    objectId: objects?.objectId,
    functionDeclaration: COUNT,
  })
  await ask('Runtime.releaseObjectGroup', { objectGroup: 'all' })
  await ask('HeapProfiler.collectGarbage', {})
  const expression = 'process.memoryUsage().heapUsed'
  const { result: heap } = await ask('Runtime.evaluate', { expression })
  close()
  return { heap: Number(heap?.value), providers: Number(count?.value) }
}

/** The functions that ran, by file of `src`: `NAME@PLACE`, or `@PLACE` for one without a name. */
export type Ran = Map<string, Set<string>>

const SOURCE = fileURLToPath(new URL('../../src/', import.meta.url))

/** Counts the functions of `src` that a service runs. `take` returns those since its last call. */
export async function countFunctions(service: Service) {
  const { ask, close } = await inspect(service)
  await ask('Profiler.enable', {})
  await ask('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  async function take(): Promise<Ran> {
    const { result: scripts } = await ask<Coverage>('Profiler.takePreciseCoverage', {})
    const own = scripts.filter(({ url }) => url.startsWith(`file://${SOURCE}`))
    const ran = own.map(({ url, functions }): [string, Set<string>] => {
      return [relative(SOURCE, fileURLToPath(url)), new Set(functions.flatMap(nameAndPlace))]
    })
    return new Map(ran.filter(([, names]) => names.size > 0))
  }
  await take()
  return { take, close }
}

/** The name of a function that ran, which can be empty, and its place. */
function nameAndPlace({ functionName, ranges }: CountedFunction): string[] {
  const [whole] = ranges
  return whole?.count ? [`${functionName}@${whole.startOffset}`] : []
}

interface CountedFunction {
  functionName: string
  /** The first range is the whole function. */
  ranges: { startOffset: number; count: number }[]
}

interface Coverage {
  result: { url: string; functions: CountedFunction[] }[]
}

interface Answer {
  result?: { objectId?: string; value?: unknown }
  objects?: { objectId?: string }
  profile?: object
}
