"""A year of three simulated GPU providers: what the pages look like when an installation has been at work for a while.

One is the fastest until a driver caps its clocks, one cheap until its price rises, one steady. Every number is the simulation's, and every
page says so.
"""

from __future__ import annotations

import re
import sys
from datetime import date, datetime, timezone
from pathlib import Path

from plumbline.declarations import load
from plumbline.declarations.installation import override_home
from plumbline.workflows.rehearse import months_of, rehearse_months

ROOT = Path(__file__).resolve().parents[2]
WORKLOADS = ("pretrain-1b-gpu", "chat-1b-gpu")
PROVIDERS = {
    "aurora-us-h100": """
region: us-east
seed: 11
price: 27.60 USD/h
spread: 0.2%
drift:
    - {kind: driver_change, since: 2026-06, facts: {driver.version: 570.86.15, cuda.version: "12.8"}, worse: 8%, probes: [matmul_tflops]}
""",
    "borealis-eu-h100": """
region: eu-north
seed: 12
price: 23.92 USD/h
spread: 0.6%
drift:
    - {kind: price_change, since: 2026-09, price: 31.20 USD/h}
    - {kind: ramp, since: 2026-07, full: 2026-10, worse: 6%, workloads: [chat-1b-gpu]}
""",
    "cirrus-eu-h100": """
region: eu-west
seed: 13
price: 33.60 USD/h
spread: 0.3%
drift: []
""",
}
SHAPE = """
name: {name}
description: SIMULATED, eight H100 that exist nowhere
cloud: simulated
region: {region}
instance_type: simulated-8xh100
accelerator: {{kind: nvidia, product: NVIDIA-H100-80GB-HBM3, count: 8}}
launcher:
  kind: simulated
  seed: {seed}
  nodes: 12
  noise:
    training: {{run: {spread}, node: 0.1%, time_of_day: 0.5%}}
    inference: {{run: 1%, node: 0.3%, time_of_day: 1%}}
  failures: {{insufficient_capacity: 2%, interrupted: 1%}}
  environment: {{driver.version: 550.90.07, cuda.version: "12.4", nccl.version: 2.21.5}}
  drift:{drift}
prices:
  - {{purchase: on_demand, price: {price}, since: 2025-01-01, source: "made up for the simulation"}}
sla: {{launch_success: 99%, provisioning_lead_time: 15min}}
"""
TEAM = """
name: {name}
description: {description}
training:
  workloads: [pretrain-1b-gpu]
  weights: {{tokens_per_second: 0.5, cost_per_1m_trained_tokens: 0.5}}
inference:
  workloads: [chat-1b-gpu]
  current: borealis-eu-h100
  weights: {weights}
  gates: [error_rate <= 1% in steady]
"""
TEAMS = {
    "platform": ("runs the shared fleet", "{time_to_first_token: 0.3, output_token_throughput: 0.3, cost_per_1m_output_tokens: 0.4}"),
    "product": (
        "owns a latency promise to its users",
        "{time_to_first_token: 0.5, time_per_output_token: 0.3, cost_per_good_request: 0.2}",
    ),
}


def one_slot(workload: str) -> str:
    """A workload's declaration with one slot: a fleet is to be drawn, not its time of day."""
    return re.sub(r"slots: \[.*?\]", 'slots: ["02:00"]', workload)


def declare(folder: Path) -> Path:
    """The installation's declarations with these providers, workloads and teams in the place of its own; the folder."""
    config, own = folder, ROOT / "include" / "config"
    for kind in ("providers", "teams"):
        (config / kind).mkdir(parents=True)
    for path in (own / "thresholds.yaml", *own.glob("workloads/*/*.yaml")):
        if path.stem in ("thresholds", *WORKLOADS):
            target = config / path.relative_to(own)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(one_slot(path.read_text()))
    for name, text in PROVIDERS.items():
        fixed, drift = text.split("drift:", 1)
        fields = dict(line.split(": ", 1) for line in fixed.strip().splitlines())
        (config / "providers" / f"{name}.yaml").write_text(SHAPE.format(name=name, drift=drift.rstrip(), **fields).lstrip())
    for name, (description, weights) in TEAMS.items():
        (config / "teams" / f"{name}.yaml").write_text(TEAM.format(name=name, description=description, weights=weights).lstrip())
    return config


def rehearsed(folder: Path, months: str = "2025-11..2026-10", repeats: int = 3) -> tuple[Path, Path]:
    """An installation's home whose archive holds these campaigns, with their decisions and reports; and its declarations."""
    from plumbline.archive import open_archive
    from plumbline.workflows.decide import decide_all
    from plumbline.workflows.report import write_report

    home, config = folder / "home", declare(folder / "config")
    with override_home(home, config):
        declared = load()
        rehearse_months(declared, months_of(months, datetime.now(timezone.utc)), lambda _: None, workloads=WORKLOADS, repeats=repeats)
        newest = months.split("..")[-1]
        with open_archive() as archive:
            # The same trials at two days' prices: one provider's rise comes between, and may change who is first.
            decide_all(archive, declared, date(2026, 8, 2), "prices of August")
            decide_all(archive, declared, date.fromisoformat(f"{newest}-02"), f"campaign {newest} was reported")
        write_report(newest, ("csv",))
    return home, config


if __name__ == "__main__":
    home, config = rehearsed(Path(sys.argv[1]))
    sys.stdout.write(f"PLUMBLINE_HOME={home} PLUMBLINE_CONFIG={config}\n")
