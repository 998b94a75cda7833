"""Latency of an open-loop load as this load generator and as `vllm bench serve` report it: same server, arrivals and lengths.

    PLUMBLINE_VLLM_PYTHON=…/bin/python python perf/vllm_bench.py CHECKPOINT

The arrivals are a Poisson process. In turns, both replay the same arrivals one after the other, which needs a quiet machine. With --together both
load the server at the same time, each with arrivals of the same rate, and only what both sent in the same seconds counts. Both tools send token ids and count from the moment of sending. TPOT is (last − first token) / (tokens − 1)."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plumbline.harness import engine_python
from plumbline.harness.inference.endpoint import openai_wire
from plumbline.harness.inference.server.openai_server import OpenAiModel, OpenAiServer
from plumbline.loadclient.http_requests import completion_request
from plumbline.loadclient.load_generator import drive
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.transport import Target

LIMIT = 0.03
TOGETHER_S = 480
"""Arrivals are drawn for so long: more than the other tool takes to start and to finish."""
COMMAND = ["{vllm}", "serve", "{model}", "--host", "{host}", "--port", "{port}", "--served-model-name", "{served_name}"]
COMMAND += [
    "--max-model-len",
    "{context}",
    "--dtype",
    "float32",
    "--enforce-eager",
    "--gpu-memory-utilization",
    "0.5",
    "--no-enable-prefix-caching",
]
METRICS = ("ttft", "tpot", "e2el")
Latencies = Mapping[str, NDArray[np.float64]]


def arrivals(rate: float, n: int, seed: int) -> NDArray[np.float64]:
    """Seconds of n arrivals, whole microseconds."""
    gaps = np.random.default_rng(seed).exponential(1 / rate, n)
    at: NDArray[np.float64] = np.round(np.cumsum(gaps) - gaps[0], 6)
    return at


def ours(
    server: OpenAiServer,
    at: NDArray[np.float64],
    read: int,
    written: int,
    vocabulary: int,
    seed: int,
    until: Callable[[], bool] = lambda: False,
) -> Latencies:
    """Seconds of each request, and `sent`, the clock's seconds. `until`: stop sending once it is true."""
    n, rng = len(at), np.random.default_rng(seed)
    lengths = np.full(n, read, np.int32), np.full(n, written, np.int32)
    load = PhaseLoad("steady", float(at[-1]) + 1, at, *lengths, np.full(n, -1, np.int32))
    prompts = [Prompt(rng.integers(4, vocabulary, read, dtype=np.int32)) for _ in range(n)]
    bodies = [completion_request(server.served_name, prompt, written, chat=False, exact=True) for prompt in prompts]
    target = Target(server.address, openai_wire(server.served_name, text=False), server.running, protocol="openai", path="/v1")
    log = drive(load, bodies, target, timeout_s=120, stop=lambda _: until())
    if log.finished < log.n:
        raise SystemExit(f"{log.n - log.finished} of {log.n} requests failed: {log.first_error()}")
    first, last, sent = log.first_token - log.dispatched, log.last_token - log.dispatched, log.began + log.dispatched
    latencies = {"ttft": first, "tpot": (last - first) / (written - 1), "e2el": last, "sent": sent}
    return {name: values[log.ok] for name, values in latencies.items()}


def theirs(vllm: Path, server: OpenAiServer, at: NDArray[np.float64], read: int, written: int, folder: Path) -> Latencies:
    """Seconds of each request; end to end is their first token plus their gaps."""
    trace, result = folder / "trace.jsonl", folder / "result.json"
    rows = [
        {"timestamp": float(t), "input_length": read, "output_length": written, "hash_ids": list(range(100 * i, 100 * i + 100))}
        for i, t in enumerate(at)
    ]
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [
        *(str(vllm), "bench", "serve", "--backend", "openai", "--base-url", f"http://{server.address}", "--model", server.served_name),
        *("--tokenizer", str(server.model.folder), "--dataset-name", "timed_trace", "--dataset-path", str(trace)),
        *("--timed-trace-label-timestamp", "timestamp", "--timed-trace-label-input-length", "input_length"),
        *("--timed-trace-label-output-length", "output_length", "--timed-trace-label-hash-ids", "hash_ids"),
        *("--num-prompts", str(len(at)), "--temperature", "0", "--disable-tqdm", "--save-result", "--save-detailed"),
        *("--result-dir", str(folder), "--result-filename", result.name, "--percentile-metrics", "ttft,tpot,e2el"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not result.exists():
        raise SystemExit(f"vllm bench serve ended with {done.returncode}: {(done.stderr or done.stdout)[-2000:]}")
    report = json.loads(result.read_text())
    if report["completed"] < len(at):
        raise SystemExit(f"vllm bench serve completed {report['completed']} of {len(at)} requests")
    first, gaps = np.array(report["ttfts"]), np.array([sum(each) for each in report["itls"]])
    sent = np.array(report["start_times"])
    return {"ttft": first, "tpot": gaps / (np.array(report["output_lens"]) - 1), "e2el": first + gaps, "sent": sent}


def within(latencies: Latencies, begin: float, end: float) -> Latencies:
    chosen = (latencies["sent"] >= begin) & (latencies["sent"] <= end)
    return {name: values[chosen] for name, values in latencies.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--rate", type=float, default=2.0)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--input-tokens", type=int, default=320)
    parser.add_argument("--output-tokens", type=int, default=32)
    options = parser.parse_args()
    python = os.environ.get("PLUMBLINE_VLLM_PYTHON")
    if not python:
        parser.error("PLUMBLINE_VLLM_PYTHON is not set; expected the Python of an environment with vLLM (CONTRIBUTING)")
    os.environ[engine_python.VARIABLE] = python
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    vllm, vocabulary = Path(python).with_name("vllm"), int(json.loads((options.checkpoint / "config.json").read_text())["vocab_size"])
    read, written = options.input_tokens, options.output_tokens
    cores = sorted(os.sched_getaffinity(0))
    servers, clients = (set(cores[: len(cores) // 2]), set(cores[len(cores) // 2 :])) if len(cores) > 1 else (set(cores), set(cores))
    os.sched_setaffinity(0, servers)  # what is started now stays there
    model = OpenAiModel(options.checkpoint.resolve(), read + written, len(servers))
    command = tuple(part.replace("{vllm}", str(vllm)) for part in COMMAND)
    measured: dict[str, list[Latencies]] = {"plumbline": [], "vllm bench serve": []}
    with tempfile.TemporaryDirectory() as folder, OpenAiServer(command, model, Path(folder), ready_within_s=300) as server:
        os.sched_setaffinity(0, clients)  # as a trial does: a client on the server's cores would slow what it measures
        ours(server, arrivals(options.rate, 20, 0), read, written, vocabulary, 0)  # warms the server
        for turn in range(options.rounds):
            at = arrivals(options.rate, options.requests, 1 + turn)
            if options.together:
                long = arrivals(options.rate, int(options.rate * TOGETHER_S), 1000 + turn)
                with ThreadPoolExecutor(1) as pool:
                    bench = pool.submit(theirs, vllm, server, at, read, written, Path(folder))
                    one = ours(server, long, read, written, vocabulary, 1 + turn, bench.done)
                other = bench.result()
                one = within(one, float(other["sent"].min()), float(other["sent"].max()))
            else:
                # Each is first in every other round.
                if turn % 2:
                    other = theirs(vllm, server, at, read, written, Path(folder))
                one = ours(server, at, read, written, vocabulary, 1 + turn)
                if not turn % 2:
                    other = theirs(vllm, server, at, read, written, Path(folder))
            measured["plumbline"].append(one)
            measured["vllm bench serve"].append(other)
    sys.exit(report(measured))


def report(measured: Mapping[str, list[Latencies]]) -> int:
    """Print medians and p99 of all rounds together, in ms, and their ratios; 1 if a median differs by more than LIMIT."""
    print("| metric | statistic | plumbline | vllm bench serve | ratio | ratio by round |\n|---|---|---|---|---|---|")
    missed = 0
    for metric in METRICS:
        for name, q in (("p50", 0.5), ("p99", 0.99)):
            one, other = (float(np.quantile(np.concatenate([each[metric] for each in rounds]), q)) for rounds in measured.values())
            pairs = zip(*measured.values(), strict=True)
            by_round = ", ".join(f"{np.quantile(a[metric], q) / np.quantile(b[metric], q):.3f}" for a, b in pairs)
            print(f"| {metric} | {name} | {one * 1e3:.2f} ms | {other * 1e3:.2f} ms | {one / other:.3f} | {by_round} |")
            missed += name == "p50" and abs(one / other - 1) > LIMIT
    return int(missed > 0)


if __name__ == "__main__":
    main()
