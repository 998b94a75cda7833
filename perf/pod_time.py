"""Pod time of a launch by Airflow, on the cluster of KUBECONFIG: `python perf/pod_time.py [--pairs N]`.

efficiency   warm-up and measurement over the running time of the pod's container, for a trial of about three minutes: at least 85 %
wall         the pod's life, from its creation to its container's end, over that of the same trial in the same image started by
             `kubectl run`; paired, in alternating order: at most 1.05

Times are the cluster's own, in whole seconds. Exit status 1 if a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "include")]

from tests.cluster.declared import ONE, THREE_MINUTES  # noqa: E402
from tests.cluster.world import World, world  # noqa: E402

from plumbline.archive import open_archive  # noqa: E402
from plumbline.declarations import KubernetesLauncher, Trial, load  # noqa: E402
from plumbline.results import ResultDocument, ResultStore  # noqa: E402
from plumbline.workflows.plan_trials import plan_single_trial  # noqa: E402

LEAST_EFFICIENCY, MOST_WALL = 0.85, 1.05


@dataclass(frozen=True)
class Run:
    """Seconds of one pod: creation to end, of its container, and of warm-up and measurement in it."""

    wall_s: float
    running_s: float
    measured_s: float


def by_airflow(e2e: World, number: int) -> Run:
    """The trial through the benchmark DAG."""
    campaign = f"pod-time-{number}"
    run = e2e.ended(e2e.start(ONE, [THREE_MINUTES], campaign), 900)
    with open_archive() as archive:
        documents = [archive.document(t.trial_id, t.attempt) for t in archive.trials(campaign)]
    document = documents[0] if len(documents) == 1 else None
    attempts = [(d.validity, d.launch and d.launch.failure_detail) for d in documents if d is not None]
    assert document is not None, f"expected one attempt that is measured: {attempts}\n{e2e.explain(run)}"
    assert document.launch is not None, attempts
    assert document.validity.status != "failed", attempts
    at = {event.name: event.utc for event in document.launch.pods[0].events}
    return Run(_between(at["requested"], at["finished"]), _between(at["started"], at["finished"]), measured(document))


def by_kubectl(e2e: World, number: int) -> Run:
    """The same trial in the same image by `kubectl run`, with the minimum that it needs."""
    provider = load().providers[ONE]
    launcher = provider.launcher
    assert isinstance(launcher, KubernetesLauncher)
    trial = plan_single_trial(load(), THREE_MINUTES, ONE)
    store = ResultStore(e2e.store.url, {"key": e2e.store.key, "secret": e2e.store.secret, "endpoint_url": e2e.store.endpoint})
    store.put_trial(trial)
    name, namespace = f"plain-{number}", e2e.namespace(ONE)
    spec = json.dumps({"spec": _spec(e2e, trial, launcher, name, f"{store.url}/{store.folder(trial)}/trial.json")})
    e2e.cluster.kubectl("run", name, "-n", namespace, f"--image={e2e.image}", "--restart=Never", f"--overrides={spec}")
    pod = e2e.cluster.eventually(lambda: _ended(e2e, namespace, name), 900)
    e2e.cluster.kubectl("delete", "pod", name, "-n", namespace)
    state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert state["exitCode"] == 0, state
    created, started, finished = (
        datetime.fromisoformat(t) for t in (pod["metadata"]["creationTimestamp"], state["startedAt"], state["finishedAt"])
    )
    return Run(_between(created, finished), _between(started, finished), measured(store.document(store.folder(trial))))


def _spec(e2e: World, trial: Trial, launcher: KubernetesLauncher, name: str, url: str) -> dict[str, object]:
    limits = {"cpu": str(launcher.resources.cpu), "memory": str(int(launcher.resources.memory))}
    secret = [{"name": key, "valueFrom": {"secretKeyRef": {"name": launcher.results_secret, "key": key}}} for key in e2e.store.pod_secret()]
    # The harness reads this from its pod; otherwise it would start a thread for each core of the node and be throttled.
    limit_env = [{"name": "PLUMBLINE_CPU_LIMIT", "value": limits["cpu"]}]
    container = {
        "name": name,
        "image": e2e.image,
        "args": ["run", "--trial", url, "--out", e2e.store.url],
        "env": [*secret, *limit_env],
        "resources": {"limits": limits, "requests": limits},
        "volumeMounts": [{"name": "work", "mountPath": "/work"}, {"name": "work", "mountPath": "/work/tmp", "subPath": "tmp"}],
    }
    return {"containers": [container], "volumes": [{"name": "work", "emptyDir": {}}], "securityContext": {"fsGroup": 10001}}


def _ended(e2e: World, namespace: str, name: str) -> dict[str, object] | None:
    pod = e2e.cluster.rows(e2e.cluster.core.read_namespaced_pod(name, namespace))
    return pod if pod["status"].get("phase") in ("Succeeded", "Failed") else None


def measured(document: ResultDocument) -> float:
    """Seconds of warm-up and measurement, by the harness's clock: from the first step to the end of the steady phase."""
    at = {event.name: event.utc for event in document.timeline}
    return _between(at["first_step_done"], at["steady_ended"])


def _between(first: datetime, last: datetime) -> float:
    return (last - first).total_seconds()


def main() -> int:
    """Measure, print the ratios, and check the bounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    with world(Path(os.environ["KUBECONFIG"])) as e2e:
        pairs = []
        for number in range(options.pairs):
            order = (by_airflow, by_kubectl) if number % 2 == 0 else (by_kubectl, by_airflow)
            done = {how: how(e2e, number) for how in order}
            pairs.append((done[by_airflow], done[by_kubectl]))
            ours, plain = pairs[-1]
            print(f"pair {number + 1}: airflow {ours}, kubectl run {plain}", flush=True)
    efficiency = statistics.median(ours.measured_s / ours.running_s for ours, _ in pairs)
    wall = statistics.median(ours.wall_s / plain.wall_s for ours, plain in pairs)
    print(f"efficiency {efficiency:.1%} of the pod's running time is warm-up and measurement (bound {LEAST_EFFICIENCY:.0%})")
    print(f"wall       {wall:.3f} × the same image by kubectl run (bound {MOST_WALL})")
    return 0 if efficiency >= LEAST_EFFICIENCY and wall <= MOST_WALL else 1


if __name__ == "__main__":
    raise SystemExit(main())
