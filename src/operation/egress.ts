// Requests to addresses that clients name: metadata documents, `jwks_uri`,
// logout notifications, CIBA pings. A name is resolved and its addresses are
// checked before anything connects; the connection then goes to a checked
// address, so that the name can lead nowhere else (SSRF, DNS rebinding).

import dns, { type LookupAddress } from 'node:dns'
import { lookup, Resolver } from 'node:dns/promises'
import { isIP } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import ipaddr from 'ipaddr.js'
import type { Settings } from '../config/load.ts'
import { BOUNDS } from '../oidc/bounds.ts'
import { readJson } from '../store/values.ts'
import { among } from './client-info.ts'

/** Timeout of a whole request, as in the library, and of its connection. */
const REQUEST_TIMEOUT_MS = 2_500
/**
 * Every failure takes longer than the timeout, so that its duration reveals
 * nothing.
 */
export const FAILURE_MS = 2_700
const DNS_TIMEOUT = { timeout: 1_000, tries: 2 }

/**
 * Whether the Internet routes an address: any of IPv4, and those of 2000::/3 of
 * IPv6.
 */
const isRouted = among(['0.0.0.0/0', '2000::/3'])
/** Whether an address is in no IANA Special-Purpose Address Registry. */
const isPublic = (address: string) =>
  ipaddr.parse(address).range() === 'unicast' && isRouted(address)

/**
 * The headers of each request. Many hosts refuse a request that does not say
 * who asks.
 */
const HEADERS = { 'accept-encoding': 'identity', 'user-agent': 'Usher' }

/**
 * A `fetch` for addresses that operators name. Follows no redirect. Decodes nothing: a compressed body of
 * 160 bytes can have gigabytes. `reads`: whether a response has a body that is read.
 */
export function createPlainFetch(
  settings: Settings['egress'],
  reads = (_method: string, _status: number) => true,
  why = NOT_LISTED,
) {
  const findAddresses = createLookup(settings, why)
  let http: ReturnType<typeof openHttp> | undefined
  return async (
    input: string | URL | Request,
    { body, signal, ...options }: RequestInit = {},
  ) => {
    const headers = {
      ...Object.fromEntries(new Headers(options.headers)),
      ...HEADERS,
    }
    const method = options.method === 'POST' ? 'POST' : 'GET'
    const sent = {
      method,
      headers,
      body: body ? String(body) : null,
      signal,
    }
    http ??= openHttp(findAddresses)
    const request = await http
    const answer = await request(String(input), sent)
    const { statusCode: status } = answer
    const isRead = reads(method, status)
    const encoding = isRead && answer.headers['content-encoding']
    const text = isRead && !encoding ? await answer.body.text() : null
    // The body may have no end.
    if (text === null) answer.body.dump().catch(() => {})
    if (encoding)
      throw new Error(`the content-encoding ${encoding} was not requested`)
    const fields = Object.entries(answer.headers).map(([name, value]) => [
      name,
      String(value),
    ])
    return new Response(text || null, {
      status,
      headers: Object.fromEntries(fields),
    })
  }
}

/**
 * A `fetch` for addresses that anybody can name: without `egress.allow`, which
 * is for clients of the operator.
 */
export const createStrangersFetch = (
  { ports }: Settings['egress'],
  failureMs = FAILURE_MS,
) => createFetch({ ports, allow: [] }, failureMs, NOT_FOR_STRANGERS)

const NOT_LISTED = 'and is not in egress.allow in usher.yaml'
const NOT_FOR_STRANGERS =
  'and egress.allow is for documents at features.client_id_metadata_documents.hosts in usher.yaml'

/**
 * A `fetch` for the library, for addresses that clients name. The response to a
 * notification is not read. `failureMs`: every failure takes at least this time.
 * `why`: the end of the error for an address that is not public.
 */
export function createFetch(
  settings: Settings['egress'],
  failureMs = FAILURE_MS,
  why = NOT_LISTED,
) {
  const isRead = (method: string, status: number) =>
    method === 'GET' && status === 200
  const send = createPlainFetch(settings, isRead, why)

  return async (
    input: string | URL | Request,
    options: RequestInit = {},
  ): Promise<Response> => {
    const waited = setTimeout(failureMs, undefined, { ref: false })
    const sent = withTimeout(REQUEST_TIMEOUT_MS, ({ signal }) =>
      send(input, { ...options, signal }),
    )
    const isUsed = async (response: Response) =>
      options.method === 'POST' || readJson(await response.clone().text())
    if (!(await sent.then(isUsed).catch(() => false))) await waited
    return sent
  }
}

/**
 * Rejects after `ms`, also if the work ignores the signal: undici does so while
 * it connects.
 */
export async function withTimeout<T>(
  ms: number,
  work: (options: { signal: AbortSignal }) => Promise<T>,
): Promise<T> {
  const signal = AbortSignal.timeout(ms)
  // The timer of the signal does not keep the process alive: a command would
  // end without a result.
  const keepAlive = setInterval(() => {}, ms)
  const late = new Promise<never>((_, reject) => {
    signal.onabort = () =>
      reject(new DOMException(`no answer within ${ms} ms`, 'TimeoutError'))
  })
  return await Promise.race([
    Promise.try(() => work({ signal })),
    late,
  ]).finally(() => clearInterval(keepAlive))
}

/**
 * Finds addresses of a host that may be connected to; throws an error for the
 * operator if none may.
 */
function createLookup({ allow, ports }: Settings['egress'], why: string) {
  const isHost = (entry: string) => !isIP(entry.replace(/\/.*/, ''))
  const hosts = new Set(allow.filter(isHost))
  const isAllowed = among(allow.filter(entry => !isHost(entry)))

  return async (host: string, port: number): Promise<LookupAddress[]> => {
    // Hosts in `egress.allow` are looked up in /etc/hosts, too.
    if (hosts.has(host)) return lookup(host, { all: true })
    const found = isIP(host) ? [host] : await resolve(host)
    const addresses = found.filter(
      address =>
        isAllowed(address) || (isPublic(address) && ports.includes(port)),
    )
    if (addresses.length)
      return addresses.map(address => ({ address, family: isIP(address) }))
    if (!found.length) throw new Error('the host has no address in DNS')
    throw new Error(
      found.some(isPublic)
        ? `port ${port} is not one of egress.ports in usher.yaml`
        : `the host has no public address, ${why}`,
    )
  }
}

/**
 * Queries the name servers directly: `lookup` would block a thread for each
 * that does not answer.
 */
async function resolve(host: string): Promise<string[]> {
  if (/(^|\.)localhost\.?$/.test(host)) return ['127.0.0.1', '::1']
  const resolver = new Resolver(DNS_TIMEOUT)
  resolver.setServers(dns.getServers())
  const answers = await Promise.allSettled([
    resolver.resolve4(host),
    resolver.resolve6(host),
  ])
  const found = answers.flatMap(answer =>
    answer.status === 'fulfilled' ? answer.value : [],
  )
  // A name server that did not answer, or could not.
  const failed = answers.find(
    answer =>
      answer.status === 'rejected' &&
      !/^(ENOTFOUND|ENODATA)$/.test(answer.reason.code),
  )
  if (!found.length && failed?.status === 'rejected') throw failed.reason
  return found
}

/**
 * Returns what sends a request to the addresses that are found. undici is
 * loaded at the first request: it takes 5 MB, and 100 ms of a start.
 */
async function openHttp(findAddresses: ReturnType<typeof createLookup>) {
  const { Agent, buildConnector, request } = await import('undici')
  // TLS sessions are not resumed: a ticket from one server could be sent to
  // another.
  const connectTo = (addresses: LookupAddress[]) =>
    buildConnector({
      allowH2: false,
      autoSelectFamily: true,
      lookup: (_host, _options, callback) => callback(null, addresses),
      maxCachedSessions: 0,
      timeout: REQUEST_TIMEOUT_MS,
    })
  const dispatcher = new Agent({
    maxResponseSize: BOUNDS.responses.max,
    connect: (options, callback) => {
      const port =
        Number(options.port) || (options.protocol === 'https:' ? 443 : 80)
      findAddresses(options.hostname, port).then(
        addresses => connectTo(addresses)(options, callback),
        error => callback(error, null),
      )
    },
  })
  return (url: string, options: Parameters<typeof request>[1]) =>
    request(url, { dispatcher, ...options })
}
