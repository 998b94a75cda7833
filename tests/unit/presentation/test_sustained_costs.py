"""A provider twice as fast at one price, from the simulated documents over the archive to each team's decision."""

from __future__ import annotations

import shutil
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.data.decision_trials import preference
from tests.fakes.trials import CONFIG

from plumbline.analysis.decisions.decision import Decision
from plumbline.answers.current_results import decide_teams
from plumbline.archive import Archive
from plumbline.declarations import Declarations, load
from plumbline.launch.plan import RunRequest
from plumbline.launch.simulated.launcher import simulate
from plumbline.words.decision_record import decision_detail, decision_document
from plumbline.workflows.plan import MONTHLY_REASON
from plumbline.workflows.rehearse import trials_in

JUNE = datetime(2026, 6, 1, tzinfo=timezone.utc)
TEAMS = ("finance", "platform", "product")


def provider(name: str, *drift: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "cloud": "simulated",
        "region": "nowhere",
        "instance_type": "simulated-h100",
        "accelerator": {"kind": "nvidia", "product": "NVIDIA-H100-80GB-HBM3", "count": 8},
        "launcher": {"kind": "simulated", "seed": sum(map(ord, name)), "drift": list(drift)},
        "prices": [{"purchase": "on_demand", "price": "4 USD/h", "since": "2025-01-01", "source": "one price for both"}],
    }


def declare(folder: Path, *, sweep: bool) -> Declarations:
    for name in ("providers", "workloads/inference", "teams"):
        (folder / name).mkdir(parents=True)
    shutil.copy(CONFIG / "thresholds.yaml", folder)
    for name in TEAMS:
        team = yaml.safe_load((CONFIG / "teams" / f"{name}.yaml").read_text())
        [preference] = [p for p in team["also"]["inference"] if p["workloads"] == ["chat-8b"]]
        (folder / "teams" / f"{name}.yaml").write_text(yaml.safe_dump({"name": name, "inference": preference}))
    workload = yaml.safe_load((CONFIG / "workloads" / "inference" / "chat-8b.yaml").read_text())
    workload |= {"on_demand_only": False, "repeats": {"per_slot": 2, "slots": ["02:00", "10:00", "18:00"]}}
    if not sweep:
        workload["phases"] = [phase for phase in workload["phases"] if phase["name"] != "sweep"]
    (folder / "workloads" / "inference" / "chat-8b.yaml").write_text(yaml.safe_dump(workload))
    for one in (provider("slow"), provider("fast", {"kind": "step", "since": "2025-01", "better": "100%"})):
        (folder / "providers" / f"{one['name']}.yaml").write_text(yaml.safe_dump(one))
    return load(folder)


def decisions(archive: Archive, declared: Declarations) -> dict[str, Decision]:
    """By team; each says the same as plain data."""
    for name in declared.providers:
        for trial in trials_in(declared, declared.providers[name], JUNE, RunRequest("2026-06", MONTHLY_REASON)):
            archive.record(simulate(trial), uri="file:///nowhere")
    found = decide_teams(archive, declared, date(2026, 6, 2))
    assert all(decision_detail(decision_document(decided))["cannot_tell"] == decided.decision.cannot_tell for decided in found)
    return {decided.decision.team: decided.decision for decided in found}


def test_every_team_ranks_a_provider_twice_as_fast_first_and_its_tokens_cost_half(archive: Archive, tmp_path: Path) -> None:
    found = decisions(archive, declare(tmp_path / "config", sweep=True))
    assert set(found) == set(TEAMS)
    for decision in found.values():
        assert [r.provider for r in decision.ranking if r.eligible] == ["fast", "slow"]
        assert decision.cannot_tell is None
    platform = found["platform"]
    [column] = [i for i, c in enumerate(platform.columns) if c.metric == "cost_per_1m_output_tokens"]
    assert platform.columns[column].phase == "sweep"
    fast, slow = (r.values[column] for r in platform.ranking)
    assert fast is not None and slow is not None
    assert fast / slow == pytest.approx(0.5, rel=0.03)


def test_without_a_sweep_a_decision_by_cost_cannot_tell(archive: Archive, tmp_path: Path) -> None:
    found = decisions(archive, declare(tmp_path / "config", sweep=False))
    for decision in found.values():
        assert decision.cannot_tell == "no_sweep"
        assert decision.first is None
        assert {r.provider for r in decision.ranking} == {"fast", "slow"}


def test_no_team_can_weigh_a_cost_at_the_offered_rate() -> None:
    with pytest.raises(ValueError, match="cost_per_good_request_at_offered_rate"):
        preference({"cost_per_good_request_at_offered_rate": 1.0})
    assert preference({"cost_per_good_request": 1.0}).weights == {"cost_per_good_request": 1.0}
