"""The catalogue of metrics: the one place that knows a metric's unit, direction and usual statistic.

Metric, statistic, unit and direction are separate columns everywhere. Names are the field's standard ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Direction = Literal["lower_is_better", "higher_is_better", "informative"]
Unit = Literal["s", "1/s", "tokens/s", "samples/s", "ratio", "count", "bytes", "bytes/s", "FLOP/s", "W", "J", "USD", "nats", "1"]
"""`ratio` is a share or a percentage of something; `1` a plain number, such as an exponent."""
Group = Literal["latency", "throughput", "reliability", "cost", "start_up", "recovery", "hardware", "client", "quality"]

STATISTICS = ("value", "min", "p50", "p90", "p95", "p99", "max", "mean", "median", "stddev", "cv")


@dataclass(frozen=True)
class Metric:
    """One row of the catalogue.

    `statistic` is the one that scorecards and drift lead with; `warn`/`page` are the default practical thresholds of drift,
    as fractions (None: reported and charted, never a finding of its own).
    """

    name: str
    unit: Unit
    direction: Direction
    statistic: str
    group: Group
    meaning: str
    warn: float | None = None
    page: float | None = None


def _m(
    name: str,
    unit: Unit,
    direction: Direction,
    statistic: str,
    group: Group,
    meaning: str,
    warn: float | None = None,
    page: float | None = None,
) -> Metric:
    return Metric(name, unit, direction, statistic, group, meaning, warn, page)


_LOW: Direction = "lower_is_better"
_HIGH: Direction = "higher_is_better"
_NEITHER: Direction = "informative"
_READ = "declared price for the time in which a million input tokens are read, their answers included,"
_SUSTAINED = "at the highest rate that keeps the SLO (the sweep's)"
# Price over a rate that the load sets, not the provider: it ranks prices, not providers.
_OFFERED = "at the rate that the steady phase offers, which a faster provider does not change"

METRICS: dict[str, Metric] = {
    m.name: m
    for m in (
        # inference, as the client sees it
        _m("time_to_first_token", "s", _LOW, "p50", "latency", "from the scheduled arrival to the first token at the client", 0.10, 0.20),
        _m("inter_token_latency", "s", _LOW, "p50", "latency", "between two consecutive tokens of one response", 0.10, 0.20),
        _m("request_latency", "s", _LOW, "p50", "latency", "from the moment the request was sent to its last token", 0.10, 0.20),
        _m(
            "request_scheduled_latency",
            "s",
            _LOW,
            "p50",
            "latency",
            "from the scheduled arrival to the last token: what a user waits, the queue included",
            0.10,
            0.20,
        ),
        _m(
            "network_round_trip_time",
            "s",
            _LOW,
            "p50",
            "client",
            "of a TCP handshake between client and server, which the kernels answer",
        ),
        _m("tokens_per_event", "count", "informative", "mean", "client", "tokens of one answer that arrived together, at an endpoint"),
        _m("protocol_round_trip_time", "s", _LOW, "p50", "client", "of the smallest request on an idle connection to the server"),
        _m("request_dispatch_delay", "s", _LOW, "p99", "client", "how late the client sent a request: the client's own fault"),
        _m("offered_rate", "1/s", "informative", "value", "client", "requests a second that the schedule itself timed"),
        _m(
            "achieved_rate_ratio",
            "ratio",
            _HIGH,
            "value",
            "client",
            "rate at which timed requests were sent over the rate that was scheduled",
        ),
        _m("request_throughput", "1/s", _HIGH, "value", "throughput", "requests that finished without error, a second", 0.05, 0.10),
        _m("output_token_throughput", "tokens/s", _HIGH, "value", "throughput", "tokens received by the client, a second", 0.05, 0.10),
        # What requests have in them is the workload's; how many finish is told by the request throughput, which alarms.
        _m(
            "input_token_throughput",
            "tokens/s",
            "informative",
            "value",
            "throughput",
            "tokens in the prompts of finished requests, a second",
        ),
        _m(
            "output_token_throughput_per_user",
            "tokens/s",
            _HIGH,
            "p50",
            "throughput",
            "tokens a second that one request sees once it streams",
            0.10,
            0.20,
        ),
        _m(
            "goodput",
            "1/s",
            _HIGH,
            "value",
            "throughput",
            "requests a second that met every limit of the SLO; errors never count",
            0.05,
            0.10,
        ),
        # A share near 1 cannot fall by a tenth before everybody has noticed: a criterion judges it, `goodput` drifts.
        _m("goodput_ratio", "ratio", _HIGH, "value", "reliability", "requests that met every limit of the SLO over requests that were due"),
        _m(
            "highest_sustained_rate",
            "1/s",
            _HIGH,
            "value",
            "throughput",
            "highest rate of Poisson arrivals at which the declared share of requests met the SLO; its interval is the search's bracket",
            0.10,
            0.20,
        ),
        _m("error_rate", "ratio", _LOW, "value", "reliability", "requests that failed or timed out over requests scheduled"),
        _m("queue_time", "s", _LOW, "mean", "latency", "time a request waited inside the server, by the server's own statistics"),
        _m("compute_time", "s", _LOW, "mean", "latency", "time a request was computed, by the server's own statistics"),
        # the stages of a request: each explains a drift of the latencies above, which alarm
        _m("tokenization_time", "s", _LOW, "mean", "latency", "from a request's text to token ids, by the server's own account"),
        _m("prefill_time", "s", _LOW, "mean", "latency", "the model's pass over the whole prompt, by the server's own account"),
        _m("decode_time", "s", _LOW, "mean", "latency", "from the first token to the last in the model, by the server's own account"),
        _m("post_processing_time", "s", _LOW, "mean", "latency", "from token ids to text, by the server's own account"),
        _m("embedding_time", "s", _LOW, "mean", "latency", "from asking the embedding model of a retrieval until it answered"),
        _m("search_time", "s", _LOW, "mean", "latency", "the search for the documents nearest to a query"),
        _m("reranking_time", "s", _LOW, "mean", "latency", "from asking the reranking model of a retrieval until it answered"),
        _m("retrieval_time", "s", _LOW, "mean", "latency", "embedding, search and reranking together: what comes before the model"),
        _m("orchestration_time", "s", _LOW, "mean", "latency", "what a pipeline had a request for beyond all its stages: handing over"),
        _m("delivery_time", "s", _LOW, "mean", "latency", "a request's latency since it was sent less what the server accounts for"),
        _m(
            "batch_size", "count", "informative", "mean", "throughput", "inferences in one execution of the model, by the server's counters"
        ),
        _m("cache_hit_ratio", "ratio", "informative", "value", "throughput", "cache hits over look-ups, by the server's counters"),
        _m("client_cpu_per_request", "s", _LOW, "mean", "client", "CPU time that the load client spent for one request it sent"),
        _m(
            "client_cpu_utilization",
            "ratio",
            _LOW,
            "max",
            "client",
            "CPU time over wall time of the client's busiest process, one core each",
        ),
        _m("time_to_ready", "s", _LOW, "value", "start_up", "from the start of the server's process to KServe readiness"),
        _m("model_load_time", "s", _LOW, "value", "start_up", "time the model itself took to load and initialise"),
        _m("first_inference_latency", "s", _LOW, "value", "start_up", "latency of the first request after readiness"),
        # the physical floor, and what a precision costs in quality
        _m(
            "model_bandwidth_utilization",
            "ratio",
            _HIGH,
            "value",
            "hardware",
            "bytes that a decode step must read, over the mean inter-token latency and the probed memory bandwidth",
        ),
        _m(
            "prefill_flops",
            "FLOP/s",
            _HIGH,
            "value",
            "throughput",
            "floating-point operations of the prompts (attention counted causally) over the server's seconds in prefill",
        ),
        _m("prefill_flops_utilization", "ratio", _HIGH, "value", "hardware", "prefill_flops over the machine's own best matmul rate"),
        _m("memory_per_sequence", "bytes", "informative", "mean", "hardware", "keys and values that a sequence holds at its last token"),
        # how the costs of a request grow with its prompt, over the lengths of a growing context
        _m(
            "prefill_growth_exponent",
            "1",
            _LOW,
            "value",
            "latency",
            "power of the prompt's length with which prefill_time grows: 1 is proportional, 2 is attention alone",
        ),
        _m(
            "first_token_growth_exponent",
            "1",
            _LOW,
            "value",
            "latency",
            "power of the prompt's length with which time_to_first_token grows: of all that comes before the first token",
        ),
        _m(
            "inter_token_latency_growth",
            "1",
            _LOW,
            "value",
            "latency",
            "median inter_token_latency after the longest prompts over that after the shortest",
        ),
        _m(
            "memory_growth_per_sequence",
            "bytes",
            "informative",
            "max",
            "hardware",
            "the server's memory at its highest while it answers, less what it held idle, over the sequences in flight",
        ),
        _m("output_agreement", "ratio", _HIGH, "value", "quality", "how far the outputs are those of the reference precision"),
        # training
        _m(
            "step_time",
            "s",
            _LOW,
            "median",
            "latency",
            "one optimizer step, all micro-batches, in the steady state; of several ranks the slowest in each step",
            0.02,
            0.05,
        ),
        _m(
            "tokens_per_second",
            "tokens/s",
            _HIGH,
            "median",
            "throughput",
            "trained tokens a second in the steady state, all devices",
            0.02,
            0.05,
        ),
        _m(
            "tokens_per_second_per_device",
            "tokens/s",
            _HIGH,
            "median",
            "throughput",
            "tokens_per_second over the number of devices that train together",
        ),
        _m(
            "effective_tokens_per_second",
            "tokens/s",
            _HIGH,
            "value",
            "throughput",
            "trained tokens over the whole run's wall time, first step to last",
        ),
        _m(
            "effective_samples_per_second",
            "samples/s",
            _HIGH,
            "value",
            "throughput",
            "trained samples over the whole run's wall time, first step to last",
        ),
        _m(
            "samples_per_second",
            "samples/s",
            _HIGH,
            "median",
            "throughput",
            "trained samples (sequences, pairs, images, answers) a second in the steady state, all devices",
            0.02,
            0.05,
        ),
        _m(
            "samples_per_second_per_device",
            "samples/s",
            _HIGH,
            "median",
            "throughput",
            "samples_per_second over the number of devices that train together",
        ),
        _m(
            "model_flops",
            "FLOP/s",
            _HIGH,
            "median",
            "throughput",
            "floating-point operations of the model (attention counted causally) a second",
        ),
        _m(
            "model_flops_utilization",
            "ratio",
            _HIGH,
            "median",
            "throughput",
            "model_flops over the machine's own best matmul rate at that precision",
        ),
        _m(
            "model_flops_utilization_of_published_peak",
            "ratio",
            _HIGH,
            "median",
            "throughput",
            "model_flops over the dense matmul rate that the manufacturer publishes for the device at that precision",
        ),
        _m(
            "model_flops_full_attention",
            "FLOP/s",
            _HIGH,
            "median",
            "throughput",
            "model_flops with attention counted as if nothing were masked, as NVIDIA and torchtitan publish it",
        ),
        _m(
            "model_flops_utilization_full_attention",
            "ratio",
            _HIGH,
            "median",
            "throughput",
            "model_flops_full_attention over the machine's own best matmul rate at that precision",
        ),
        _m(
            "model_flops_utilization_of_published_peak_full_attention",
            "ratio",
            _HIGH,
            "median",
            "throughput",
            "model_flops_full_attention over the published dense matmul rate: the MFU of NVIDIA's and torchtitan's tables",
        ),
        _m(
            "training_peak_memory",
            "bytes",
            _LOW,
            "max",
            "hardware",
            "the most memory that a training process had in use: allocated on its GPU, or resident on a CPU; of the rank with the most",
        ),
        _m(
            "training_peak_reserved_memory",
            "bytes",
            _LOW,
            "max",
            "hardware",
            "the most memory of a GPU that torch's allocator took from the driver; of the rank with the most",
        ),
        _m(
            "device_matmul_peak",
            "FLOP/s",
            _HIGH,
            "value",
            "hardware",
            "one device's own best matmul rate at the trial's precision, after training: the peak of model_flops_utilization",
        ),
        _m(
            "device_published_peak",
            "FLOP/s",
            "informative",
            "value",
            "hardware",
            "the dense matmul rate that is published for the device: the peak of model_flops_utilization_of_published_peak",
        ),
        # Of one submitter on one system it scatters by 5.4 % (median CV): how many steps it takes is partly chance. Hence no thresholds.
        _m(
            "time_to_train",
            "s",
            _LOW,
            "value",
            "throughput",
            "from the start to the benchmark's target quality, as its publisher measured it",
        ),
        _m("data_wait_time", "s", _LOW, "mean", "latency", "time a step waited for its batch"),
        _m("rank_busy_time", "s", _LOW, "median", "latency", "what one rank's step took less what it waited for the others' gradients"),
        _m(
            "generation_share",
            "ratio",
            "informative",
            "value",
            "latency",
            "share of the steady steps' time in which answers were generated, not learnt from",
        ),
        _m("compile_time", "s", _LOW, "value", "start_up", "how long the compiler ran, all its runs: part of the first steps"),
        _m("skipped_steps", "count", _LOW, "value", "quality", "steps that fp16's loss scaling left out because gradients overflowed"),
        _m(
            "straggler_ratio",
            "1",
            _LOW,
            "value",
            "latency",
            "of several ranks, the slowest one's median step time over the median of all ranks' medians, waits for others left out",
        ),
        _m(
            "straggler_share",
            "ratio",
            "informative",
            "value",
            "latency",
            "share of steps in which the same rank was the slowest: 1 over the ranks if chance decides, 1 if it always is that one",
        ),
        _m("first_step_time", "s", _LOW, "value", "start_up", "the first optimizer step, with its allocations and compilation"),
        _m("time_to_first_step", "s", _LOW, "value", "start_up", "from the start of the training process to the end of its first step"),
        _m("weights_load_time", "s", _LOW, "value", "start_up", "time to read the stored weights that a fine-tuning begins with"),
        _m("warmup_time", "s", _LOW, "value", "start_up", "from the start of the first step to the first steady one, compilation included"),
        _m("final_loss", "nats", "informative", "value", "quality", "loss of the last measured step"),
        _m(
            "training_loss",
            "nats",
            "informative",
            "mean",
            "quality",
            "loss of a step, before its update, over all samples of all processes",
        ),
        _m(
            "mean_reward",
            "ratio",
            "informative",
            "value",
            "quality",
            "of reinforcement learning: reward of the answers of the last measured step, whose loss is 1 less this",
        ),
        _m("checkpoint_save_time", "s", _LOW, "median", "recovery", "from the start of a save to durable bytes"),
        _m("checkpoint_blocking_time", "s", _LOW, "median", "recovery", "how long a save held up training"),
        _m("checkpoint_load_time", "s", _LOW, "median", "recovery", "from the start of a load to state in place"),
        _m("checkpoint_size", "bytes", "informative", "value", "recovery", "bytes of one checkpoint"),
        _m(
            "checkpoint_save_bandwidth",
            "bytes/s",
            _HIGH,
            "median",
            "recovery",
            "bytes of a checkpoint over the time until they were durable (fsync included)",
        ),
        _m("checkpoint_load_bandwidth", "bytes/s", _HIGH, "value", "recovery", "bytes of a checkpoint over the time of a load"),
        _m(
            "restart_penalty",
            "s",
            _LOW,
            "value",
            "recovery",
            "from the fault to the step that was under way being done again, all attempts: detect + launch + load + recompute",
        ),
        _m("restart_detect_time", "s", _LOW, "value", "recovery", "from the fault until the supervisor noticed it"),
        _m("restart_launch_time", "s", _LOW, "value", "recovery", "from detection until the new process starts to load its state"),
        _m("restart_recompute_time", "s", _LOW, "value", "recovery", "steps done again since the checkpoint"),
        _m("training_restarts", "count", "informative", "value", "recovery", "how often training was started again, planned or not"),
        _m(
            "training_goodput",
            "ratio",
            _HIGH,
            "value",
            "throughput",
            "time in useful steps over wall time, failures and checkpoints included",
        ),
        # hardware probes
        _m(
            "matmul_tflops",
            "FLOP/s",
            _HIGH,
            "max",
            "hardware",
            "best matrix multiplication the probe reached, of random numbers: in fp32 on a CPU, in bf16 on a GPU",
        ),
        _m("matmul_tflops_fp32", "FLOP/s", _HIGH, "max", "hardware", "the same in fp32, without reduced precision inside"),
        _m("matmul_tflops_tf32", "FLOP/s", _HIGH, "max", "hardware", "the same in fp32 with factors rounded to TF32"),
        _m("matmul_tflops_bf16", "FLOP/s", _HIGH, "max", "hardware", "the same in bf16"),
        _m("matmul_tflops_fp16", "FLOP/s", _HIGH, "max", "hardware", "the same in fp16"),
        _m("matmul_tflops_fp8", "FLOP/s", _HIGH, "max", "hardware", "the same of e4m3 factors with one scale each, result in bf16"),
        _m(
            "memory_bandwidth",
            "bytes/s",
            _HIGH,
            "max",
            "hardware",
            "best copy bandwidth of main (or device) memory, bytes read plus written",
        ),
        _m("host_to_device_bandwidth", "bytes/s", _HIGH, "max", "hardware", "copy from page-locked main memory to the slowest GPU"),
        _m("device_to_host_bandwidth", "bytes/s", _HIGH, "max", "hardware", "copy from the slowest GPU to page-locked main memory"),
        _m(
            "all_reduce_bus_bandwidth",
            "bytes/s",
            _HIGH,
            "max",
            "hardware",
            "bus bandwidth of an all-reduce over all ranks: bytes over time, times 2(n-1)/n",
        ),
        _m("disk_write_bandwidth", "bytes/s", _HIGH, "median", "hardware", "sequential write with fsync where checkpoints go"),
        _m("disk_read_bandwidth", "bytes/s", _HIGH, "median", "hardware", "sequential read of what was written, page cache dropped"),
        _m(
            "dataset_read_bandwidth",
            "bytes/s",
            _HIGH,
            "value",
            "hardware",
            "windows at random places of a memory-mapped file, page cache dropped before: how a batch is read",
        ),
        _m("peer_round_trip_time", "s", _LOW, "median", "hardware", "one small message over TCP to another node and back"),
        _m("peer_bandwidth", "bytes/s", _HIGH, "max", "hardware", "one TCP connection to another node, all bytes acknowledged"),
        *(
            _m(
                f"inter_node_{name}_{kind}_bandwidth",
                "bytes/s",
                _HIGH,
                "max",
                "hardware",
                f"{what} over all ranks of several nodes, best size: {how}",
            )
            for name, what, factor in (
                ("all_reduce", "all-reduce", "2(n-1)/n"),
                ("all_gather", "all-gather", "(n-1)/n"),
                ("all_to_all", "all-to-all", "(n-1)/n"),
            )
            for kind, how in (("bus", f"bytes over time, times {factor}"), ("algorithm", "bytes over time"))
        ),
        # what only the outside sees
        _m("provisioning_lead_time", "s", _LOW, "value", "start_up", "from the request for the trial to its process running"),
        _m("pod_scheduling_time", "s", _LOW, "value", "start_up", "from the pod's creation to its node"),
        _m("image_pull_time", "s", _LOW, "value", "start_up", "time the node took to pull the image"),
        _m("time_to_recover", "s", _LOW, "value", "recovery", "from the end of a fault to service within the SLO again", 0.10, 0.25),
        _m("requests_lost", "count", _LOW, "value", "recovery", "requests that failed because of a fault, until the service was back"),
        _m(
            "model_unload_time",
            "s",
            _LOW,
            "value",
            "recovery",
            "from the request to unload a model to its being gone, running requests included",
        ),
        # money and energy
        _m("cost_per_run", "USD", _LOW, "value", "cost", "declared price for the time that one trial held the provider"),
        _m(
            "cost_per_finished_run",
            "USD",
            _LOW,
            "value",
            "cost",
            "declared price for the time that one finished run held the provider, and its share of the time of attempts that came to nothing",
        ),
        _m("cost_per_epoch", "USD", _LOW, "value", "cost", "declared price for one pass over the declared data"),
        _m("cost_per_1k_requests", "USD", _LOW, "value", "cost", f"declared price for a thousand requests {_SUSTAINED}"),
        _m("cost_per_1k_requests_at_offered_rate", "USD", _NEITHER, "value", "cost", f"declared price for a thousand requests {_OFFERED}"),
        _m("cost_per_1m_input_tokens", "USD", _LOW, "value", "cost", f"{_READ} {_SUSTAINED}"),
        _m("cost_per_1m_input_tokens_at_offered_rate", "USD", _NEITHER, "value", "cost", f"{_READ} {_OFFERED}"),
        _m("cost_per_1m_output_tokens", "USD", _LOW, "value", "cost", f"declared price for a million output tokens {_SUSTAINED}"),
        _m(
            "cost_per_1m_output_tokens_at_offered_rate",
            "USD",
            _NEITHER,
            "value",
            "cost",
            f"declared price for a million output tokens {_OFFERED}",
        ),
        _m("cost_per_1m_trained_tokens", "USD", _LOW, "value", "cost", "declared price for a million trained tokens at the steady rate"),
        _m(
            "cost_per_1m_trained_samples",
            "USD",
            _LOW,
            "value",
            "cost",
            "declared price for a million trained samples at the steady rate, of what has no tokens",
        ),
        _m("cost_per_good_request", "USD", _LOW, "value", "cost", f"declared price for one request that met its SLO, {_SUSTAINED}"),
        _m(
            "cost_per_good_request_at_offered_rate",
            "USD",
            _NEITHER,
            "value",
            "cost",
            f"declared price for one request that met its SLO, {_OFFERED}",
        ),
        _m("gpu_power", "W", "informative", "mean", "hardware", "power drawn by the accelerators"),
        _m("energy_per_output_token", "J", _LOW, "value", "cost", "accelerator energy for one output token"),
        _m("energy_per_trained_token", "J", _LOW, "mean", "cost", "accelerator power over trained tokens a second, in the steady state"),
    )
}


def metric(name: str) -> Metric:
    """The metric called `name`; KeyError with the nearest names if there is none."""
    try:
        return METRICS[name]
    except KeyError:
        from difflib import get_close_matches

        near = get_close_matches(name, METRICS, n=3) or sorted(METRICS)[:3]
        raise KeyError(f'unknown metric "{name}"; expected one of the catalogue, such as {", ".join(near)}') from None
