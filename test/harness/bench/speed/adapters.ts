// Adapters for the library alone: a map; and Redis as in the example of the library, with one key for each record.

import type { Redis } from 'ioredis'
import type { Adapter, AdapterPayload } from 'oidc-provider'

type MakeAdapter = (model: string) => Adapter

const now = () => Math.floor(Date.now() / 1000)

const CONSUMED = new Set([
  'AuthorizationCode',
  'RefreshToken',
  'DeviceCode',
  'BackchannelAuthenticationRequest',
])
const isConsumed = (model: string) => CONSUMED.has(model)
const isOfGrant = (model: string) => isConsumed(model) || model === 'AccessToken'

/** The cheapest possible adapter: it copies nothing, and nothing expires. */
export function createMapAdapter(): MakeAdapter {
  const records = new Map<string, AdapterPayload>()
  const keys = new Map<string, string>()
  const grants = new Map<string, Set<string>>()

  return model => {
    const find = async (id: string) => records.get(`${model}:${id}`)
    const findBy = async (name: string) => records.get(keys.get(name) ?? '')
    return {
      find,
      findByUid: uid => findBy(`uid:${uid}`),
      findByUserCode: userCode => findBy(`userCode:${userCode}`),

      async upsert(id, payload) {
        const key = `${model}:${id}`
        const { grantId, uid, userCode } = payload
        if (grantId && isOfGrant(model)) {
          const members = grants.get(grantId) ?? new Set()
          grants.set(grantId, members.add(key))
        }
        if (uid) keys.set(`uid:${uid}`, key)
        if (userCode) keys.set(`userCode:${userCode}`, key)
        records.set(key, payload)
      },

      async consume(id) {
        const record = await find(id)
        if (record) record.consumed = now()
      },

      async destroy(id) {
        records.delete(`${model}:${id}`)
      },

      async revokeByGrantId(grantId) {
        for (const key of grants.get(grantId) ?? []) records.delete(key)
        grants.delete(grantId)
      },
    }
  }
}

/** The adapter of the library's example. The connection has the `keyPrefix`. */
export function createClassicAdapter(redis: Redis): MakeAdapter {
  return model => {
    async function find(id: string): Promise<AdapterPayload | undefined> {
      const key = `${model}:${id}`
      if (!isConsumed(model)) {
        const text = await redis.get(key)
        return text ? JSON.parse(text) : undefined
      }
      const { payload, ...marks } = await redis.hgetall(key)
      return payload ? { ...marks, ...JSON.parse(payload) } : undefined
    }

    async function findBy(name: string) {
      const id = await redis.get(name)
      return id ? find(id) : undefined
    }

    return {
      find,
      findByUid: uid => findBy(`uid:${uid}`),
      findByUserCode: userCode => findBy(`userCode:${userCode}`),

      async upsert(id, payload, expiresIn = 1) {
        const key = `${model}:${id}`
        const multi = redis.multi()
        if (isConsumed(model)) multi.hset(key, { payload: JSON.stringify(payload) })
        else multi.set(key, JSON.stringify(payload))
        multi.expire(key, expiresIn)
        const { grantId, uid, userCode } = payload
        if (grantId && isOfGrant(model)) {
          const grant = `grant:${grantId}`
          multi.rpush(grant, key)
          // The list must not expire before its last member.
          if (expiresIn > (await redis.ttl(grant))) multi.expire(grant, expiresIn)
        }
        if (userCode)
          multi.set(`userCode:${userCode}`, id).expire(`userCode:${userCode}`, expiresIn)
        if (uid) multi.set(`uid:${uid}`, id).expire(`uid:${uid}`, expiresIn)
        await multi.exec()
      },

      async consume(id) {
        await redis.hset(`${model}:${id}`, 'consumed', now())
      },

      async destroy(id) {
        await redis.del(`${model}:${id}`)
      },

      async revokeByGrantId(grantId) {
        const grant = `grant:${grantId}`
        const multi = redis.multi()
        for (const key of await redis.lrange(grant, 0, -1)) multi.del(key)
        multi.del(grant)
        await multi.exec()
      },
    }
  }
}
