# Inference on GPUs: NVIDIA's Triton with one engine, and the harness beside it. The engine is chosen by the base:
#   BASE     nvcr.io/nvidia/tritonserver:YY.MM-vllm-python-py3@sha256:...    ENGINE=vllm
#            nvcr.io/nvidia/tritonserver:YY.MM-trtllm-python-py3@sha256:...  ENGINE=tensorrt_llm
#   ENGINE   what the base must hold; the build fails if it does not
ARG BASE
FROM ${BASE} AS build
COPY requirements/image-tools.txt /locks/
COPY k8s/images/install.sh pyproject.toml README.md LICENSE /src/
# The rooms that run in a pod, and no others: the image changes when what measures changes.
COPY include/plumbline/__init__.py include/plumbline/py.typed /src/include/plumbline/
COPY include/plumbline/declarations /src/include/plumbline/declarations
COPY include/plumbline/results /src/include/plumbline/results
COPY include/plumbline/harness /src/include/plumbline/harness
RUN cp /src/install.sh / && /install.sh wheel

FROM ${BASE}
ARG BASE
ARG ENGINE
RUN python3 -c "import importlib.util as u, sys; sys.exit(None if u.find_spec('${ENGINE}') else 'ENGINE is \'${ENGINE}\', which this base does not hold; expected vllm or tensorrt_llm')"
COPY k8s/images/install.sh /
COPY requirements/image.txt /locks/
RUN /install.sh packages
COPY --from=build /wheel /wheel
RUN --mount=type=bind,from=build,source=/tools,target=/tools /install.sh harness
ENV PLUMBLINE_TRITONSERVER=/opt/tritonserver/bin/tritonserver \
    PATH=/opt/plumbline/bin:/opt/tritonserver/bin:${PATH} \
    PLUMBLINE_HOME=/work HOME=/work TMPDIR=/work/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /work
# Replaces the base's entry point, which prints and probes before it starts anything.
ENTRYPOINT ["python", "-m", "plumbline.harness"]
