// Finds the programs that the tests run. Installs a missing one with apt where that is allowed.

import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'

/** Returns the path of a program. Installs `packages` (of Debian) if it is missing. */
export function findProgram(name: string, packages: string): string {
  // Debian has servers in folders that are not in the PATH of every user.
  const command = `PATH=$PATH:/usr/sbin:/sbin; command -v ${name}`
  const find = () => String(spawnSync('/bin/sh', ['-c', command]).stdout).trim()
  return findOrInstall(name, packages, find)
}

/** Returns the path that `find` finds, if need be after the installation of `packages`. Throws without one. */
export function findOrInstall(
  name: string,
  packages: string,
  find: () => string | undefined,
): string {
  const mayInstall = process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')
  if (!find() && mayInstall) install(packages)
  const found = find()
  if (found) return found
  throw new Error(`These tests need ${name}: sudo apt-get install ${packages}`)
}

/** Test files run in several processes: one installs at a time, and nothing is installed twice. */
function install(packages: string) {
  const apt = 'apt-get -qq -o DPkg::Lock::Timeout=120'
  const add = `${apt} install -y --no-install-recommends ${packages}`
  const script = `${add} || { ${apt} update && ${add}; }`
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  spawnSync('flock', ['/tmp/usher-apt.lock', 'sh', '-c', script], { env, stdio: 'ignore' })
}
