import { defineConfig } from 'vitest/config'

// biome-ignore lint/style/noDefaultExport: vitest wants one
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    maxWorkers: 3,
  },
})
