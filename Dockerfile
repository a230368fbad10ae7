# The image of the agent and the name server: no shell tricks, no root, nothing written to its own files.
# Every distribution is pinned by version and hash, and so is the base. A newer one is a build argument:
# --build-arg BASE=python:3.11-slim-bookworm@sha256:…
ARG BASE=python:3.11-slim-bookworm@sha256:b18992999dbe963a45a8a4da40ac2b1975be1a776d939d098c647482bcad5cba
FROM ${BASE} AS built
WORKDIR /source
COPY pyproject.toml README.md LICENSE requirements.lock requirements-runtime.lock ./
COPY src src
RUN python -m venv /build \
 && /build/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.lock \
 && /build/bin/pip wheel --no-deps --no-build-isolation --disable-pip-version-check -w /wheels .
RUN python -m venv /hanse \
 && /hanse/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements-runtime.lock \
 && /hanse/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-index /wheels/hanse-*.whl \
 && /hanse/bin/python -m compileall -q /hanse/lib \
 && /hanse/bin/pip uninstall -q -y pip setuptools

FROM ${BASE}
LABEL org.opencontainers.image.title="hanse" \
      org.opencontainers.image.description="A federation control plane for Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0"
# For `hanse guard`, which changes the rules of its node through libnftables.
RUN apt-get update && apt-get install -y --no-install-recommends libnftables1 && rm -rf /var/lib/apt/lists/*
COPY --from=built /hanse /hanse
ENV PATH=/hanse/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["hanse"]
CMD ["--help"]
