"""Cost of polling: CPU of a triggerer and requests to a cluster's API, by the number of running trials.

python perf/scale_triggers.py [SECONDS]
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import structlog

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[1] / "include")]

POLL_S = 15.0
SPACE = "plumbline"


def cluster(pods: int, pipe: Any) -> None:
    """A fake API with running pods in a separate process, because its cost is the cluster's, not the triggerer's."""
    from tests.fakes.fake_kubernetes import FakeKubernetes, Script

    from plumbline.launch.cluster.names import LAUNCH, RANK

    with FakeKubernetes([SPACE]) as kube:
        kube.script("pl-*", Script().started().log("a line"))
        for number in range(pods):
            labels = {LAUNCH: f"pl-{number}", RANK: "0"}
            spec = {"containers": [{"name": "harness", "image": "i:1"}]}
            kube.store.create("pods", SPACE, {"metadata": {"name": f"pl-{number}", "namespace": SPACE, "labels": labels}, "spec": spec})
        kube.wait_for(lambda: all(p["status"].get("phase") == "Running" for p in kube.pods(SPACE).values()), "running pods", 120)
        pipe.send(kube.connection_json(SPACE))
        while True:
            pipe.recv()
            pipe.send(len(kube.requests))


async def watch(triggers: list[Any], seconds: float, pipe: Any) -> tuple[float, float, float]:
    """Run all triggers in one loop, like a triggerer; returns the share of one core, the loop's longest lag in s, requests a second."""

    async def one(number: int, trigger: Any) -> None:
        await asyncio.sleep(POLL_S * number / len(triggers))  # trials do not start at the same time
        async for _ in trigger.run():
            return

    def requests() -> int:
        pipe.send(None)
        assert pipe.poll(30), "the fake API does not answer"
        return int(pipe.recv())

    tasks = [asyncio.create_task(one(n, t)) for n, t in enumerate(triggers)]
    await asyncio.sleep(2 * POLL_S)
    began, cpu, lag, requests_before = time.monotonic(), time.process_time(), 0.0, requests()
    while time.monotonic() - began < seconds:
        at = time.monotonic()
        await asyncio.sleep(0.2)
        lag = max(lag, time.monotonic() - at - 0.2)
    lasted = time.monotonic() - began
    share, rate = (time.process_time() - cpu) / lasted, (requests() - requests_before) / lasted
    ended = [t for t in tasks if t.done()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert not ended, f"{len(ended)} triggers ended while their pods ran"
    return share, lag, rate


def measure(number: int, seconds: float) -> None:
    from plumbline.airflow.triggers import LaunchTrigger
    from plumbline.launch.cluster.names import LAUNCH

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))  # after Airflow, which sets its own
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=cluster, args=(number, theirs), daemon=True)
    process.start()
    os.environ["AIRFLOW_CONN_K8S_SCALE"] = mine.recv()
    now = datetime.now(timezone.utc).timestamp()
    triggers = [
        LaunchTrigger(
            connection="k8s_scale",
            namespace=SPACE,
            selector=f"{LAUNCH}=pl-{n}",
            launch=f"pl-{n}",
            trial_id=f"t-{n}",
            expected=1,
            owner=None,
            requested_at=now,
            schedule_timeout_s=3600,
            startup_timeout_s=3600,
            deadline=now + 7200,
            unreachable_timeout_s=900,
            poll_s=POLL_S,
            started=True,
            known=[f"pl-{n}"],
        )
        for n in range(number)
    ]
    share, lag, rate = asyncio.run(watch(triggers, seconds, mine))
    process.terminate()
    process.join()
    print(f"{number:8d} {share:10.2f} {lag * 1000:12.0f} {rate:12.1f} {rate / number * POLL_S:20.1f}")


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 45.0
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"PLUMBLINE_HOME": home, "AIRFLOW_HOME": home}
        os.environ.pop("KUBECONFIG", None)
        print(f"one loop, each trigger polling a running pod every {POLL_S:g} s")
        print("triggers  cores used  lag ms (max)  requests/s  requests a poll")
        for number in (50, 200):
            measure(number, seconds)


if __name__ == "__main__":
    main()
