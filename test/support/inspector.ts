// Reads the memory of a service through Node's inspector: start it with --inspect=127.0.0.1:0.

import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
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
  async function ask(method: string, params: object) {
    const sent = ++id
    const answer = Promise.withResolvers<Answer>()
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

interface Answer {
  result?: { objectId?: string; value?: unknown }
  objects?: { objectId?: string }
  profile?: object
}
