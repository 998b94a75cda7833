"""Declarations for the scale scripts: many providers on clusters and many workloads, made from the shipped ones."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROVIDERS, WORKLOADS, REPEATS = 50, 20, 12
SLOTS = ("02:00", "10:00", "18:00")
_SHIPPED = ROOT / "include" / "config"
PROVIDER = """\
name: {name}
cloud: cloud-{number}
region: region-1
instance_type: cpu-1
accelerator: {{kind: cpu, count: 1}}
launcher:
  kind: kubernetes
  connection: k8s_{number}
  images: {{training: localhost/plumbline/cpu:1, inference: localhost/plumbline/cpu:1}}
  resources: {{cpu: 1, memory: 2GiB, shared_memory: 256MiB}}
  results_url: s3://plumbline-{number}/results
"""


def make_world(
    folder: Path, providers: int = PROVIDERS, workloads: int = WORKLOADS, repeats: int = REPEATS, *, provider: str = PROVIDER
) -> Path:
    """Write the declarations below `folder`/config, half training, half inference; returns their folder.

    `repeats`: in all slots together; in one slot if they cannot be divided. `provider`: a provider's file, with {name} and {number}.
    """
    config = folder / "config"
    for kind in ("providers", "workloads/training", "workloads/inference"):
        (config / kind).mkdir(parents=True)
    shutil.copy(_SHIPPED / "thresholds.yaml", config)
    (config / "teams").mkdir()
    for number in range(1, providers + 1):
        name = f"cluster-{number:02d}"
        (config / "providers" / f"{name}.yaml").write_text(provider.format(name=name, number=number))
    used = slots_of(repeats)
    slots = ", ".join(f'"{slot}"' for slot in used)
    for number in range(1, workloads + 1):
        kind, shipped = ("training", "gpt-tiny-cpu") if number % 2 else ("inference", "chat-tiny-cpu")
        name = f"{shipped}-{number:02d}"
        text = (_SHIPPED / "workloads" / kind / f"{shipped}.yaml").read_text()
        text = re.sub(r"^name: .*$", f"name: {name}", text, flags=re.MULTILINE)
        text = re.sub(r"^repeats: .*$", f"repeats: {{per_slot: {repeats // len(used)}, slots: [{slots}]}}", text, flags=re.MULTILINE)
        (config / "workloads" / kind / f"{name}.yaml").write_text(text)
    return config


def slots_of(repeats: int) -> tuple[str, ...]:
    """The slots of `make_world`'s workloads."""
    return SLOTS if repeats % len(SLOTS) == 0 else SLOTS[:1]
