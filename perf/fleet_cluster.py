"""The clusters of the fleet: one fake Kubernetes API in a process of its own, whose pods write simulated results."""

from __future__ import annotations

import multiprocessing
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "include")]

SPACE, CONNECTION = "plumbline", "k8s_fleet"
PROVIDER = """\
name: {{name}}
cloud: cloud-{{number}}
region: region-1
instance_type: cpu-2
accelerator: {{{{kind: cpu, count: 2}}}}
launcher:
  kind: kubernetes
  connection: k8s_fleet
  images: {{{{training: localhost/plumbline/cpu:1, inference: localhost/plumbline/cpu:1}}}}
  resources: {{{{cpu: 1, memory: 2GiB, shared_memory: 256MiB}}}}
  parallel: {parallel}
  poll: 5s
  retry_delay: 10s
  results_url: {results}
"""
SIMULATED = """\
name: {{name}}
cloud: cloud-{{number}}
region: region-1
instance_type: cpu-2
accelerator: {{{{kind: cpu, count: 2}}}}
launcher: {{{{kind: simulated, seed: {{number}}, parallel: {parallel}}}}}
"""


class Clusters:
    """Between `with` and its end. `lasts_s`: seconds that a pod runs."""

    def __init__(self, lasts_s: float) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(lasts_s, theirs), daemon=True)

    def __enter__(self) -> Clusters:
        self._process.start()
        self.connection: str = self._pipe.recv()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()

    def leftovers(self) -> list[str]:
        """Pods, Services and Secrets of launches that are still there."""
        self._pipe.send(None)
        found: list[str] = self._pipe.recv()
        return found


def serve(lasts_s: float, pipe: Any) -> None:
    from tests.fakes.fake_kubernetes import FakeKubernetes, Script

    with FakeKubernetes([SPACE]) as kube:
        kube.script("*", Script().started().runs(lambda run: measure(run, lasts_s)))
        pipe.send(kube.connection_json(SPACE))
        while True:
            pipe.recv()
            pipe.send(kube.leftovers(SPACE))


def measure(run: Any, lasts_s: float) -> int:
    """The process of a pod: after `lasts_s` a signed document with the figures of a simulation of its trial."""
    from tests.fakes.pod_harness import signed

    from plumbline.declarations.providers.simulation import SimulatedLauncher
    from plumbline.launch.simulated.launcher import simulate
    from plumbline.results import ResultDocument, ResultStore

    arguments = run.row["spec"]["containers"][0]["args"]
    store = ResultStore(arguments[arguments.index("--out") + 1])
    url = arguments[arguments.index("--trial") + 1]
    trial = store.trial(url.removeprefix(f"{store.url}/").removesuffix("/trial.json"))
    simulation = trial.provider.model_copy(update={"launcher": SimulatedLauncher(kind="simulated")})
    made = simulate(trial.model_copy(update={"provider": simulation}))
    run.wait(lasts_s)
    content = {name: getattr(made, name) for name in made.model_fields_set - {"trial", "checksum"}}
    store.put_document(signed(run, ResultDocument.sealed(trial=trial, **content)))
    return 0
