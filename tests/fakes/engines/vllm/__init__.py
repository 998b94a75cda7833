"""The part of vLLM's surface that vllm_model.py uses."""

from vllm.sampling_params import SamplingParams

__all__ = ["SamplingParams"]
__version__ = "0.0.fake"
