# Training on AMD's GPUs: a base that brings PyTorch and RCCL, and the harness beside it.
#   BASE   AMD's docker.io/rocm/pytorch:rocmX.Y_ubuntuZ_py3.N_pytorch_release_V@sha256:...
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
COPY k8s/images/install.sh /
RUN /install.sh git_client
COPY requirements/image.txt requirements/training.txt requirements/torchao.txt /locks/
RUN python3 -c 'import torch; print("torch of the base:", torch.__version__); assert torch.version.hip, "expected a build for ROCm"' && /install.sh packages training.txt torchao.txt
COPY --from=build /wheel /wheel
RUN --mount=type=bind,from=build,source=/tools,target=/tools /install.sh harness \
      plumbline.harness.training.worker.__main__ plumbline.harness.training.models.hugging_face plumbline.harness.training.models.__main__ \
      plumbline.harness.training.learners transformers.models.llama.modeling_llama peft plumbline.harness.probes.worker plumbline.harness.probes.torch_probes torchao
ENV PLUMBLINE_ENGINE_PYTHON=/opt/plumbline/bin/engine-python PYTHONPATH= \
    PATH=/opt/plumbline/bin:${PATH} \
    PLUMBLINE_HOME=/work HOME=/work USER=plumbline LOGNAME=plumbline TMPDIR=/work/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    HF_HOME=/work/cache/huggingface TORCHINDUCTOR_CACHE_DIR=/work/cache/inductor TRITON_CACHE_DIR=/work/cache/triton \
    VLLM_CACHE_ROOT=/work/cache/vllm
USER 10001:10001
WORKDIR /work
# Replaces the base's entry point, which prints a banner and probes first.
ENTRYPOINT ["python", "-m", "plumbline.harness"]
