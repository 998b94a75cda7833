"""Cost of planning: trials and mapped tasks by lane, the XCom that maps them, requests to the result store, seconds.

python perf/scale_plan.py
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import time
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from scale_world import PROVIDERS, REPEATS, SLOTS, WORKLOADS, make_world


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PLUMBLINE_CONFIG"] = str(make_world(Path(folder)))
        os.environ["PLUMBLINE_HOME"] = folder
        plan_all()
        plan_one_to_s3()


def plan_all() -> None:
    from plumbline.declarations import load
    from plumbline.launch.plan import RunRequest, plan
    from plumbline.workflows.plan import trial_groups

    began = time.perf_counter()
    declared = load()
    print(f"load {PROVIDERS} providers and {WORKLOADS} workloads: {time.perf_counter() - began:.2f} s, in every task")
    now, parameters = datetime.now(timezone.utc), RunRequest("2026-11", "scale")
    began, total, widest = time.perf_counter(), 0, 0
    for provider in declared.enabled_providers():
        for lane in trial_groups(declared, provider):
            trials = lane.of(plan(declared, provider, parameters, now, (lane.kind,)))
            total, widest = total + len(trials), max(widest, len(trials))
    print(f"plan {total} trials: {time.perf_counter() - began:.1f} s in all, {(time.perf_counter() - began) / PROVIDERS:.2f} s a provider")
    print(f"widest lane: {widest} mapped tasks on demand, {widest // len(SLOTS)} in a monthly slot; core.max_map_length is 1024")
    most = 1024 // (WORKLOADS // 2)
    print(f"with {WORKLOADS // 2} workloads of a kind, {most} repeats reach it ({REPEATS} are declared)")


def plan_one_to_s3() -> None:
    import s3fs
    from moto.server import ThreadedMotoServer

    from plumbline.declarations import load
    from plumbline.launch.plan import RunRequest
    from plumbline.workflows import plan_trials
    from plumbline.workflows.plan import TRAINING

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_DEFAULT_REGION": "us-east-1",
        "PLUMBLINE_RESULTS_URL": "s3://results/home",
    }
    s3fs.S3FileSystem().mkdir("results")
    counts: Counter[str] = Counter()
    ask = s3fs.S3FileSystem._call_s3

    async def counted(self, method, *args, **kwargs):  # type: ignore[no-untyped-def]
        counts[method] += 1
        return await ask(self, method, *args, **kwargs)

    s3fs.S3FileSystem._call_s3 = counted
    provider = load().enabled_providers()[0].name
    for name in ("the first time", "again"):
        counts.clear()
        began = time.perf_counter()
        rows = plan_trials.plan_trials(provider, TRAINING, RunRequest("2026-11", "scale"))
        requests = ", ".join(f"{count} {method}" for method, count in counts.most_common())
        print(
            f"plan {len(rows)} trials of a lane to S3, {name}: {sum(counts.values()) / len(rows):.1f} requests a trial ({requests}),",
            end=" ",
        )
        print(f"{time.perf_counter() - began:.1f} s; the mapped XCom has {len(json.dumps(rows)) / 1000:.0f} KB")
    server.stop()


if __name__ == "__main__":
    main()
