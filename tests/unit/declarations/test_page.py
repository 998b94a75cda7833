"""The page on declaring a workload: each of its examples of a load is one that can be declared, and it names every key that there is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from plumbline.declarations import load
from plumbline.declarations.installation import REPOSITORY
from plumbline.declarations.workloads.load import Arrivals, FaultPhaseSpec, PhaseSpec, Requests, Search
from plumbline.declarations.yaml_source import read_yaml

PAGE = (REPOSITORY / "docs" / "declare-a-workload.md").read_text(encoding="utf-8")
CHAT = "workloads/inference/chat.yaml"
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE[PAGE.index("## Inference") :], re.DOTALL)
ARRIVALS = [line.removeprefix("arrivals: ") for block in BLOCKS for line in block.splitlines() if line.startswith("arrivals: ")]


def declare(config: Path, **changes: Any) -> None:
    data, _ = read_yaml(config / CHAT)
    (config / CHAT).write_text(json.dumps(data | changes))
    assert load(config).workloads["chat"]


def parsed(config: Path, text: str) -> Any:
    (config / "shown.yaml").write_text(text)
    return read_yaml(config / "shown.yaml")[0]


@pytest.mark.parametrize("arrivals", ARRIVALS)
def test_each_arrival_process_as_shown(config: Path, arrivals: str) -> None:
    (config / "traces").mkdir()
    (config / "traces" / "afternoon.csv").write_bytes((REPOSITORY / "include" / "config" / "traces" / "afternoon.csv").read_bytes())
    declare(config, phases=[{"name": "steady", "arrivals": parsed(config, arrivals), "duration": "15s"}], acceptance=[])


def test_the_phases_as_shown(config: Path) -> None:
    (shown,) = (block for block in BLOCKS if block.startswith("phases:"))
    declare(config, **parsed(config, shown), acceptance=["error_rate <= 1% in recovery"])


def test_the_requests_as_shown(config: Path) -> None:
    (shown,) = (block for block in BLOCKS if block.startswith("requests:"))
    data, _ = read_yaml(config / CHAT)
    declare(config, **parsed(config, shown), model=data["model"] | {"context": 512})


def test_every_key_of_a_load_is_shown() -> None:
    text = "".join(BLOCKS) + PAGE
    keys = [*Arrivals.model_fields, *Requests.model_fields, *Search.model_fields, *FaultPhaseSpec.model_fields]
    assert [key for key in keys if key not in ("unique",) and not re.search(rf"\b{key}\b", text)] == []
    assert [process for process in Arrivals.model_fields if not any(line.startswith(f"{{{process}:") for line in ARRIVALS)] == []


def test_every_phase_is_shown() -> None:
    names = re.findall(r"name: (\w+)", "".join(BLOCKS))
    declared = {name for spec in PhaseSpec.__origin__.__args__ for name in spec.model_fields["name"].annotation.__args__}  # type: ignore[attr-defined]
    assert declared == set(names)
