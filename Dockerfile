# The image of Usher: the source, its dependencies, and Node.
#
#   /usher   the program and its compiled code  read only
#   /config  the config folder                  read only; mount yours over it
#   /data    the store                          written by Usher, with SQLite only
#
# docker build --tag usher .

# Debian stable, slim. The digest is that of the index for all platforms: with another one, the build stops.
# docker buildx imagetools inspect node:24.21.0-trixie-slim    prints it
ARG NODE=node:24.21.0-trixie-slim@sha256:173f125896c3b47ddf056734c7ea789d04595a6a08769a8f78e0df642781fb66

FROM ${NODE} AS build
WORKDIR /usher
COPY package.json package-lock.json ./
# --omit=optional would also remove the prebuilt argon2. The other optional dependency is Node itself
# (190 MB), which the image already has.
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund \
  && rm -rf node_modules/node-linux-* node_modules/.bin
# Types, source maps, tests and documents of packages, a third of their size. Licences stay.
RUN find node_modules -type d -regex '.*/\(tests?\|docs\|examples?\|benchmarks?\|.github\)' -prune -exec rm -r {} + \
  && find node_modules -type f -regex '.*\.\([cm]?ts\|map\|md\)' ! -iname 'license*' -delete

# The same user must compile and run the program: Node has a compile cache for each user.
FROM ${NODE} AS compiled
WORKDIR /usher
COPY --from=build /usher/node_modules node_modules
COPY package.json ./
COPY src src
RUN mkdir -m 777 compiled
USER 10001:10001
ENV NODE_COMPILE_CACHE=compiled/cache NODE_COMPILE_CACHE_PORTABLE=1
ENV NODE_OPTIONS=--max-semi-space-size=4
# A start compiles its modules, and fails for want of a folder. An import compiles what some starts need more.
# Without this cache, each start of a container would strip the types again, and have 16 MB more.
RUN ! USHER_CONFIG=none node src/main.ts \
  && node --eval "['features/factors/feature.ts', 'features/upstream/feature.ts', 'operation/prometheus.ts', 'store/redis/store.ts'].map(file => import('./src/' + file)); ['@node-rs/bcrypt', 'nodemailer', 'undici'].map(name => import(name))" \
  && chmod -R a+rX,go-w compiled/cache

FROM ${NODE}
LABEL org.opencontainers.image.title="Usher" \
  org.opencontainers.image.description="An OpenID Provider that an organisation runs for its own applications" \
  org.opencontainers.image.licenses="MIT"
# PORT replaces listen.port of usher.yaml. EXPOSE and the health check have the same port.
ENV NODE_ENV=production PORT=3000
ENV NODE_COMPILE_CACHE=/usher/compiled/cache NODE_COMPILE_CACHE_PORTABLE=1
# Saves 15 MB of memory when idle and 30 MB under full load, for 2 % more CPU time.
ENV NODE_OPTIONS=--max-semi-space-size=4 MALLOC_ARENA_MAX=2
WORKDIR /
COPY --from=build /usher/node_modules /usher/node_modules
COPY package.json /usher/
COPY src /usher/src
COPY --from=compiled /usher/compiled/cache /usher/compiled/cache
COPY config /config
# OpenShift runs each container as a user of its own, in group 0: the group may write to the store. Some engines
# ignore COPY --chmod for a folder.
RUN mkdir -m 770 /data && chown 10001:0 /data
USER 10001:10001
VOLUME /data
EXPOSE 3000
# Checks that the process is alive, not that it is ready: a restart does not bring its store back. With
# listen.tls the http request fails, and https is tried without validation of the certificate (loopback).
# A loopback issuer may be on ::1.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s CMD ["node", "--no-warnings", "--eval", "process.env.NODE_TLS_REJECT_UNAUTHORIZED = 0; const get = scheme => Promise.any(['127.0.0.1', '[::1]'].map(host => fetch(scheme + '://' + host + ':' + process.env.PORT + '/livez'))); get('http').catch(() => get('https')).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "usher/src/main.ts"]
