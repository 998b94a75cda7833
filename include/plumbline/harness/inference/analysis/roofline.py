"""The physical floor beside each figure: what the hardware must at least do for the answers that came, over what it was probed to do.

Decode    each step reads every weight of a matrix product once, for all sequences together, and each sequence's keys and values:
              bytes = weights + sequences × tokens in a sequence × key/value bytes a token
              model_bandwidth_utilization = bytes / mean inter-token latency / memory_bandwidth
          140 GB of weights at 3.35 TB/s take 42 ms a token, whatever computes; a model that is split over several GPUs is read by all of
          them at once, and their bandwidths add up, as their operations do below. `sequences` is the mean number that was streaming while any
          was: their residence, first to last token, over the time in which there was one. Above 1 the weights stay in a cache.
Prefill   2 operations a weight of each layer and token, 2 a weight of the head (for the last token only), and attention's 4·width a layer
          and pair of query and key; a causal model sees t·(t + 1)/2 pairs, an encoder t²:
              prefill_flops = operations / seconds in prefill, as the server tells them
              prefill_flops_utilization = prefill_flops / matmul_tflops
          A causal LM that computes other requests in the same steps spends part of that time on them: the figure is a lower bound. An encoder
          tells each text of a batch the same time, the whole batch's, which counts once. The probe is in fp32 on a CPU and in bf16 on a GPU,
          so another precision can pass 1.
Memory    memory_per_sequence = key/value bytes a token × tokens, input and output: what each sequence holds when its last token comes
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.workloads.checkpoints import Checkpoint
from plumbline.declarations.workloads.models import PATCH_BYTES, Encoder, Llama, ServedGpt, ServingPrecision
from plumbline.loadclient.request_log import RequestLog
from plumbline.results import MetricRow, metric_row

WEIGHT_BYTES: dict[ServingPrecision, float] = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "int4": 0.5}
Model = ServedGpt | Llama | Encoder
Counts = NDArray[np.integer[Any]]


def roofline_rows(workload: InferenceWorkload, log: RequestLog, probes: Sequence[MetricRow]) -> list[MetricRow]:
    """The rows above for one phase, those for which everything was measured. `probes`: `matmul_tflops` and `memory_bandwidth`, or nothing."""
    if not log.finished:
        return []
    if isinstance(workload.model, Checkpoint):
        return _checkpoint_memory(workload.model, log, log.load.input_tokens[log.ok])
    # A GPU is probed alone; of our own models one GPU serves, whatever is declared.
    split = workload.needs.count if isinstance(workload.model, Llama) and workload.needs.accelerator != "cpu" else 1
    probed = {probe.metric: probe.value * split for probe in probes if probe.value}
    read = log.load.input_tokens[log.ok] + workload.added_tokens
    rows = [] if isinstance(workload.model, Encoder) else _decode(workload.model, log, read, probed.get("memory_bandwidth"))
    # What came from a prefix cache was not computed, and who had how much of it is not known.
    if workload.server.prefix_cache == "off":
        rows += _prefill(workload.model, log, read, probed.get("matmul_tflops"))
    return rows


def matmul_parameters(model: Model) -> tuple[int, int]:
    """Weights that are factors of a matrix product: of all layers, and of the head. Embeddings are looked up, norms and biases added."""
    if isinstance(model, Llama):
        attention = 2 * model.width**2 + 2 * model.width * model.kv_heads * (model.width // model.heads)
        return model.layers * (attention + 3 * model.width * model.feed_forward), model.vocabulary * model.width
    if isinstance(model, Encoder):
        patches = PATCH_BYTES * model.width * (model.task == "vision")
        return 12 * model.layers * model.width**2 + patches, model.width * (model.task == "reranking")
    return 12 * model.layers * model.width**2, model.vocabulary * model.width


def kv_bytes_per_token(model: ServedGpt | Llama) -> int:
    """Bytes of one token's keys and values in all layers."""
    if isinstance(model, Llama):
        # Engines keep them in the precision of activations unless they are told otherwise.
        return 2 * model.layers * model.kv_heads * (model.width // model.heads) * (4 if model.precision == "fp32" else 2)
    # The project's own int8 is of matrix products alone.
    return 2 * model.layers * model.width * (2 if model.precision in ("bf16", "fp16") else 4)


def step_bytes(model: ServedGpt | Llama, sequences: float, tokens: float) -> float:
    """Bytes that one decode step must read for `sequences` sequences of `tokens` tokens each."""
    return sum(matmul_parameters(model)) * WEIGHT_BYTES[model.precision] + sequences * tokens * kv_bytes_per_token(model)


def prefill_operations(model: Model, tokens: int) -> float:
    """Floating-point operations of a prompt of `tokens` tokens."""
    layers, head = matmul_parameters(model)
    pairs = tokens**2 if isinstance(model, Encoder) else tokens * (tokens + 1) / 2
    return 2.0 * layers * tokens + 2.0 * head + 4.0 * model.layers * model.width * pairs


def arithmetic_share(workload: InferenceWorkload, log: RequestLog, rate: float, matmul: float | None) -> float | None:
    """Operations of `rate` requests a second such as those of `log`, over what `matmul_tflops` probed (FLOP/s); None where either is not known."""
    model = workload.model
    if isinstance(model, Checkpoint) or not matmul or not log.finished or workload.retrieval is not None:
        return None
    split = workload.needs.count if isinstance(model, Llama) and workload.needs.accelerator != "cpu" else 1
    read, written = log.load.input_tokens[log.ok] + workload.added_tokens, log.written[log.ok]
    operations = float(np.mean([prefill_operations(model, int(n)) for n in read]))
    if not isinstance(model, Encoder):
        layers, head = matmul_parameters(model)
        context = float(np.mean(read + written / 2))
        operations += float(np.mean(written - 1)) * (2.0 * (layers + head) + 4.0 * model.layers * model.width * context)
    return operations * rate / (matmul * split)


def mean_streaming(log: RequestLog) -> float:
    """Mean number of streaming sequences while there was one; NaN: never. Of several servers the mean, as each reads its own weights."""
    some = ~np.isnan(log.time_per_output_token)
    if log.replica is None:
        return _mean_streaming(log, some)
    each = [_mean_streaming(log, some & (log.replica == k)) for k in np.unique(log.replica[some])]
    return float(np.mean(each)) if each else float("nan")


def _mean_streaming(log: RequestLog, some: NDArray[np.bool_]) -> float:
    starts, ends = np.sort(log.first_token[some]), np.sort(log.last_token[some])
    # With both sorted, the k-th end before the next start closes a stretch: nobody is left between them.
    edges = [0, *(np.flatnonzero(starts[1:] > ends[:-1]) + 1), len(starts)]
    busy = sum(float(ends[b - 1] - starts[a]) for a, b in pairwise(edges) if b > a)
    return float((ends - starts).sum()) / busy if busy > 0 else float("nan")


def _checkpoint_memory(model: Checkpoint, log: RequestLog, read: Counts) -> list[MetricRow]:
    """Of any architecture only this is known: which weights a step reads depends on its experts and its quantisation."""
    if model.kv_cache_bytes_per_token is None:
        return []
    return _memory_rows(model.kv_cache_bytes_per_token, log, read)


def _memory_rows(bytes_per_token: float, log: RequestLog, read: Counts) -> list[MetricRow]:
    cache_bytes = (read + log.written[log.ok].astype(float)) * bytes_per_token
    rows = [metric_row("memory_per_sequence", float(cache_bytes.mean()), len(cache_bytes), phase=log.load.name)]
    rows.append(metric_row("memory_per_sequence", float(cache_bytes.max()), len(cache_bytes), phase=log.load.name, statistic="max"))
    return rows


def _decode(model: ServedGpt | Llama, log: RequestLog, read: Counts, bandwidth: float | None) -> list[MetricRow]:
    phase, written = log.load.name, log.written[log.ok].astype(float)
    rows = _memory_rows(kv_bytes_per_token(model), log, read)
    gaps = log.gaps()
    if bandwidth and len(gaps) and gaps.mean() > 0:
        # Over a response's steps its sequence grows evenly, and a long response has more of them.
        tokens = float(np.average(read + written / 2, weights=written - 1))
        needed = step_bytes(model, mean_streaming(log), tokens)
        rows.append(metric_row("model_bandwidth_utilization", needed / float(gaps.mean()) / bandwidth, len(gaps), phase=phase))
    return rows


def _prefill(model: Model, log: RequestLog, read: Counts, matmul: float | None) -> list[MetricRow]:
    phase, ok = log.load.name, log.ok
    seconds = log.server_s[ok, log.stages.index("prefill")]
    if not np.isfinite(seconds).all() or seconds.sum() <= 0:
        return []
    done = sum(prefill_operations(model, int(n)) for n in read)
    # To the last of its 52 bits two batches do not take equally long: equal times are one batch's.
    rate = done / float((np.unique(seconds) if isinstance(model, Encoder) else seconds).sum())
    rows = [metric_row("prefill_flops", rate, len(seconds), phase=phase)]
    return rows + ([metric_row("prefill_flops_utilization", rate / matmul, len(seconds), phase=phase)] if matmul else [])
