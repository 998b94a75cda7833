"""What can be decided from now: which series count, at which prices, and why the rest does not."""

from __future__ import annotations

import zlib
from datetime import date, datetime, timezone

import pytest
from sqlalchemy import text
from tests.data.result_documents import document, provider, training_metrics, training_workload, trial
from tests.fakes.labs import CHEAP, FAST, lab, measure, serve, spread, team, world
from tests.unit.archive.test_verify import damage

from plumbline.analysis.decisions import current_results as module
from plumbline.analysis.trial_sample import TrialSample
from plumbline.answers import current_results as reader
from plumbline.answers.current_results import current_results, decide_teams
from plumbline.archive import Archive
from plumbline.results import Reason

DAY = date(2025, 12, 2)
SIMULATED = provider("sim", launcher={"kind": "simulated", "seed": 1}, cloud="simulated")


def cost(trials: tuple[TrialSample, ...], name: str) -> float | None:
    return next(t for t in trials if t.provider == name).value("cost_per_1m_trained_tokens", "value", "steady")


def test_the_newest_campaign_of_each_series_at_accepted_prices(archive: Archive) -> None:
    declared = world()
    measure(archive, declared, {FAST: spread(0.1), CHEAP: spread(0.1)}, campaign="2025-10")
    measure(archive, declared, {FAST: spread(0.09)})
    archive.accept_price(CHEAP, "on_demand", None, 1.5, date(2025, 11, 15), "their list", by="ada", why="it rose")
    now = current_results(archive, declared, DAY)
    assert now.campaigns == {(FAST, "gpt-test"): "2025-11", (CHEAP, "gpt-test"): "2025-10"}
    assert len(now.trials) == 6 and now.simulated == frozenset() and now.left_out == ()
    usd_per_token = 1.5 / 3600 / (64 / 0.099)
    assert cost(now.trials, CHEAP) == pytest.approx(1e6 * usd_per_token)
    # Before it was accepted, the declared price held.
    before = current_results(archive, declared, date(2025, 11, 14))
    assert cost(before.trials, CHEAP) == pytest.approx(1e6 * usd_per_token / 1.5)


def test_other_prices_are_tried_without_touching_the_rest(archive: Archive) -> None:
    declared = world()
    measure(archive, declared, {FAST: spread(0.09), CHEAP: spread(0.1)})
    now = current_results(archive, declared, DAY)
    tried = now.priced({FAST: 0.5})
    assert cost(tried, FAST) == pytest.approx((cost(now.trials, FAST) or 0) / 2) and cost(tried, CHEAP) == cost(now.trials, CHEAP)
    assert [t.trial_id for t in tried] == [t.trial_id for t in now.trials] and now.priced({}) == now.trials
    with pytest.raises(ValueError, match=FAST):
        now.priced({FAST: 0.0})


def test_what_an_older_version_of_a_workload_showed_does_not_count_beside_the_newer(archive: Archive) -> None:
    declared = world()
    measure(archive, declared, {CHEAP: spread(0.1)})
    newer = trial(where=declared.providers[FAST], workload=training_workload(version=2))
    archive.record(document(newer), uri="file:///nowhere")
    now = current_results(archive, declared, DAY)
    assert list(now.campaigns) == [(FAST, "gpt-test")]
    (gone,) = now.left_out
    assert gone.provider == CHEAP and all(version in gone.reason for version in ("version 1", "version 2"))
    # Also for who looks at one of them alone.
    alone = current_results(archive, declared, DAY, providers=[CHEAP])
    assert alone.trials == () and alone.left_out == (gone,)
    assert current_results(archive, declared, DAY, providers=[FAST]).left_out == ()


def test_criteria_are_those_of_the_newest_trial_whatever_its_campaign_is_called(archive: Archive) -> None:
    declared = world()
    for name, campaign, limit, day in ((CHEAP, "2025-11", "1s", 1), (FAST, "1-rerun", "2s", 20)):
        asked = training_workload(acceptance=[f"median step_time <= {limit} in steady"])
        planned = datetime(2025, 11, day, tzinfo=timezone.utc)
        one = trial(where=declared.providers[name], workload=asked, campaign=campaign, planned_at=planned)
        archive.record(document(one), uri="file:///nowhere")
    (criterion,) = current_results(archive, declared, DAY).workloads["gpt-test"].acceptance
    assert (criterion.metric, criterion.statistic, criterion.limit) == ("step_time", "median", 2.0)


def test_simulated_results_count_only_alone(archive: Archive) -> None:
    declared = world()
    archive.record(document(trial(where=SIMULATED), simulated=True), uri="file:///nowhere")
    made_up = current_results(archive, declared, DAY)
    assert made_up.simulated == {"sim"} and len(made_up.trials) == 1
    serve(archive, declared, {FAST: [0.04]})
    # Also of a workload that nobody measured: who asks about another one gets the same answer.
    real = current_results(archive, declared, DAY, workloads=["gpt-test"])
    assert real.trials == () and [(gone.provider, gone.workload) for gone in real.left_out] == [("sim", "gpt-test")]
    asked = current_results(archive, declared, DAY, simulated=True)
    assert asked.simulated == {"sim"} and {t.provider for t in asked.trials} == {"sim"}


def test_a_provider_that_is_no_longer_declared_gives_way_to_those_that_are(archive: Archive) -> None:
    declared = world()
    measure(archive, declared, {FAST: spread(0.09), CHEAP: spread(0.1)})
    del declared.providers[CHEAP]
    now = current_results(archive, declared, DAY)
    assert set(now.providers) == {FAST} and [gone.provider for gone in now.left_out] == [CHEAP]
    alone = current_results(archive, declared, DAY, providers=[CHEAP])
    assert alone.trials == () and alone.left_out == now.left_out
    serve(archive, world(), {CHEAP: [0.04]})
    (workload,) = {name for _, name in current_results(archive, world(), DAY).campaigns} - {"gpt-test"}
    # No declared provider ran it, and one ran another workload: the whole archive decides.
    served = current_results(archive, declared, DAY, workloads=[workload])
    assert served.trials == () and [gone.provider for gone in served.left_out] == [CHEAP]
    del declared.providers[FAST]
    # Another installation's archive: as they were when they were measured.
    assert set(current_results(archive, declared, DAY).providers) == {FAST, CHEAP}


def test_rejected_corrected_and_damaged_attempts(archive: Archive) -> None:
    declared = world()
    measure(archive, declared, {FAST: spread(0.09)})
    asked = trial(where=declared.providers[FAST], repeat=3)
    why = Reason(code="implausible", detail="too good to be true")
    better = asked.model_copy(update={"attempt": 2})
    archive.correct(
        document(better, metrics=training_metrics(0.5)), 1, by="ada", why="x", action="reject", quality_reasons=(why,), uri="file:///x"
    )
    now = current_results(archive, declared, DAY)
    last = now.trials[-1]
    assert [t.usable for t in now.trials] == [True, True, False] and (last.attempt, last.status) == (2, "invalid")
    assert last.reasons[-1] == f"{why.code}: {why.detail}"
    with archive.engine.connect() as connection:
        row = connection.execute(text("SELECT id, checksum FROM trials WHERE repeat = 1")).one()
    reader._KEPT.pop(row.checksum)
    damage(archive, f"UPDATE documents SET content = x'{zlib.compress(b'{}').hex()}' WHERE trial_pk = {row.id}")
    broken = current_results(archive, declared, DAY)
    assert len(broken.trials) == 2 and "plumbline archive verify" in broken.left_out[0].reason


def test_a_document_is_read_once(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = world()
    measure(archive, declared, {FAST: spread(0.0901)})
    first = current_results(archive, declared, DAY)
    asked: list[object] = []
    read = type(archive).contents
    monkeypatch.setattr(type(archive), "contents", lambda self, pks: asked.append(list(pks)) or read(self, pks))
    assert current_results(archive, declared, DAY).trials == first.trials and asked == [[]]
    monkeypatch.setattr(reader, "CACHE_SIZE", 2)
    measure(archive, declared, {CHEAP: spread(0.1003)})
    assert len(current_results(archive, declared, DAY).trials) == 6 and len(reader._KEPT) == 2


def test_a_team_may_have_several_choices_of_a_kind_and_each_workload_can_be_asked_alone(archive: Archive) -> None:
    other = training_workload(name="bert-test")
    weights = {"tokens_per_second": 1.0}
    several = team(training={"workloads": ["gpt-test", "bert-test"], "weights": weights})
    declared = world({FAST: 2.0, CHEAP: 1.0}, teams=(several,))
    declared.workloads[other.name] = other
    measure(archive, declared, {FAST: spread(0.09), CHEAP: spread(0.1)})
    for name in (FAST, CHEAP):
        archive.record(document(trial(where=lab(name), workload=other)), uri="file:///nowhere")
    together, alone = (decide_teams(archive, declared, DAY, kind="training", workload=w)[0] for w in (None, "bert-test"))
    assert together.decision.workloads == ("gpt-test", "bert-test") and [c.workload for c in together.cheapest] == ["gpt-test", "bert-test"]
    assert alone.decision.workloads == ("bert-test",) and {w for _, w in alone.current.campaigns} == {"bert-test"}
    assert module.TeamDecision(alone.decision, alone.preference, alone.current).prices[FAST].basis.usd_per_hour == 2.0  # type: ignore[union-attr]


def test_an_empty_archive_decides_nothing(archive: Archive) -> None:
    found = decide_teams(archive, world(), DAY)
    assert [d.decision.ranking for d in found] == [(), ()] and found[0].weight_swings == () and found[0].price_swings == ()
