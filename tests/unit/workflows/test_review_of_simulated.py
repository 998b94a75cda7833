"""The whole review on a simulated provider: what is declared to drift is found, once, and explained; what is not is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.simulated_campaigns import config, months, run

from plumbline.archive import FindingView, open_archive

DRIVER = {"driver.version": "570.86.15"}
Drifted = Callable[..., list[FindingView]]


@pytest.fixture
def drifted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Drifted]:
    """drifted(event, …, n=months): the findings of a provider to which these events happen, oldest first; a later call goes on."""
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    monkeypatch.setenv("PLUMBLINE_CONFIG", "")
    ahead = iter(months(201))

    def go(*events: dict[str, Any], n: int = 6, **launcher: Any) -> list[FindingView]:
        run(config(tmp_path, events, environment={"driver.version": "550.90.07"}, **launcher), list(islice(ahead, n)))
        with open_archive() as archive:
            return archive.findings_of("sim")

    yield go


def test_a_step_of_five_per_cent_in_training_is_one_finding_that_goes_on(drifted: Drifted) -> None:
    (found,) = drifted({"kind": "step", "since": "2024-05", "worse": "5%", "workloads": ["gpt-tiny-cpu"]})
    assert (found.kind, found.campaign_id, found.state) == ("performance", "2024-05", "open")
    assert found.metric == "step_time" and found.effect == pytest.approx(0.05, abs=0.012)
    assert found.detail["seen_in"] == ["2024-06"]
    assert found.detail["attributed_to"] == [] and "explained by" not in found.detail["explanation"]


def test_a_step_of_ten_per_cent_pages_and_names_the_probe_that_moved_with_it(drifted: Drifted) -> None:
    (found,) = drifted(
        {"kind": "step", "since": "2024-05", "worse": "10%", "probes": ["matmul_tflops"], "workloads": ["gpt-tiny-cpu"]}, n=6
    )
    assert (found.kind, found.severity, found.campaign_id) == ("performance", "page", "2024-05")
    assert "matmul −9" in found.detail["explanation"] and "agrees" in found.detail["explanation"]


@pytest.mark.full
def test_what_moves_in_both_series_is_one_finding_of_both(drifted: Drifted) -> None:
    (found,) = drifted({"kind": "step", "since": "2024-05", "worse": "25%"}, n=6)
    assert {key.split("/")[0] for key in found.detail["series"]} == {"training", "inference"}
    assert "1 more series" in found.headline and any(m["name"] == "step_time" for m in found.detail["members"])


@pytest.mark.full
def test_a_ramp_is_one_finding(drifted: Drifted) -> None:
    (found,) = drifted({"kind": "ramp", "since": "2024-03", "full": "2024-12", "worse": "12%", "workloads": ["gpt-tiny-cpu"]}, n=13)
    assert (found.kind, found.metric, found.state) == ("performance", "step_time", "open")
    assert "2024-03" < found.campaign_id <= "2024-07"
    assert found.effect == pytest.approx(0.12, abs=0.02)


def test_a_spike_is_a_finding_that_resolves_itself_and_says_so(drifted: Drifted) -> None:
    (found,) = drifted({"kind": "spike", "since": "2024-05", "until": "2024-06", "worse": "15%", "workloads": ["gpt-tiny-cpu"]})
    assert (found.kind, found.campaign_id, found.state) == ("performance", "2024-05", "resolved")
    with open_archive() as archive:
        last = archive.audit(found.finding_id)[-1]
    assert (last.who, last.what) == ("drift", "finding_resolved") and "2024-06" in last.why


@pytest.mark.full
def test_a_driver_change_without_effect_is_an_environment_finding_alone(drifted: Drifted) -> None:
    (found,) = drifted({"kind": "driver_change", "since": "2024-05", "facts": DRIVER})
    assert (found.kind, found.campaign_id, found.state) == ("environment", "2024-05", "open")
    assert "550.90.07 → 570.86.15" in found.headline and found.detail["attributed_to"] == ["driver.version"]
    assert len(found.detail["series"]) == 2


def test_a_driver_change_with_effect_is_two_findings_of_which_one_explains_the_other(drifted: Drifted) -> None:
    event = {"kind": "driver_change", "since": "2024-05", "facts": DRIVER, "worse": "8%", "probes": ["matmul_tflops"]}
    found = {f.kind: f for f in drifted(event)}
    assert set(found) == {"environment", "performance"}
    assert found["performance"].detail["attributed_to"][0] == "driver.version"
    assert "explained by: driver" in found["performance"].detail["explanation"]
    assert "matmul" in found["performance"].detail["explanation"]


@pytest.mark.full
def test_a_provider_that_falls_silent_is_missed_once_and_is_back_when_it_reports(drifted: Drifted) -> None:
    (found,) = drifted({"kind": "silence", "since": "2024-05", "until": "2024-07"}, n=6)
    assert (found.kind, found.severity, found.state, found.campaign_id) == ("missing_data", "page", "open", "2024-04")
    assert found.detail["seen_in"] == ["2024-05", "2024-06"]
    (again,) = drifted({"kind": "silence", "since": "2024-05", "until": "2024-07"}, n=2)
    assert (again.finding_id, again.state) == (found.finding_id, "resolved")


@pytest.mark.full
def test_one_workload_that_falls_silent_is_missed_though_its_provider_reports(drifted: Drifted) -> None:
    (found,) = drifted({"kind": "silence", "since": "2024-05", "workloads": ["chat-tiny-cpu"]}, n=6)
    assert (found.kind, found.severity) == ("missing_data", "warn") and "chat-tiny-cpu" in found.headline
    assert [key.split("/")[1].split("@")[0] for key in found.detail["series"]] == ["chat-tiny-cpu"]


@pytest.mark.full
def test_a_year_of_quiet_campaigns_raises_nothing(drifted: Drifted) -> None:
    assert drifted(n=13) == []


@pytest.mark.full  # two minutes of CPU
@pytest.mark.timeout(1800)
def test_two_hundred_quiet_campaigns_raise_at_most_two_performance_findings(drifted: Drifted) -> None:
    found = drifted(n=201)  # the first one is the baseline at once, the next two join it
    assert len([f for f in found if f.kind == "performance"]) <= 2
    assert [f for f in found if f.kind not in ("performance",)] == []
