"""The hard stop of a monthly budget: whole rounds are left out, a finding says so, and it is over when what was left out is measured."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path

import pytest
from tests.data.result_documents import document
from tests.fakes.trials import CONFIG
from tests.fakes.trials import declared as shipped
from tests.golden import Golden

from plumbline.archive import Archive, open_archive
from plumbline.declarations import Budget, Origin, Provider, Trial
from plumbline.launch.plan import RunRequest, plan
from plumbline.results import Event
from plumbline.results.finding import Finding
from plumbline.workflows import plan_trials
from plumbline.workflows.budget import BudgetReached, Cut, apply_budget, budget_blocks, store_budget_finding
from plumbline.workflows.plan import TRIAL_GROUPS

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)
NAME = "local-1core"
declared = cache(shipped)
EXPECTED_USD = 0.02 * 600 / 3600
"""Of the first trial of a series: an estimate of 10 minutes at 0.02 USD/h."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(shutil.copytree(CONFIG, tmp_path / "config")))
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))  # where a Slack connection is looked for
    (tmp_path / "home").mkdir()
    monkeypatch.setattr(
        "plumbline.launch.monthly_estimate.estimate_trial_s", lambda workload, provider: 600.0
    )  # alike for all, so that rounds are
    yield tmp_path


@pytest.fixture
def archive(home: Path) -> Iterator[Archive]:
    with open_archive() as opened:
        yield opened


def limited(trials: float) -> Provider:
    """The provider with a budget for so many trials of the kind that was never measured."""
    return declared().providers[NAME].model_copy(update={"budget": Budget(usd_per_month=trials * EXPECTED_USD)})


def asked(campaign: str = "od-1", run: str = "manual__1", now: datetime = NOW, **how: object) -> list[Trial]:
    """Two rounds of two workloads, unless `how` says otherwise."""
    wanted = RunRequest(campaign, "a test", origin=Origin(dag_id="benchmark_local_1core", run_id=run), **{"repeats": 2, **how})  # type: ignore[arg-type]
    return plan(declared(), declared().providers[NAME], wanted, now)


def measured(archive: Archive, trial: Trial, seconds: float) -> None:
    moments = ((f"m{s:g}", s) for s in (0.0, seconds))
    timeline = tuple(Event(name=n, utc=trial.planned_at + timedelta(hours=1, seconds=s), monotonic_s=s) for n, s in moments)
    archive.record(document(trial, timeline=timeline), uri="file:///nowhere")


def titles(trials: tuple[Trial, ...]) -> list[str]:
    return [f"{t.workload.kind} r{t.repeat}" for t in trials]


@pytest.mark.parametrize(
    ("budget", "kept"),
    [
        (4.0, ["training r1", "inference r1", "training r2", "inference r2"]),
        (3.9, ["training r1", "inference r1"]),
        (2.0, ["training r1", "inference r1"]),
        (1.9, []),
    ],
)
def test_whole_rounds_are_kept_in_order(archive: Archive, budget: float, kept: list[str]) -> None:
    done = apply_budget(archive, limited(budget), asked(), NOW)
    assert titles(done.kept) == kept
    assert len(done.kept) + len(done.left_out) == 4
    assert (done.why is None) == (not done.left_out)


def test_what_was_measured_this_month_counts_and_tells_how_long_the_next_ones_take(archive: Archive) -> None:
    provider = limited(1.0)  # 600 s of trials
    assert titles(apply_budget(archive, provider, asked(), NOW).kept) == []
    for trial in asked("od-0", "manual__0"):
        measured(archive, trial, 100)
    # 400 of 600 s are used, a round takes 200.
    done = apply_budget(archive, provider, asked(), NOW)
    assert titles(done.kept) == ["training r1", "inference r1"]
    assert (done.balance.month, len(done.left_out)) == ("2026-11", 2) and done.why is not None and "0.00444 of 0.00333" in done.why


def test_a_run_cuts_alike_whatever_of_it_was_measured_already(archive: Archive) -> None:
    provider, trials = limited(3.0), asked()
    before = apply_budget(archive, provider, trials, NOW)
    measured(archive, trials[0], 599)
    assert titles(apply_budget(archive, provider, trials, NOW).kept) == titles(before.kept) == ["training r1", "inference r1"]
    assert titles(apply_budget(archive, provider, asked("od-2", "manual__2"), NOW).kept) == ["training r1", "inference r1"]
    assert titles(apply_budget(archive, limited(2.0), asked("od-2", "manual__2"), NOW).kept) == [], (
        "another run meets what the first one used"
    )


def stored(archive: Archive) -> list[Finding]:
    return [Finding.of(f.detail).with_state(f.state) for f in archive.findings()]


def kept_and_told(archive: Archive, provider: Provider, trials: list[Trial], now: datetime = NOW) -> tuple[Cut, Finding | None]:
    done = apply_budget(archive, provider, trials, now)
    return done, store_budget_finding(archive, done, now)


def test_a_cut_is_a_finding_that_says_what_was_left_out_and_how_to_go_on(archive: Archive, golden: Golden) -> None:
    _, found = kept_and_told(archive, limited(2.0), asked())
    assert found is not None
    assert [f.finding_id for f in stored(archive)] == [found.finding_id]
    assert (found.kind, found.severity, found.since, found.campaign_id) == ("missing_data", "warn", "2026-11-21", None)
    golden("workflows.budget_reached", found.evidence)
    assert [m.name for m in found.members] == ["training gpt-tiny-cpu", "inference chat-tiny-cpu"]
    assert all("1 of 2" in m.text for m in found.members)


def test_a_plan_that_fits_is_no_finding(archive: Archive) -> None:
    assert kept_and_told(archive, limited(4.0), asked())[1] is None
    assert stored(archive) == []


def test_a_month_has_one_finding_however_often_it_is_cut(archive: Archive) -> None:
    _, first = kept_and_told(archive, limited(2.0), asked())
    kept_and_told(archive, limited(2.0), asked())
    _, again = kept_and_told(archive, limited(2.0), asked("od-2", "manual__2", repeats=3))
    assert first is not None and again is not None
    (one,) = stored(archive)
    assert (one.finding_id, again.finding_id) == (first.finding_id, first.finding_id)
    assert "4 of 6" in one.title and "od-2" in one.evidence


def test_it_is_over_when_what_was_left_out_is_planned(archive: Archive) -> None:
    kept_and_told(archive, limited(2.0), asked())
    kept_and_told(archive, limited(2.0), asked("od-2", "manual__2", repeats=1, kinds=("training",)))
    assert [f.state for f in stored(archive)] == ["open"], "the other series still waits"
    kept_and_told(archive, limited(8.0), asked("od-3", "manual__3"))
    assert [f.state for f in stored(archive)] == ["resolved"]


def test_it_is_over_with_the_month_and_a_new_month_has_its_own(archive: Archive) -> None:
    kept_and_told(archive, limited(2.0), asked())
    december = NOW + timedelta(days=20)
    kept_and_told(archive, limited(2.0), asked("od-2", "manual__2", now=december), december)
    assert {(f.since, f.state) for f in stored(archive)} == {("2026-11-21", "resolved"), ("2026-12-11", "open")}


def budget_of(home: Path, trials: float) -> None:
    file = home / "config" / "providers" / f"{NAME}.yaml"
    file.write_text(f"{(CONFIG / 'providers' / f'{NAME}.yaml').read_text()}budget: {{usd_per_month: {trials * EXPECTED_USD}}}\n")


def test_a_lane_plans_what_the_budget_carries_of_the_whole_run(home: Path, archive: Archive) -> None:
    wanted = RunRequest("od-1", "a test", workloads=("gpt-tiny-cpu", "chat-tiny-cpu"), repeats=2)
    budget_of(home, 2.0)
    assert [row["title"] for row in plan_trials.plan_trials(NAME, TRIAL_GROUPS["inference"], wanted)] == ["chat-tiny-cpu 02:00 r1"]
    assert stored(archive) == [], "the first lane tells of it"
    assert [row["title"] for row in plan_trials.plan_trials(NAME, TRIAL_GROUPS["training"], wanted)] == ["gpt-tiny-cpu 02:00 r1"]
    assert [f.subject for f in stored(archive)] == ["budget"]
    assert len(list((home / "home" / "results").rglob("planned.json"))) == 2, "what is left out is not planned"


def test_a_lane_of_which_nothing_fits_says_why_and_other_providers_go_on(home: Path, archive: Archive) -> None:
    wanted = RunRequest("od-1", "a test", workloads=("gpt-tiny-cpu", "chat-tiny-cpu"), repeats=1)
    budget_of(home, 0.5)
    with pytest.raises(BudgetReached, match=r"local-1core: .*`budget`"):
        plan_trials.plan_trials(NAME, TRIAL_GROUPS["training"], wanted)
    assert len(stored(archive)) == 1
    assert len(plan_trials.plan_trials("local-2core", TRIAL_GROUPS["training"], wanted)) == 1


def test_a_rerun_that_would_measure_nothing_is_held_back_and_told_of_once(archive: Archive) -> None:
    world, nothing = declared(), limited(0.5)
    for hour in range(3):
        why = budget_blocks(archive, world, nothing, None, NOW + timedelta(hours=hour))
        assert why is not None and NAME in why and "2026-11" in why
    (one,) = stored(archive)
    assert "od-20261121-120000" in one.evidence and one.subject == "budget"


def test_a_rerun_that_would_measure_something_is_not(archive: Archive) -> None:
    assert budget_blocks(archive, declared(), limited(2.0), None, NOW) is None
    assert budget_blocks(archive, declared(), limited(1.0), ("gpt-tiny-cpu",), NOW) is None
    assert budget_blocks(archive, declared(), declared().providers[NAME], None, NOW) is None
    assert stored(archive) == []
