# Inference on GPUs: NVIDIA's Triton with one engine, and the harness beside it. The engine is chosen by the base:
#   BASE          nvcr.io/nvidia/tritonserver:YY.MM-vllm-python-py3@sha256:...    ENGINE=vllm
#                 nvcr.io/nvidia/tritonserver:YY.MM-trtllm-python-py3@sha256:...  ENGINE=tensorrt_llm
#                 nvcr.io/nvidia/tritonserver:YY.MM-py3@sha256:...                ENGINE=onnxruntime (for the backends onnxruntime and pytorch)
#   ENGINE        the base's engine; the build fails if the base lacks it
#   TORCH_INDEX   package index of torch where the base has none (ENGINE=onnxruntime); default: pip's configured index
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
ARG ENGINE
ARG TORCH_INDEX
ARG TORCH_SHA256
RUN case "${ENGINE}" in \
      vllm|tensorrt_llm) python3 -c "import importlib.util as u, sys; sys.exit(not u.find_spec('${ENGINE}'))" ;; \
      onnxruntime) test -d /opt/tritonserver/backends/onnxruntime ;; \
      *) false ;; \
    esac || { echo "ENGINE is '${ENGINE}', which this base lacks; expected vllm, tensorrt_llm or onnxruntime" >&2; exit 1; }
COPY k8s/images/install.sh /
COPY requirements/image.txt requirements/image-cpu.txt requirements/image-onnx.txt requirements/torch.txt /locks/
# The base of the tensor backends lacks torch, which builds the models that they serve.
RUN if [ "${ENGINE}" = onnxruntime ]; then /install.sh packages image-cpu.txt torch.txt image-onnx.txt; else /install.sh packages; fi
COPY --from=build /wheel /wheel
RUN --mount=type=bind,from=build,source=/tools,target=/tools /install.sh harness \
      plumbline.harness.inference.models.reference_worker plumbline.harness.probes.worker plumbline.harness.probes.torch_probes tokenizers tritonclient.grpc
ENV PLUMBLINE_TRITONSERVER=/opt/tritonserver/bin/tritonserver \
    PLUMBLINE_ENGINE_PYTHON=/opt/plumbline/bin/engine-python PYTHONPATH= \
    PATH=/opt/plumbline/bin:/opt/tritonserver/bin:${PATH} \
    PLUMBLINE_HOME=/work HOME=/work USER=plumbline LOGNAME=plumbline TMPDIR=/work/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    HF_HOME=/work/cache/huggingface TORCHINDUCTOR_CACHE_DIR=/work/cache/inductor TRITON_CACHE_DIR=/work/cache/triton \
    VLLM_CACHE_ROOT=/work/cache/vllm
USER 10001:10001
WORKDIR /work
# Replaces the base's entry point, which prints a banner and probes first.
ENTRYPOINT ["python", "-m", "plumbline.harness"]
