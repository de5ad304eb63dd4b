# Two stages: one with pip, one with an interpreter and nothing else. Both run the same minor version of Python, so that
# the compiled extensions and the byte code of the first fit the second. The first runs on the machine that builds,
# whatever architecture it builds for: nothing is emulated.
FROM gcr.io/distroless/python3-debian13:nonroot AS base

FROM --platform=$BUILDPLATFORM python:3.13-slim-trixie AS build
ARG TARGETARCH
ARG REVISION
WORKDIR /build
COPY requirements.lock requirements-build.lock ./
# Only what the lock names, only with the hashes it names, nothing that would have to be compiled.
RUN case "$TARGETARCH" in amd64) machine=x86_64 ;; arm64) machine=aarch64 ;; *) exit 1 ;; esac \
    && python -m pip install --no-cache-dir --disable-pip-version-check --require-hashes --no-deps --only-binary=:all: \
      --platform "manylinux_2_28_$machine" --platform "manylinux_2_17_$machine" --no-compile \
      --target /app --requirement requirements.lock \
    # A second client, for asyncio, that nothing here imports: a quarter of the image.
    && rm -r /app/kubernetes/aio \
    # What is for type checkers, tests of numpy, and the solver a second time, under a name that nothing asks for.
    && find /app -name '*.pyi' -delete \
    && find /app/numpy -type d -name tests -prune -exec rm -r {} + \
    && rm /app/highspy/libhighs.so.1.*
RUN python -m pip install --no-cache-dir --disable-pip-version-check --require-hashes --no-deps --only-binary=:all: \
      --no-compile --target /build/tools --requirement requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY rebalancer rebalancer
# With its metadata and licence, and its commands, and no others, for the interpreter of the second stage.
RUN rm -r /app/bin \
    && if [ -n "$REVISION" ]; then printf '%s' "$REVISION" > rebalancer/REVISION; fi \
    && PYTHONPATH=/build/tools python -m pip wheel --no-cache-dir --disable-pip-version-check --no-index --no-deps \
      --no-build-isolation --wheel-dir wheels . \
    && python -m pip install --no-cache-dir --disable-pip-version-check --no-index --no-deps --no-compile --target /app wheels/*.whl \
    && mkdir -p /root-of-image/usr/local \
    && sed -i '1s|.*|#!/usr/bin/python3|' /app/bin/* \
    && mv /app/bin /root-of-image/usr/local/bin
# The root file system is read-only when it runs, and times of files differ between layers and builders: byte code is made now,
# valid for whatever time its source has, and for the standard library of the base, too, which brings none.
COPY --from=base /usr/lib/python3.13 /usr/lib/python3.13.base
RUN mkdir -p /root-of-image/usr/lib \
    && cp -a /usr/lib/python3.13.base /root-of-image/usr/lib/python3.13 \
    && python -m compileall -q --invalidation-mode unchecked-hash -s /root-of-image /root-of-image/usr/lib/python3.13 /app \
    && find /root-of-image/usr/lib '(' -type l -o -type f ! -name '*.pyc' ')' -delete \
    && find /root-of-image/usr/lib -type d -empty -delete

FROM base
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
ARG BASE_DIGEST=unknown
ARG SOURCE=https://rebalancer.dev
LABEL org.opencontainers.image.title="rebalancer" \
      org.opencontainers.image.description="Keeps Kubernetes workloads spread the way kube-scheduler would count it" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="The Rebalancer authors" \
      org.opencontainers.image.url="https://rebalancer.dev" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.base.name="gcr.io/distroless/python3-debian13:nonroot" \
      org.opencontainers.image.base.digest="${BASE_DIGEST}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# One arena for each thread would keep what the threads have freed: tens of MiB.
ENV MALLOC_ARENA_MAX=2 \
    PYTHONPATH=/app \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
COPY --from=build /root-of-image /
COPY --from=build /app /app
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/python3", "-m", "rebalancer.cli.start"]
CMD ["run"]
