"""Do two cores serve more than one? The servers of `make run`'s inference workload, one on each core, under perf_analyzer and under our own load
client, in one run:

    python perf/server_order.py [--seconds 10] [--at-once 8] [--workload chat-tiny-cpu]

Both clients keep the same number of requests in each server, with prompts and answers of the workload's lengths, on the server's cores, as a
trial on so few cores does. The command exits with 1 if the two disagree about the order, or two cores serve less than 1.3 times one core.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
from load_clients import PerfAnalyzer

from plumbline.declarations import InferenceWorkload, installation_paths, load
from plumbline.harness.inference.load.prompts import prompts_of
from plumbline.harness.inference.load.schedule import schedule_of
from plumbline.harness.inference.phases.load_phase import sequential_load
from plumbline.harness.inference.server import under_test
from plumbline.harness.inference.server.assembly import ServerPlace, assemble
from plumbline.harness.inference.server.under_test import ManagedTriton
from plumbline.loadclient.load_generator import drive
from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.request_log import RequestLog
from plumbline.loadclient.transport import Settings

AIM = 1.3
_PROMPTS, _MOST = 64, 20_000


def perf_analyzer(
    client: PerfAnalyzer, served: ManagedTriton, prompts: Sequence[Prompt], tokens: int, args: argparse.Namespace, folder: Path
) -> float:
    """Requests a second by its reports, of one of it for each server, all at the same time."""
    lines = [
        {"PROMPT_IDS": {"content": prompt.ids.tolist(), "shape": [len(prompt.ids)]}, "MAX_TOKENS": {"content": [tokens], "shape": [1]}}
        for prompt in prompts
    ]
    inputs = folder / "inputs.json"
    inputs.write_text(json.dumps({"data": lines}), encoding="utf-8")

    def one(number: int) -> float:
        report = folder / f"report-{number}.csv"
        command = [
            *(
                str(client.binary),
                "-m",
                served.repository.model,
                "-u",
                served.servers[number].address,
                "-i",
                "grpc",
                "--streaming",
                "--async",
            ),
            *("--input-data", str(inputs), "--concurrency-range", str(args.at_once), "-f", str(report)),
            *("--measurement-interval", str(math.ceil(args.seconds / 3 * 1e3)), "--max-trials", "3", "--stability-percentage", "999"),
        ]
        env, within_s = dict(os.environ) | client.variables, 10 * args.seconds + 60
        done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=within_s, check=False)
        if not report.exists():
            raise SystemExit(f"perf_analyzer wrote no report: {' | '.join((done.stdout + done.stderr).strip().splitlines()[-5:])}")
        with report.open(newline="") as file:
            return float(next(csv.DictReader(file))["Inferences/Second"])

    with ThreadPoolExecutor(served.replicas) as pool:
        return sum(pool.map(one, range(served.replicas)))


def own_client(served: ManagedTriton, prompts: Sequence[Prompt], tokens: int, args: argparse.Namespace) -> float:
    """Requests a second of our load client, after its first second."""
    at_once = args.at_once * served.replicas
    each = max(2, _MOST // at_once)
    order = np.arange(each * at_once) % len(prompts)
    sent = [prompts[i] for i in order.tolist()]
    load = sequential_load("warmup", sent[:each], tokens, at_once)
    load = replace(load, input_tokens=np.array([len(prompt.ids) for prompt in sent], np.int32))
    bodies = [served.body(i, prompt, tokens) for i, prompt in enumerate(sent)]

    def over(log: RequestLog) -> bool:
        return bool(np.isfinite(log.began) and time.monotonic() - log.began > args.seconds)

    log = drive(load, bodies, served.target(), timeout_s=60.0, tick=lambda ended, due: None, stop=over, settings=Settings())
    ends = np.sort(log.ended[log.ok])
    counted = ends[ends >= 1.0]
    return float((len(counted) - 1) / (counted[-1] - counted[0]))


def measured(workload: InferenceWorkload, cpus: tuple[int, ...], client: PerfAnalyzer, args: argparse.Namespace) -> tuple[float, float]:
    """(perf_analyzer, ours) of a server on each of these cores, with the clients on them too."""
    prompts = [p for of in prompts_of(workload, schedule_of(workload)).by_phase for p in of][:_PROMPTS]
    tokens = int(schedule_of(workload).phases[0].output_tokens[0])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        place = ServerPlace(folder, [[cpu] for cpu in cpus], [{} for _ in cpus], 1)
        served = assemble(workload, place, None)
        assert isinstance(served, ManagedTriton)
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cpus)
        try:
            with under_test.all_running(served.servers):
                return perf_analyzer(client, served, prompts, tokens, args, folder), own_client(served, prompts, tokens, args)
        finally:
            os.sched_setaffinity(0, before)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--workload", default="chat-tiny-cpu")
    args = parser.parse_args()
    workload = load(installation_paths().config).workloads[args.workload]
    assert isinstance(workload, InferenceWorkload)
    cores, client = sorted(os.sched_getaffinity(0))[:2], PerfAnalyzer()
    if len(cores) < 2:
        raise SystemExit("one core only; expected two to compare")
    client.install()
    one, two = (measured(workload, tuple(cores[:n]), client, args) for n in (1, 2))
    print("| client | one core | two cores | ratio |\n|---|---|---|---|")
    ratios = []
    for name, low, high in zip((f"perf_analyzer {client.version}", "plumbline"), one, two, strict=True):
        ratios.append(high / low)
        print(f"| {name} | {low:.1f}/s | {high:.1f}/s | {high / low:.2f} |")
    met = min(ratios) >= AIM
    print(f"two cores serve at least {AIM} times one core by both clients: {'yes' if met else 'no'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
