// Before each test file of this folder: waits for the installation of the libraries that it imports.

import { setTimeout } from 'node:timers/promises'
import { isInstalled } from './install.ts'

const POLL_MS = 200
const MAX_POLLS = 1500

for (let i = 0; i < MAX_POLLS && !isInstalled(); i++) await setTimeout(POLL_MS)
if (!isInstalled()) throw new Error('npm ci in test/clients has not succeeded: see its output')
