# The image of every remote step: Kubeflow Pipelines and Vertex AI pass a command; Beam
# workers start from the entry point. docs/image.md describes its build, use and check.
# Build arguments: ACCELERATOR (cpu or gpu), USER_ID, REVISION.

# The newest stack of stacks/stacks.txt on its preferred Python, and a Debian with the
# glibc it needs. Beam's version is that of the stack's lock; `make check-image` compares.
ARG PYTHON_VERSION=3.13
ARG DEBIAN_RELEASE=trixie
ARG BEAM_VERSION=2.77.0
ARG ACCELERATOR=cpu

FROM apache/beam_python${PYTHON_VERSION}_sdk:${BEAM_VERSION} AS beam

# The packages are installed into the image's Python, not into a virtual environment:
# Beam's boot makes its own, which sees the packages of this Python only. The base
# image's setuptools and wheel would mix with the lock's.
FROM python:${PYTHON_VERSION}-slim-${DEBIAN_RELEASE} AS python
RUN python -m pip uninstall --quiet --yes --root-user-action ignore setuptools wheel

FROM python AS packages
WORKDIR /build
COPY stacks/1.21/requirements.lock stacks/1.21/
COPY tools/install_image.sh tools/
ENV PATH=/opt/uv/bin:$PATH
RUN --mount=type=cache,target=/root/.cache \
    bash tools/install_image.sh uv /opt/uv \
    && bash tools/install_image.sh packages /opt/packages

FROM packages AS project
COPY LICENSE pyproject.toml setup.py ./
COPY bert_runtime bert_runtime/
COPY components components/
COPY contracts contracts/
COPY ingest ingest/
COPY modules modules/
COPY pipeline pipeline/
COPY prediction prediction/
COPY report report/
COPY sample_data sample_data/
COPY serving serving/
RUN --mount=type=cache,target=/root/.cache \
    bash tools/install_image.sh project /opt/project

# Depends on gpu.lock only, so that a change of the other lock keeps this layer.
FROM python AS accelerator
WORKDIR /build
COPY stacks/1.21/gpu.lock stacks/1.21/
COPY tools/install_image.sh tools/
RUN --mount=type=cache,target=/root/.cache \
    bash tools/install_image.sh accelerator /opt/accelerator

# Layers that change least come first: a new revision replaces the project's layer only.
FROM python AS runtime-cpu
# KFP's launcher writes below /gcs, /minio and /s3, Beam's boot below /opt/apache, and
# libraries below the home folder. Group 0, because OpenShift assigns a random user id.
RUN useradd --uid 1000 --gid 0 --home-dir /home/pipeline --no-create-home pipeline \
    && install --directory --owner 1000 --group 0 --mode 775 \
       /home/pipeline /gcs /minio /s3 /opt/apache/beam-venv
COPY --from=beam /opt/apache/beam /opt/apache/beam
COPY --from=packages /opt/packages /usr/local
# TFX's entry point imports TensorFlow before our code can select Keras 2.
ENV TF_USE_LEGACY_KERAS=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/home/pipeline

FROM runtime-cpu AS runtime-gpu
COPY --from=accelerator /opt/accelerator /usr/local
# TensorFlow finds the libraries above by itself. The driver is the host's: Docker adds
# it because of the NVIDIA_ variables, Google's machines mount it at this path.
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    LD_LIBRARY_PATH=/usr/local/nvidia/lib64 \
    PATH=/usr/local/nvidia/bin:$PATH

# Lists what the image has: /usr/local/share/sbom/sbom.cdx.json.
# hadolint ignore=DL3006
FROM runtime-${ACCELERATOR} AS sbom
COPY --from=packages /opt/uv /opt/uv
COPY --from=project /opt/project /usr/local
WORKDIR /build
COPY stacks/1.21/requirements.lock stacks/1.21/
COPY tools/install_image.sh tools/sbom.txt tools/
ENV PATH=/opt/uv/bin:$PATH
RUN --mount=type=cache,target=/root/.cache \
    HOME=/root bash tools/install_image.sh sbom /opt/sbom

# hadolint ignore=DL3006
FROM runtime-${ACCELERATOR}
COPY --from=project /opt/project /usr/local
COPY --from=sbom /opt/sbom /usr/local
WORKDIR /home/pipeline
ARG USER_ID=1000
USER ${USER_ID}:0
ENTRYPOINT ["/opt/apache/beam/boot"]
ARG REVISION=unknown
# What `bert-pipeline --version` prints.
ENV BERT_PIPELINE_COMMIT=${REVISION}
LABEL org.opencontainers.image.title="bert-fine-tuning-pipeline" \
      org.opencontainers.image.description="Fine-tunes BERT on text pairs as a TFX pipeline" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision="${REVISION}"
