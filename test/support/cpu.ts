/** The milliseconds of CPU time that this process spends until `work` has ended. Other work on the machine is not in it. */
export async function cpuTimeOf(work: () => unknown): Promise<number> {
  const before = process.cpuUsage()
  await work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}
