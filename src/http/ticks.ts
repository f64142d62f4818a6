// Whoever calls `process.nextTick` makes an object, and V8 knows how as long as it has seen one like it
// lately: after three great collections without any (a quiet hour) it has forgotten, and takes ten times
// as long from then on, some eight times a request. One that stays is remembered.

import { executionAsyncResource } from 'node:async_hooks'

export let tick: object

process.nextTick(() => {
  tick = executionAsyncResource()
})
