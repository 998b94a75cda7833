"""Fifty simulated GPU providers of eight clouds with nineteen workloads: what the pages look like at the size of a large company.

Clouds differ in price and speed, regions a little within a cloud. One cloud changes its driver, one raises its prices, one region becomes
slower, one falls silent. `python -m tests.browser.large_fleet FOLDER` simulates three campaigns: 8,500 trials.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timezone
from pathlib import Path

from tests.browser.fleet import ROOT, SHAPE, TEAM, TEAMS, one_slot

from plumbline.archive import open_archive
from plumbline.declarations import Declarations, load
from plumbline.declarations.installation import override_home
from plumbline.launch.plan import RunRequest
from plumbline.launch.simulated.launcher import simulate
from plumbline.workflows.decide import decide_all
from plumbline.workflows.rehearse import months_of, trials_in
from plumbline.workflows.report import write_report
from plumbline.workflows.review import review_campaign

MONTHS = "2026-09..2026-11"
TRAINING = (
    "pretrain-1b-gpu",
    "pretrain-1b-gpu-fp8",
    "pretrain-8b-8gpu",
    "finetune-1b-gpu",
    "finetune-8b-8gpu",
    "lora-8b-gpu",
    "lora-8b-8gpu",
    "embedding-refresh-gpu",
    "gpt-small-gpu",
    "nightly-gpu",
    "reinforcement-gpu",
    "vision-retrain-gpu",
    "vision-retrain-8gpu",
)
INFERENCE = ("chat-1b-gpu", "chat-8b", "chat-8b-1gpu", "chat-small-gpu", "embedding-gpu", "embedding-node-gpu")
REGIONS = ("us-east", "us-west", "eu-north", "eu-west", "ap-south", "ap-east")
# USD for each hour of a GPU, speed as a share of the usual, and the GPU.
CLOUDS = {
    "aurora": (3.90, 1.00, "h100"),
    "borealis": (2.60, 0.97, "h100"),
    "cirrus": (3.10, 0.99, "h100"),
    "delta": (2.20, 0.90, "h100"),
    "ember": (3.40, 1.00, "h100"),
    "fjord": (3.80, 1.00, "h200"),
    "grove": (1.35, 0.98, "a100"),
    "harbor": (2.45, 0.95, "h100"),
}
PRODUCTS = {"h100": "NVIDIA-H100-80GB-HBM3", "h200": "NVIDIA-H200", "a100": "NVIDIA-A100-SXM4-80GB"}
MATMUL_TFLOPS = {"h100": 791, "h200": 791, "a100": 250}
DRIVER = (
    '{kind: driver_change, since: 2026-10, facts: {driver.version: 570.86.15, cuda.version: "12.8"}, worse: 7%, probes: [matmul_tflops]}'
)


def _drift(cloud: str, region: str, price: float) -> list[str]:
    events = []
    if cloud == "cirrus":
        events.append(DRIVER)
    if cloud == "harbor":
        events.append(f"{{kind: price_change, since: 2026-10, price: {price * 1.25:.2f} USD/h}}")
    if (cloud, region) == ("ember", "ap-south"):
        events.append("{kind: step, since: 2026-11, worse: 14%, probes: [matmul_tflops, all_reduce_bus_bandwidth]}")
    if (cloud, region) == ("delta", "ap-east"):
        events.append("{kind: silence, since: 2026-10}")
    return events


def _providers() -> Iterator[tuple[str, str]]:
    """Name and declaration of each."""
    places = [(cloud, region, CLOUDS[cloud][2]) for cloud in CLOUDS for region in REGIONS]
    for number, (cloud, region, gpu) in enumerate([*places, ("aurora", "us-east", "h200"), ("ember", "us-east", "h200")]):
        per_gpu, speed, _ = CLOUDS[cloud]
        own = random.Random(f"{cloud} {region} {gpu}")
        price = 8 * per_gpu * own.uniform(0.94, 1.08) * (1.2 if gpu == "h200" and cloud != "fjord" else 1)
        name = f"{cloud}-{region}-{gpu}"
        events = "".join(f"\n    - {event}" for event in _drift(cloud, region, price)) or " []"
        text = SHAPE.format(name=name, region=region, seed=number, price=f"{price:.2f} USD/h", spread="0.3%", drift=events)
        levels = f'  levels: {{matmul_tflops: "{MATMUL_TFLOPS[gpu] * speed * own.uniform(0.985, 1.0):.0f}TFLOP/s"}}\n'
        text = text.replace("cloud: simulated", f"cloud: {cloud}").replace(PRODUCTS["h100"], PRODUCTS[gpu])
        text = text.replace("eight H100 that", f"eight {gpu.upper()} that").replace("8xh100", f"8x{gpu}")
        yield name, text.replace("  nodes: 12\n", f"  nodes: 12\n{levels}").lstrip()


def declare(folder: Path) -> Path:
    """The declarations of the fleet; the folder."""
    own = ROOT / "include" / "config"
    for kind in ("providers", "teams", "workloads/training", "workloads/inference"):
        (folder / kind).mkdir(parents=True)
    (folder / "thresholds.yaml").write_text((own / "thresholds.yaml").read_text())
    for kind, names in (("training", TRAINING), ("inference", INFERENCE)):
        for name in names:
            (folder / "workloads" / kind / f"{name}.yaml").write_text(one_slot((own / "workloads" / kind / f"{name}.yaml").read_text()))
    for name, text in _providers():
        (folder / "providers" / f"{name}.yaml").write_text(text)
    for name, (description, weights) in TEAMS.items():
        text = TEAM.format(name=name, description=description, weights=weights).lstrip()
        (folder / "teams" / f"{name}.yaml").write_text(re.sub(r"  current: .*\n", "", text))  # a provider of the other fleet
    return folder


def record_months(declared: Declarations, months: str, repeats: int = 3, workloads: Sequence[str] | None = None) -> int:
    """Record and review these campaigns, of all workloads by default; how many trials.

    Without result stores and checks, which take most of a rehearsal's time."""
    count = 0
    for month in months_of(months, datetime.now(timezone.utc)):
        request = RunRequest(f"{month:%Y-%m}", "monthly rerun", repeats=repeats, workloads=tuple(workloads or declared.workloads))
        planned = {place.name: trials_in(declared, place, month, request) for place in declared.enabled_providers()}
        with open_archive() as archive:
            for trial in (trial for trials in planned.values() for trial in trials):
                archive.record(simulate(trial), uri="file:///nowhere")
                count += 1
        for name, trials in planned.items():
            if trials:  # one is silent
                review_campaign(f"{month:%Y-%m}", name)
    return count


def rehearsed(folder: Path) -> tuple[Path, Path]:
    """An installation's home whose archive holds the fleet's campaigns, with decisions and the newest report; and its declarations."""
    home, config = folder / "home", declare(folder / "config")
    with override_home(home, config):
        declared = load()
        record_months(declared, MONTHS)
        newest = MONTHS.split("..")[-1]
        with open_archive() as archive:
            for day, reason in ((date(2026, 9, 2), "prices of September"), (date(2026, 11, 2), f"campaign {newest} was reported")):
                decide_all(archive, declared, day, reason)
        write_report(newest, ("csv",))
    return home, config


if __name__ == "__main__":
    home, config = rehearsed(Path(sys.argv[1]))
    sys.stdout.write(f"PLUMBLINE_HOME={home} PLUMBLINE_CONFIG={config}\n")
