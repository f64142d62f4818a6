// The package has no types of its own.

declare module 'cluster-key-slot' {
  /** The slot of a key in a Redis Cluster, 0 to 16383. */
  // biome-ignore lint/style/noDefaultExport: it is what the package has
  export default function calculateSlot(key: string): number
}
