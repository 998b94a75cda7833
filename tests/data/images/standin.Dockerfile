# Stands for a GPU vendor's image in tests/integration/test_gpu_images.py: torch (for CPUs), the packages that an engine pins at other
# versions than the harness's lock, an engine and a tritonserver by name alone.
ARG BASE
FROM ${BASE}
ARG TORCH
RUN python3 -m venv /tmp/tools && /tmp/tools/bin/pip install --no-cache-dir --no-compile --target /usr/local/lib/python3.11/dist-packages \
      torch==${TORCH} numpy==2.2.6 pydantic==2.11.10 transformers==4.57.3 huggingface-hub==0.36.0 tokenizers==0.22.1 && rm -rf /tmp/tools
RUN site=/usr/local/lib/python3.11/dist-packages && mkdir $site/vllm $site/vllm-0.11.0.dist-info && \
    printf 'import pydantic, torch, transformers\nassert transformers.__version__ == "4.57.3", transformers.__file__\nassert pydantic.VERSION == "2.11.10", pydantic.__file__\n' >$site/vllm/__init__.py && \
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.11.0\nRequires-Dist: transformers<5\nRequires-Dist: pydantic==2.11.10\n' >$site/vllm-0.11.0.dist-info/METADATA && \
    mkdir -p /opt/tritonserver/bin /opt/tritonserver/backends/vllm && printf '#!/bin/sh\n' >/opt/tritonserver/bin/tritonserver
