# Two stages: one with pip, one with an interpreter and nothing else. Both run the same minor version of Python, so that
# the compiled extensions and the byte code of the first fit the second. The first runs on the machine that builds,
# whatever architecture it builds for: nothing is emulated.
FROM --platform=$BUILDPLATFORM python:3.13-slim-trixie AS build
ARG TARGETARCH
WORKDIR /build
COPY requirements.lock ./
# Only what the lock names, only with the hashes it names, nothing that would have to be compiled.
RUN case "$TARGETARCH" in amd64) machine=x86_64 ;; arm64) machine=aarch64 ;; *) exit 1 ;; esac \
    && python -m pip install --no-cache-dir --disable-pip-version-check --require-hashes --no-deps --only-binary=:all: \
      --platform "manylinux_2_28_$machine" --platform "manylinux_2_17_$machine" \
      --target /app --requirement requirements.lock \
    # A second client, for asyncio, that nothing here imports: a quarter of the image.
    && rm -r /app/kubernetes/aio
COPY rebalancer /app/rebalancer
# The root file system is read-only when it runs: byte code is made now.
RUN python -m compileall -q -j 0 /app

FROM gcr.io/distroless/python3-debian13:nonroot
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG CREATED=unknown
LABEL org.opencontainers.image.title="rebalancer" \
      org.opencontainers.image.description="Keeps Kubernetes workloads spread the way kube-scheduler would count it" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="The Rebalancer authors" \
      org.opencontainers.image.url="https://rebalancer.dev" \
      org.opencontainers.image.base.name="gcr.io/distroless/python3-debian13:nonroot" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# One arena for each thread would keep what the threads have freed: tens of MiB.
ENV MALLOC_ARENA_MAX=2 \
    PYTHONPATH=/app \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
COPY --from=build /app /app
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/python3", "-m", "rebalancer.cli.start"]
CMD ["run"]
