# The image of the agent and the name server: no shell tricks, no root, nothing written to its own files.
FROM python:3.11-slim AS built
WORKDIR /source
COPY pyproject.toml README.md LICENSE requirements.lock ./
COPY src src
RUN python -m venv /hanse \
 && /hanse/bin/pip install --no-cache-dir --disable-pip-version-check -c requirements.lock . \
 && /hanse/bin/python -m compileall -q /hanse/lib \
 && /hanse/bin/pip uninstall -q -y pip setuptools

FROM python:3.11-slim
LABEL org.opencontainers.image.title="hanse" \
      org.opencontainers.image.description="A federation control plane for Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=built /hanse /hanse
ENV PATH=/hanse/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["hanse"]
CMD ["--help"]
