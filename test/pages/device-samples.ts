// The pages of the device flow in every state.

import { state } from './sample.ts'

const CODE = 'WDJB-MJHT'

/** The data of the consent page in the device flow. */
export const deviceAsks = {
  host: undefined,
  device: { code: CODE, network: '192.0.2.0/24' },
}

const form = { xsrf: 'sample', user_code: CODE }

export const deviceStates = [
  state('device', 'device', { ...form, user_code: '' }),
  ...['unknown', 'expired', 'used', 'form'].map(key =>
    state(`device-${key}`, 'device', ({ t }) => ({ ...form, problem: t(`device.${key}`) })),
  ),
  ...['done', 'denied', 'throttled'].map(key =>
    state(`device-${key}`, 'device-done', ({ t }) => ({
      title: t(`device.${key}_title`),
      text: t(`device.${key}`),
      again: key !== 'done',
    })),
  ),
]
