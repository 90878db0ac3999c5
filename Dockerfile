# Gangwright: the extender beside kube-scheduler (`gangwright serve`), the elastic master, and the command line.
#
#   docker build -t gangwright:0.2.0 .
#
# Build a release from an image with a fixed digest:
#   docker build --build-arg PYTHON_DIGEST=@sha256:… -t gangwright:0.2.0 .
ARG PYTHON_TAG=3.11-slim-bookworm
ARG PYTHON_DIGEST=

FROM python:${PYTHON_TAG}${PYTHON_DIGEST} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src

# The build tools are pinned by hash too: the developers' lock contains the build backend. None of it reaches the image.
COPY requirements-dev.lock ./
RUN python -m venv /opt/tools \
    && /opt/tools/bin/pip install --require-hashes --only-binary=:all: -r requirements-dev.lock

# The lock before the sources: a code change does not download all dependencies again.
COPY requirements.lock ./
RUN python -m venv /opt/gangwright \
    && /opt/gangwright/bin/pip install --require-hashes --only-binary=:all: -r requirements.lock

COPY pyproject.toml README.md LICENSE NOTICE ./
COPY scheduler scheduler
RUN /opt/tools/bin/pip wheel --no-deps --no-build-isolation --no-index --wheel-dir /wheels . \
    && /opt/gangwright/bin/pip install --no-deps --no-index /wheels/*.whl \
    && /opt/gangwright/bin/python -m pip uninstall --yes pip setuptools

# Nothing is downloaded, compiled or written from here on: the image runs without a network and on a read-only root.
FROM python:${PYTHON_TAG}${PYTHON_DIGEST}
COPY --from=build /opt/gangwright /opt/gangwright
ENV PATH=/opt/gangwright/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /
# A number, so that Kubernetes can verify that it is not root. The same as in manifests/base/deployment.yaml.
USER 65532:65532
# Probes and metrics. The extender endpoints (10270) listen on loopback.
EXPOSE 10271
ENTRYPOINT ["gangwright"]
CMD ["--help"]
