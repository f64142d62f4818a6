# Usher as an image: the source as it is, its dependencies, and Node.
#
#   /usher   the program   read only, and what was compiled of it
#   /config  the folder    read only; mount yours over it
#   /data    the store     the only place that is written to, and only with SQLite
#
# docker buildx build --sbom=true --provenance=true --tag usher .

# Debian's stable, slim; the digest is that of the index for all platforms. It was not asked of a
# registry (none was in reach) but read off public repositories which agree on it, in October 2026. Were
# it wrong, nothing would be pulled and the build would stop:
# docker buildx imagetools inspect node:24.21.0-trixie-slim
ARG NODE=node:24.21.0-trixie-slim@sha256:173f125896c3b47ddf056734c7ea789d04595a6a08769a8f78e0df642781fb66

FROM ${NODE} AS build
WORKDIR /usher
COPY package.json package-lock.json ./
# Not --omit=optional, which takes the prebuilt argon2 away too. All else that is optional is the Node
# for machines that have an older one: 190 MB that the image has already.
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund \
  && rm -rf node_modules/node-linux-* node_modules/.bin \
  && mkdir data

# Who runs it later has to be who compiles it: Node keeps what it compiled for each user apart.
FROM ${NODE} AS compiled
WORKDIR /usher
COPY --from=build /usher/node_modules node_modules
COPY package.json ./
COPY src src
RUN mkdir -m 777 compiled
USER 10001:10001
ENV NODE_COMPILE_CACHE=compiled/cache NODE_COMPILE_CACHE_PORTABLE=1
ENV NODE_OPTIONS=--max-semi-space-size=4
# Importing compiles. Without this, every start of a container would strip the types again.
RUN node --eval "import('./src/server.ts'); import('./src/storage/redis/store.ts')" && chmod -R a+rX,go-w compiled/cache

FROM ${NODE}
LABEL org.opencontainers.image.title="Usher" \
  org.opencontainers.image.description="An OpenID Provider that an organisation runs for its own applications" \
  org.opencontainers.image.licenses="MIT"
# PORT wins over listen.port of usher.yaml, and tells EXPOSE and the health check.
ENV NODE_ENV=production PORT=3000
ENV NODE_COMPILE_CACHE=/usher/compiled/cache NODE_COMPILE_CACHE_PORTABLE=1
# 5 MB less of a process that does nothing, and 30 of one that does what it can, for 2 % of its time.
ENV NODE_OPTIONS=--max-semi-space-size=4 MALLOC_ARENA_MAX=2
WORKDIR /
COPY --from=build /usher/node_modules /usher/node_modules
COPY package.json /usher/
COPY src /usher/src
COPY --from=compiled /usher/compiled/cache /usher/compiled/cache
COPY config /config
COPY --from=build --chown=10001:10001 /usher/data /data
USER 10001:10001
VOLUME /data
EXPOSE 3000
# Is the process alive? Not: is it ready, because a restart does not bring its store back. With listen.tls
# the plain request fails and is repeated over TLS, on loopback and so without a look at the name.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s CMD ["node", "--no-warnings", "--eval", "process.env.NODE_TLS_REJECT_UNAUTHORIZED = 0; const url = '://127.0.0.1:' + process.env.PORT + '/livez'; fetch('http' + url).catch(() => fetch('https' + url)).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "usher/src/main.ts"]
