// Client info of a sign-in: the IP network, and the names of browser and system.

import { expect, test } from 'vitest'
import { clientInfoOf, networkOf } from '../../src/operation/client-info.ts'

const APPLE = 'AppleWebKit/605.1.15 (KHTML, like Gecko)'
const CHROME = 'AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0'

test.each([
  ['203.0.113.77', '203.0.113.0/24'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1::/48'],
  ['2001:DB8:0001::7', '2001:db8:1::/48'],
  ['fe80::1%eth0', 'fe80::/48'],
  ['::2:3:4:5:6:7:8', '0:2:3::/48'],
  ['64:ff9b::203.0.113.77', '64:ff9b::/48'],
])('the network of the address %s is %s', (address, network) => {
  expect(networkOf(address)).toBe(network)
})

test.each([
  [`Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${CHROME} Safari/537.36`, 'Chrome', 'Windows'],
  [
    `Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${CHROME} Safari/537.36 Edg/142.0.0.0`,
    'Microsoft Edge',
    'Windows',
  ],
  [`Mozilla/5.0 (X11; Linux x86_64) ${CHROME} Safari/537.36 OPR/120.0.0.0`, 'Opera', 'Linux'],
  ['Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0', 'Firefox', 'Linux'],
  [
    `Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) ${APPLE} Version/18.1 Safari/605.1.15`,
    'Safari',
    'macOS',
  ],
  [
    `Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) ${APPLE} Version/18.1 Mobile/15E148 Safari/604.1`,
    'Safari',
    'iOS',
  ],
  [
    `Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) ${APPLE} CriOS/142.0.0.0 Mobile/15E148 Safari/604.1`,
    'Chrome',
    'iOS',
  ],
  [`Mozilla/5.0 (Linux; Android 10; K) ${CHROME} Mobile Safari/537.36`, 'Chrome', 'Android'],
  [
    `Mozilla/5.0 (Linux; Android 14; SM-S921B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/27.0 Chrome/125.0.0.0 Mobile Safari/537.36`,
    'Samsung Internet',
    'Android',
  ],
  ['curl/8.15.0', undefined, undefined],
  ['', undefined, undefined],
])('%j is named', (agent, browser, system) => {
  const ctx = { ip: '203.0.113.77', get: () => agent }
  expect(clientInfoOf(ctx)).toEqual({ network: '203.0.113.0/24', browser, system })
})

test('only known names of a User-Agent are stored', () => {
  const agent = `<script>alert(1)</script> Chrome/${'9'.repeat(8000)} Windows`
  const { browser, system } = clientInfoOf({ ip: '::1', get: () => agent })
  expect({ browser, system }).toEqual({ browser: 'Chrome', system: undefined })
})
