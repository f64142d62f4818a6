// A client that caches the JWKS of one node for exactly the max-age of its Cache-Control. It does not request
// the JWKS earlier, not even for an unknown key.

import { createLocalJWKSet, type JSONWebKeySet, jwtVerify } from 'jose'
import { send } from './wire.ts'

type Node = Parameters<typeof send>[0]

export class JwksKeeper {
  readonly #node: Node
  #keys = createLocalJWKSet({ keys: [] })
  #until = 0
  fetched = 0

  constructor(node: Node) {
    this.#node = node
  }

  /** Throws the error of jose. */
  async verify(id_token: string): Promise<void> {
    if (Date.now() >= this.#until) await this.#fetch()
    await jwtVerify(id_token, this.#keys, { issuer: this.#node.issuer, audience: 'web' })
  }

  async #fetch() {
    const { status, headers, json } = await send<JSONWebKeySet>(this.#node, '/api/oauth/jwks')
    const [, age] = /max-age=(\d+)/.exec(headers.get('cache-control') ?? '') ?? []
    if (status !== 200 || !age) throw new Error(`the JWKS: ${status}, max-age ${age}`)
    this.#keys = createLocalJWKSet(json)
    this.#until = Date.now() + Number(age) * 1000
    this.fetched++
  }
}
