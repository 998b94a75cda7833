"""Which changes of a provider wait for a rerun: none is measured twice, none is forgotten, many start one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from tests.fakes.trials import declared

from plumbline.archive import Archive
from plumbline.declarations import Declarations, Origin, Provider
from plumbline.declarations.providers.provider import MonitoringConfig
from plumbline.launch.plan import RunRequest
from plumbline.workflows import pending_changes

NAME = "local-1core"
DECLARED = declared()
PROVIDER = DECLARED.providers[NAME]
OLD, NEW, NEWER = "550.90", "570.86", "580.65"


def now() -> datetime:
    return datetime.now(timezone.utc)


def drifted(*facts: str, new: str = NEW) -> list[dict[str, Any]]:
    return [{"fact": fact, "old": OLD, "new": new} for fact in facts]


def look(archive: Archive, *facts: str, new: str = NEW, also: Mapping[str, Any] | None = None) -> list[pending_changes.Change]:
    """A look at a provider of whose facts these differ from the baseline."""
    changes = drifted(*facts, new=new)
    return pending_changes.record_changes(archive, NAME, changes, {c["fact"]: c["new"] for c in changes} | dict(also or {}), ["f" * 12])


def due(
    archive: Archive, *, active: int = 0, paused: bool = False, at: datetime | None = None, provider: Provider = PROVIDER
) -> pending_changes.RerunDecision:
    return pending_changes.decide_rerun(archive, provider, at or now(), active=active, paused=paused)


def sent(archive: Archive) -> dict[str, Any]:
    """The event that is due, sent."""
    event = due(archive).event
    assert event is not None
    pending_changes.record_event(archive, NAME, event)
    return event


def run(archive: Archive, *changes: Mapping[str, Any], run_id: str = "a-run", **asked: Any) -> None:
    """A benchmark run is planned."""
    pending_changes.record_measured(
        archive, NAME, RunRequest("od-1", "why", origin=Origin(dag_id="benchmark", run_id=run_id), **asked), changes, now()
    )


def test_a_change_starts_one_rerun_with_what_changed_as_its_reason(archive: Archive) -> None:
    assert due(archive).event is None and NAME in due(archive).why
    look(archive, "driver.version")
    event = sent(archive)
    assert event["reason"] == f"driver.version {OLD} → {NEW}"
    assert (event["provider"], event["diff"], event["findings"]) == (NAME, drifted("driver.version"), ["f" * 12])
    assert pending_changes.providers_with_pending_changes(archive, DECLARED) == [NAME]
    run(archive, event)
    assert (pending_changes.pending_event(archive, NAME), pending_changes.providers_with_pending_changes(archive, DECLARED)) == (None, [])


def test_to_look_again_is_no_news(archive: Archive) -> None:
    assert look(archive, "driver.version") == drifted("driver.version")
    assert look(archive, "driver.version") == []
    run(archive, sent(archive))
    assert look(archive, "driver.version") == [] and pending_changes.pending_event(archive, NAME) is None


def test_ten_changes_in_an_hour_start_one_rerun_and_the_next_tells_of_all_that_came_later(archive: Archive) -> None:
    look(archive, "driver.version")
    run(archive, sent(archive))
    for n in range(9):
        look(archive, "driver.version", *(f"os.fact{i}" for i in range(n + 1)))
        held = due(archive)
        assert held.event is None and "watch.debounce" in held.why
    after = due(archive, at=now() + timedelta(hours=1, seconds=1)).event
    assert after is not None
    assert [c["fact"] for c in after["diff"]] == [f"os.fact{i}" for i in range(9)]
    assert after["reason"].count("→") == 3 and "6 more" in after["reason"]


def test_how_long_is_declared(archive: Archive) -> None:
    look(archive, "driver.version")
    run(archive, sent(archive))
    look(archive, "driver.version", new=NEWER)
    assert due(archive).event is None
    assert (
        due(archive, provider=PROVIDER.model_copy(update={"watch": MonitoringConfig.model_validate({"debounce": "0s"})})).event is not None
    )


def test_a_change_waits_for_the_run_that_goes_on_and_for_a_paused_benchmark(archive: Archive) -> None:
    look(archive, "driver.version")
    for active, shown in ((1, "1 run "), (2, "2 runs ")):
        waits = due(archive, active=active)
        assert waits.event is None and shown in waits.why
    paused = due(archive, paused=True)
    assert paused.event is None and PROVIDER.dag_id in paused.why and "unpause" in paused.why
    assert due(archive).event is not None


@pytest.mark.fault("the event that starts a rerun is lost", ends="sent again", keeps="the change")
def test_an_event_that_got_lost_is_sent_again_after_a_while(archive: Archive) -> None:
    look(archive, "driver.version")
    event = sent(archive)
    assert due(archive).event is None
    assert due(archive, at=now() + timedelta(hours=2)).event == event


def test_what_comes_between_the_event_and_its_run_is_left_for_the_next(archive: Archive) -> None:
    look(archive, "driver.version")
    event = sent(archive)
    look(archive, "driver.version", "os.kernel")
    run(archive, event)
    left = pending_changes.pending_event(archive, NAME)
    assert left is not None and [c["fact"] for c in left["diff"]] == ["os.kernel"]


def test_a_change_that_is_taken_back_is_a_change_once_it_was_measured_and_none_before(archive: Archive) -> None:
    look(archive, "driver.version")
    assert look(archive, also={"driver.version": OLD}) == [{"fact": "driver.version", "old": NEW, "new": OLD}]
    assert pending_changes.pending_event(archive, NAME) is None
    look(archive, "driver.version")
    run(archive, sent(archive))
    look(archive, also={"driver.version": OLD})
    back = pending_changes.pending_event(archive, NAME)
    assert back is not None and back["diff"] == [{"fact": "driver.version", "old": NEW, "new": OLD}]


def test_a_change_that_was_accepted_as_the_baseline_or_is_out_of_sight_is_none(archive: Archive) -> None:
    look(archive, "driver.version")
    run(archive, sent(archive))
    assert look(archive, also={"driver.version": NEW}) == []
    assert look(archive) == []


def test_the_same_fact_twice_is_told_from_its_first_to_its_last_value(archive: Archive) -> None:
    look(archive, "driver.version")
    look(archive, "driver.version", new=NEWER)
    event = pending_changes.pending_event(archive, NAME)
    assert event is not None and event["diff"] == drifted("driver.version", new=NEWER)


def test_what_a_person_measures_anyway_is_not_measured_again(archive: Archive) -> None:
    look(archive, "driver.version")
    for restricted in ({"workloads": ("gpt-tiny-cpu",)}, {"kinds": ("training",)}, {"slot": "02:00"}):
        run(archive, run_id=str(restricted), **restricted)
        assert pending_changes.pending_event(archive, NAME) is not None
    run(archive, kinds=("training", "inference"))
    assert pending_changes.pending_event(archive, NAME) is None


def test_a_run_says_once_that_it_began(archive: Archive) -> None:
    look(archive, "driver.version")
    event = sent(archive)
    run(archive, event)
    run(archive, event)
    run(archive, {"from_rest_api": True}, run_id="nothing waits")
    assert [e.what for e in archive.audit(NAME)] == [
        pending_changes.CHANGE_DETECTED,
        pending_changes.EVENT_SENT,
        pending_changes.CHANGE_MEASURED,
    ]


def test_somebody_elses_event_measures_what_waits_too(archive: Archive) -> None:
    look(archive, "driver.version")
    run(archive, {"from_rest_api": True}, workloads=("gpt-tiny-cpu",))
    assert pending_changes.pending_event(archive, NAME) is None


def test_only_who_is_enabled_and_watched_is_looked_at() -> None:
    blind = PROVIDER.model_copy(update={"watch": MonitoringConfig(enabled=False)})
    away = DECLARED.providers["local-2core"].model_copy(update={"enabled": False})
    assert pending_changes.monitored_providers(Declarations({NAME: PROVIDER}, {}, {}, DECLARED.thresholds)) == [PROVIDER]
    assert pending_changes.monitored_providers(Declarations({NAME: blind, "local-2core": away}, {}, {}, DECLARED.thresholds)) == []
