"""The declarations of the end-to-end tests: two providers on two namespaces, broken ones beside them, and small workloads."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
_SAMPLES = ROOT / "docs" / "samples"
Row = dict[str, Any]

ONE, TWO = "e2e-one", "e2e-two"
PRODUCTS = {ONE: "NVIDIA-H100-80GB-HBM3", TWO: "NVIDIA-H200"}
TRAIN, CHAT, LONG, GANG_2, GANG_4 = "e2e-train", "e2e-chat", "e2e-long", "e2e-gang-2", "e2e-gang-4"
"""A server on two nodes, by an engine of the standard library alone."""
SCRIPT, SCRIPT_GANG = "e2e-script", "e2e-script-gang"
SCRIPT_LONG, SCRIPT_DELETED = "e2e-script-long", "e2e-script-deleted"
"""docs/samples/trainer, whose rank is killed once, in one pod and in two."""
SCALE = "e2e-scale"
"""Load in two steps on the Deployment that ONE serves; a scaler of the test's own."""
FAR = "e2e-far"
"""An endpoint in TWO's namespace whose client is a pod in ONE's, and its workload."""
THREE_MINUTES = "e2e-three-minutes"
DELETED, CLAIM = "e2e-deleted", "e2e-kept"
"""A workload whose fault deletes its pod, and the claim of ONE on a volume that outlives it."""

_PROVIDER: Row = {
    "cloud": "e2e",
    "region": "here",
    "accelerator": {"kind": "cpu", "count": 1},
    "prices": [{"purchase": "on_demand", "price": "1 USD/h", "since": "2025-01-01", "source": "a made-up price for the end-to-end tests"}],
}
_LAUNCHER: Row = {
    "kind": "kubernetes",
    "resources": {"cpu": 1, "memory": "3GiB", "shared_memory": "256MiB"},
    "schedule_timeout": "3min",
    "startup_timeout": "3min",
    "timeout": "10min",
    "unreachable_timeout": "4min",
    "retries": 1,
    "retry_delay": "5s",
    "poll": "2s",
    "results_secret": "plumbline-results",
    "results_connection": "e2e_store",
}
_TRAIN: Row = {
    "kind": "training",
    "version": 1,
    "needs": {"accelerator": "cpu", "count": 1},
    "model": {"architecture": "gpt", "layers": 2, "width": 128, "heads": 4, "vocabulary": 2048, "context": 64, "seed": 7},
    "data": {"source": "synthetic", "tokens": 262144, "seed": 11},
    "batch": {"micro": 16, "accumulation": 1, "sequence": 64},
    "precision": "fp32",
    "optimizer": {"name": "adamw", "learning_rate": 0.001},
    "steps": {"discard": 10, "measure": 60},
    "checkpoint": {"every": 40, "keep": 1},
    "loss": {"low": 0.1, "high": 20.0},
    "repeats": {"per_slot": 1, "slots": ["02:00"]},
}
_CHAT: Row = {
    "kind": "inference",
    "name": CHAT,
    "version": 1,
    "providers": [ONE, TWO],
    "needs": {"accelerator": "cpu", "count": 1},
    "model": {"architecture": "gpt", "layers": 2, "width": 128, "heads": 4, "vocabulary": 2048, "context": 128, "seed": 7},
    "server": {"backend": "python", "prefix_cache": "off", "client_placement": "same_node"},
    "requests": {
        "input_tokens": {"normal": {"mean": 24, "stddev": 6, "min": 8, "max": 48}},
        "output_tokens": {"constant": 8},
        "unique": True,
        "seed": 20261101,
    },
    "phases": [
        {"name": "warmup", "arrivals": {"poisson": {"rate": "4/s"}}, "duration": "2s"},
        {"name": "steady", "arrivals": {"poisson": {"rate": "4/s"}}, "duration": "12s"},
    ],
    "request_timeout": "20s",
    "slo": {"time_to_first_token": "5s", "inter_token_latency": "2s"},
    "repeats": {"per_slot": 1, "slots": ["02:00"]},
}
SMALL_SERVER = ["python", "-c", (Path(__file__).parent / "small_server.py").read_text()]
_SERVING: Row = {
    "command": SMALL_SERVER,
    "model": "small",
    "ready": "/health",
    "resources": {"cpu": 1, "memory": "256MiB", "shared_memory": "64MiB", "ephemeral_storage": "64MiB"},
    "scaling": {"by": "none", "minimum": 1, "maximum": 2},
}
_SCALE: Row = {
    **_CHAT,
    "name": SCALE,
    "providers": [ONE],
    "on_demand_only": True,
    "server": {"backend": "external", "prefix_cache": "off", "client_placement": "other_node"},
    "phases": [
        {"name": "steady", "arrivals": {"poisson": {"rate": "4/s"}}, "duration": "12s"},
        # A server answers 20/s.
        {"name": "scale_out", "rates": ["4/s", "26/s"], "hold": "60s", "down": "30s", "goodput": "90%"},
    ],
    "slo": {"time_to_first_token": "800ms"},
}
_FAR: Row = {
    **{key: value for key, value in _SCALE.items() if key != "phases"},
    "name": FAR,
    "providers": [FAR],
    "server": {"backend": "external", "prefix_cache": "off", "client_placement": "other_region"},
    "phases": _SCALE["phases"][:1],
}
# Providers beside the two, in the first's namespace and over its launcher: what is broken in each, and one that scales.
OUT_OF_MEMORY, EXIT_CODE, NO_IMAGE, NINE_GPUS, DEADLINE = "e2e-oom", "e2e-exit", "e2e-noimage", "e2e-nine", "e2e-deadline"
SERVER_NINE_GPUS, SERVER_CRASHES, SERVED = "e2e-server-nine", "e2e-server-crash", "e2e-served"
BY_HPA = "e2e-hpa"
ORPHANED = "e2e-orphaned"
"""Serves, and lets a launch take 45 s at most."""
BESIDE = (OUT_OF_MEMORY, EXIT_CODE, NO_IMAGE, NINE_GPUS, DEADLINE, SERVER_NINE_GPUS, SERVER_CRASHES, BY_HPA, ORPHANED)


def write(folder: Path, namespaces: Mapping[str, str], image: str, failing_image: str, results_url: str) -> Path:
    """Write the declarations below `folder` and return it. `namespaces`: by provider, ONE and TWO."""
    for name in (ONE, TWO):
        only = {"volume_claim": CLAIM, "serving": _SERVING} if name == ONE else {}
        _provider(folder, name, namespaces[name], image, results_url, node_selector={"nvidia.com/gpu.product": PRODUCTS[name]}, **only)
    far = {"name": FAR, "region": "there", "instance_type": "small", "description": "an endpoint of the end-to-end tests"}
    endpoint = {"kind": "endpoint", "url": f"http://{FAR}.{namespaces[TWO]}:8000/v1", "protocol": "openai", "model": "small"}
    _write(folder / "providers" / f"{FAR}.yaml", {**_PROVIDER, **far, "launcher": {**endpoint, "client": {"provider": ONE}}})
    beside: dict[str, Row] = {
        OUT_OF_MEMORY: {"resources": {"cpu": 1, "memory": "300MiB", "shared_memory": "64MiB"}},
        EXIT_CODE: {"images": {"training": failing_image}},
        NO_IMAGE: {"images": {"training": "localhost/plumbline/nowhere:1"}},
        NINE_GPUS: {"resources": {**_LAUNCHER["resources"], "extended": {"nvidia.com/gpu": 9}}, "schedule_timeout": "20s"},
        DEADLINE: {"timeout": "45s"},
    }
    nine = {**_SERVING["resources"], "extended": {"nvidia.com/gpu": 9}}
    beside |= {
        SERVER_NINE_GPUS: {"serving": {**_SERVING, "resources": nine}, "schedule_timeout": "60s"},
        SERVER_CRASHES: {"serving": {**_SERVING, "command": ["python", "-c", "raise SystemExit('no such option: --prot')"]}},
    }
    scaled = {"by": "hpa", "minimum": 1, "maximum": 2, "cpu": "25%"}
    beside[BY_HPA] = {"serving": {**_SERVING, "env": {"BUSY_S": "0.02"}, "scaling": scaled}, "timeout": "20min"}
    brief = {"schedule_timeout": "10s", "startup_timeout": "15s", "timeout": "15s", "unreachable_timeout": "5s"}
    beside[ORPHANED] = {"serving": _SERVING, **brief}
    for name, changes in beside.items():
        _provider(folder, name, namespaces[ONE], image, results_url, **changes)
    _write(folder / "workloads" / "training" / f"{TRAIN}.yaml", {**_TRAIN, "name": TRAIN})
    # About half a minute and three, at 15 to 20 steps a second on one core.
    for name, steps in ((LONG, 600), (THREE_MINUTES, 4000)):
        many = {"on_demand_only": True, "steps": {"discard": 10, "measure": steps}, "checkpoint": {"every": steps, "keep": 1}}
        _write(folder / "workloads" / "training" / f"{name}.yaml", {**_TRAIN, **many, "name": name})
    fault = {"providers": [ONE], "on_demand_only": True, "fault": {"inject": "pod_delete", "at_step": 50}}
    _write(folder / "workloads" / "training" / f"{DELETED}.yaml", {**_TRAIN, **fault, "name": DELETED})
    for name, nodes in ((GANG_2, 2), (GANG_4, 4)):
        gang = {
            "providers": [ONE],
            "on_demand_only": True,
            "parallelism": {"strategy": "ddp", "nodes": nodes, "processes": 1},
            "steps": {"discard": 10, "measure": 200},
            "checkpoint": {"every": 210, "keep": 1},  # none between steady steps: what passes from the first to the last is theirs
        }
        _write(folder / "workloads" / "training" / f"{name}.yaml", {**_TRAIN, **gang, "name": name})
    script = yaml.safe_load((_SAMPLES / "trainer.yaml").read_text())
    shutil.copytree(_SAMPLES / "trainer", folder / "scripts" / "trainer", dirs_exist_ok=True)
    for name, nodes in ((SCRIPT, 1), (SCRIPT_GANG, 2)):
        task = {**script["task"], "environment": {"OMP_NUM_THREADS": "1"}}  # a pod has one core of a node's several
        one = {"name": name, "providers": [ONE], "repeats": _TRAIN["repeats"], "parallelism": {"nodes": nodes}, "task": task}
        _write(folder / "workloads" / "training" / f"{name}.yaml", {**script, **one})
    deleted = {**one, "name": SCRIPT_DELETED, "parallelism": {"nodes": 1}, "fault": {"inject": "pod_delete", "at_step": 45}}
    _write(folder / "workloads" / "training" / f"{SCRIPT_DELETED}.yaml", {**script, **deleted})
    slow = "import time\nfor n in range(1200):\n    time.sleep(0.05)\n    print(f'step {n} loss {5 - n / 1000:.3f}')"  # a minute
    long = {**deleted, "name": SCRIPT_LONG, "task": {**task, "command": ["python", "-c", slow]}, "steps": {"discard": 10, "measure": 1190}}
    del long["fault"]
    _write(folder / "workloads" / "training" / f"{SCRIPT_LONG}.yaml", {**{k: v for k, v in script.items() if k != "fault"}, **long})
    served = {**_SCALE, "name": SERVED, "providers": [SERVER_NINE_GPUS, SERVER_CRASHES, ORPHANED], "phases": _SCALE["phases"][:1]}
    held = {**_SCALE["phases"][1], "hold": "2min", "down": "8min"}
    # The autoscaler looks every 15 s at means of as long, and waits 5 minutes before it takes a server away.
    by_hpa = {**_SCALE, "name": BY_HPA, "providers": [BY_HPA], "phases": [_SCALE["phases"][0], held]}
    for chat in (_CHAT, _SCALE, _FAR, served, by_hpa):
        _write(folder / "workloads" / "inference" / f"{chat['name']}.yaml", chat)
    team = {
        "name": "e2e",
        "description": "the end-to-end tests",
        "training": {"workloads": [TRAIN], "weights": {"tokens_per_second": 0.5, "cost_per_1m_trained_tokens": 0.5}},
        "inference": {"workloads": [CHAT], "weights": {"time_to_first_token": 1.0}},
    }
    _write(folder / "teams" / "e2e.yaml", team)
    # The machine below the cluster is shared: what is shown here is the path of a measurement, not its precision.
    thresholds = yaml.safe_load((ROOT / "include" / "config" / "thresholds.yaml").read_text())
    for key in thresholds["validity"]:
        if key.endswith("_invalid") and isinstance(thresholds["validity"][key], str) and thresholds["validity"][key].endswith("%"):
            thresholds["validity"][key] = {"achieved_rate_invalid": "20%", "steady_steps_invalid": "1%"}.get(key, "100%")
    _write(folder / "thresholds.yaml", thresholds)
    return folder


def _provider(folder: Path, name: str, namespace: str, image: str, results_url: str, **changes: Any) -> None:
    row = copy.deepcopy(_PROVIDER) | {"name": name, "instance_type": f"{name}-node", "description": "a provider of the end-to-end tests"}
    launcher = {**_LAUNCHER, "connection": f"k8s_{name.replace('-', '_')}", "namespace": namespace, "results_url": results_url}
    launcher["images"] = {"training": image, "inference": image}
    row["launcher"] = {**launcher, **changes}
    _write(folder / "providers" / f"{name}.yaml", row)


def _write(file: Path, row: Row) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(row, sort_keys=False))
