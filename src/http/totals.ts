// The metrics of several processes as those of one service. What is counted never falls: those that are
// gone are counted on, or Prometheus would take it for a new start and count the rest twice.

import { AggregatorRegistry, Counter, Gauge, Registry } from 'prom-client'

type Values = Awaited<ReturnType<Registry['getMetricsAsJSON']>>

/** The slowest of them is what people wait for: an average of many would hide it. */
const SLOWEST = /^nodejs_eventloop_lag_(seconds|mean_seconds|p\d+_seconds)$/

export function createTotals() {
  const registry = new Registry()
  const ready = new Gauge({
    name: 'usher_workers',
    help: 'Processes that share the work, where there are several',
    registers: [registry],
  })
  const lost = new Counter({
    name: 'usher_workers_lost_total',
    help: 'Those that ended by themselves, or could not take the place of one that had',
    registers: [registry],
  })
  const latest = new Map<number, Values>()
  let gone: Promise<Values> = Promise.resolve([])

  return {
    lost: () => lost.inc(),

    /** Without values, it is as it was. */
    heard(worker: number, values: unknown) {
      if (values) latest.set(worker, values as Values)
    },

    left(worker: number) {
      const counted = latest.get(worker)?.filter(isCounted) ?? []
      latest.delete(worker)
      gone = gone.then(before => sum([before, counted]).getMetricsAsJSON())
    },

    async text(workers: number): Promise<string> {
      ready.set(workers)
      const now = [...latest.values()].map(values => values.map(theSlowest))
      return sum([...now, await gone, await registry.getMetricsAsJSON()]).metrics()
    },
  }
}

const sum = (all: Values[]) => AggregatorRegistry.aggregate(all)

const isCounted = ({ type }: Values[number]) => ['counter', 'histogram'].includes(String(type))

const theSlowest = (metric: Values[number]): Values[number] =>
  SLOWEST.test(metric.name) ? { ...metric, aggregator: 'max' } : metric
