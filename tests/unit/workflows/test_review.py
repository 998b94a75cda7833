"""Reviewing and reporting what the archive holds: two campaigns of one series, alike and not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.data.result_documents import PLANNED, document, training_metrics, training_workload, trial
from tests.fakes.trials import CONFIG

from plumbline.analysis.drift.comparison import Comparison, MetricComparison
from plumbline.answers.relative_criteria import resolve_criteria
from plumbline.archive import open_archive
from plumbline.findings import Reconciliation, provider_finding
from plumbline.findings.headline import headline
from plumbline.words.drift import left_out_text
from plumbline.workflows import alert, report, review
from plumbline.workflows.findings import apply


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(CONFIG))
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))  # where a Slack connection is looked for
    yield tmp_path


def measured(campaign: str, step_time: float, repeats: int = 6, value: float | None = None) -> None:
    """`value`: of the step times, in place of what they were."""
    with open_archive() as archive:
        for repeat in range(1, repeats + 1):
            asked = trial(campaign=campaign, repeat=repeat, planned_at=PLANNED + timedelta(days=int(campaign.split("-")[1]) * 30))
            jitter = step_time * (1 + 0.001 * repeat)
            rows = training_metrics(jitter)
            if value is not None:
                rows = [row.model_copy(update={"value": value}) if row.metric == "step_time" else row for row in rows]
            assert archive.record(document(asked, metrics=rows), uri="file:///nowhere") == "inserted"


def test_the_first_campaign_becomes_the_baseline_and_drifts_from_nothing() -> None:
    measured("2026-01", 0.1)
    (one,) = review.review_campaign("2026-01")
    assert one.findings == ()
    with open_archive() as archive:
        assert archive.baseline(one.series_key) == ["2026-01"]
        (series,) = report.campaign_data(archive, "2026-01").drift
    assert series.baseline == () and "first baseline" in series.note


def test_a_campaign_like_its_baseline_has_no_finding() -> None:
    measured("2026-01", 0.1)
    measured("2026-02", 0.1)
    review.review_campaign("2026-01")
    (one,) = review.review_campaign("2026-02", "lab-2core")
    assert one.comparison.baseline_campaigns == ("2026-01",)
    assert (one.comparison.verdict, one.findings) == ("unchanged", ())


@pytest.mark.parametrize(("baseline", "limit"), [(0.1, 0.11), (0.0, None)])
def test_a_percentage_of_a_baseline_that_is_0_is_no_limit(baseline: float, limit: float | None) -> None:
    declared = "step_time within 10% of baseline in steady"
    measured("2026-01", 0.1, value=baseline)
    measured("2026-02", 0.1)
    (one,) = review.review_campaign("2026-01")
    with open_archive() as archive:
        found = resolve_criteria(archive, one.series_key, "2026-02", training_workload(acceptance=[declared]))
    assert [each.limit for each in found.values()] == ([] if limit is None else [pytest.approx(limit, rel=0.01)])


def test_a_slower_campaign_is_a_finding_once_however_often_it_is_reviewed() -> None:
    measured("2026-01", 0.1)
    measured("2026-02", 0.2)
    review.review_campaign("2026-01")
    (one,) = review.review_campaign("2026-02")
    assert [(f.kind, f.severity) for f in one.findings] == [("performance", "page")]
    review.review_campaign("2026-02")
    with open_archive() as archive:
        (stored,) = archive.findings()
    assert stored.headline == headline(one.findings[0])
    assert stored.detail["explanation"] == one.findings[0].explanation


def test_alerts_tell_every_open_finding() -> None:
    measured("2026-01", 0.1)
    measured("2026-02", 0.2)
    review.review_campaign("2026-01")
    (one,) = review.review_campaign("2026-02")
    told = alert.send_alerts()
    assert told["log_only"] == [one.findings[0].finding_id]


def test_nothing_to_review_or_report_is_said() -> None:
    with pytest.raises(LookupError, match=r'"2026-09".* lab-2core'):
        review.review_campaign("2026-09", "lab-2core")
    with pytest.raises(LookupError, match="no campaign yet"):
        report.write_report()
    with pytest.raises(LookupError, match='"2026-09"'):
        report.write_report("2026-09")


def test_the_report_is_about_the_newest_campaign_unless_one_is_named(home: Path) -> None:
    measured("2026-01", 0.1)
    measured("2026-02", 0.2)
    review.review_campaign("2026-01")
    review.review_campaign("2026-02")
    assert report.write_report() == str(home / "reports" / "2026-02" / "report.html")
    assert "1 regression" in (home / "reports" / "2026-02" / "report.md").read_text()
    assert report.write_report("2026-01", ("csv", "parquet")) == str(home / "reports" / "2026-01" / "report.html")
    assert {p.suffix for p in (home / "reports" / "2026-01" / "tables").iterdir()} == {".csv", ".parquet", ".md"}
    assert not (home / "reports" / "2026-02" / "tables").exists()


def test_the_report_holds_the_campaign_against_its_baseline_with_its_findings() -> None:
    measured("2026-01", 0.1)
    measured("2026-02", 0.2)
    review.review_campaign("2026-01")
    review.review_campaign("2026-02")
    with open_archive() as archive:
        data = report.campaign_data(archive, "2026-02")
    (series,) = data.drift
    assert series.baseline == ("2026-01",)
    assert series.verdicts["regressed"] > 0
    assert [f.kind for f in data.findings] == ["performance"]
    assert len(data.documents) == 6


def test_a_report_says_what_the_review_said_also_of_a_drift_that_goes_on() -> None:
    """The report once judged each series by itself, took drifted campaigns for quiet ones, and was silent about what began earlier."""
    for month, step_time in enumerate((0.1, 0.12, 0.1201, 0.1199, 0.1202), 1):
        measured(f"2026-0{month}", step_time)
        (one,) = review.review_campaign(f"2026-0{month}")
    with open_archive() as archive:
        data = report.campaign_data(archive, "2026-05")
        assert [f.finding_id for f in report.campaign_data(archive, "2026-01").findings] == []
        (stored,) = archive.findings()
        archive.accept_baseline(one.series_key, "2026-05", "ada", "it stays so")
        (accepted,) = report.campaign_data(archive, "2026-05").drift
    (series,) = data.drift
    assert series.verdicts == Counter(str(row.verdict) for row in one.comparison.rows if row.verdict is not None)
    assert [(f.finding_id, f.campaign_id) for f in data.findings] == [(stored.finding_id, "2026-02")]
    assert accepted.note.startswith("ada accepted ")
    # A later baseline changes nothing of how the campaign was judged.
    assert (accepted.baseline, accepted.verdicts, accepted.state) == (series.baseline, series.verdicts, series.state)


def test_quiet_campaigns_join_the_first_baseline_and_drifted_ones_do_not() -> None:
    for campaign, step_time in (("2026-01", 0.1), ("2026-02", 0.1), ("2026-03", 0.2), ("2026-04", 0.1)):
        measured(campaign, step_time)
        (one,) = review.review_campaign(campaign)
        assert one.quiet == (campaign in ("2026-02", "2026-04"))
    with open_archive() as archive:
        # Three were looked at, one of them drifted: the fourth is too late.
        assert archive.baseline(one.series_key) == ["2026-01", "2026-02"]
    assert one.comparison.baseline_campaigns == ("2026-01", "2026-02")


def test_a_campaign_of_the_baseline_is_held_against_what_was_accepted_before_it() -> None:
    for campaign in ("2026-01", "2026-02", "2026-03"):
        measured(campaign, 0.1)
        review.review_campaign(campaign)
    again = {campaign: review.review_campaign(campaign)[0].comparison.baseline_campaigns for campaign in ("2026-01", "2026-02", "2026-03")}
    assert again == {"2026-01": (), "2026-02": ("2026-01",), "2026-03": ("2026-01", "2026-02")}
    with open_archive() as archive:
        (series,) = report.campaign_data(archive, "2026-01").drift
        assert "first baseline" in series.note
        (series,) = report.campaign_data(archive, "2026-02").drift
        assert (series.note, series.baseline) == ("", ("2026-01",))


def test_a_question_names_the_campaigns_that_asked_before() -> None:
    measured("2026-01", 0.1)
    review.review_campaign("2026-01")
    asked = {}
    for campaign in ("2026-02", "2026-03"):
        measured(campaign, 0.2)
        (asked[campaign],) = review.review_summary(review.review_campaign(campaign)[0])["questions"]
    assert asked["2026-02"]["asked_in"] == []
    assert asked["2026-03"] == {**asked["2026-02"], "campaign_id": "2026-03", "asked_in": ["2026-02"]}


def invalid(campaign: str, *repeats: int) -> None:
    with open_archive() as archive:
        for repeat in repeats:
            asked = trial(campaign=campaign, repeat=repeat, planned_at=PLANNED + timedelta(days=int(campaign.split("-")[1]) * 30))
            archive.record(document(asked, status="invalid"), uri="file:///nowhere")


def test_a_workload_that_gives_nothing_anywhere_is_one_finding_with_the_reason_until_it_does() -> None:
    invalid("2026-01", 1, 2, 3)
    review.review_campaign("2026-01")
    review.review_campaign("2026-01")
    with open_archive() as archive:
        (found,) = archive.findings()
    assert (found.kind, found.severity, found.provider, found.state) == ("missing_data", "page", "fleet", "open")
    assert found.headline.endswith("no usable result: 3 of 3 attempts step_time_unsteady since January 2026")
    invalid("2026-02", 1, 2, 3)
    review.review_campaign("2026-02")
    with open_archive() as archive:
        (goes_on,) = archive.findings()
    assert (goes_on.finding_id, goes_on.detail["seen_in"]) == (found.finding_id, ["2026-02"])
    measured("2026-03", 0.1)
    review.review_campaign("2026-03")
    with open_archive() as archive:
        assert [view.state for view in archive.findings() if view.kind == "missing_data"] == ["resolved"]


def test_one_usable_trial_is_a_result() -> None:
    measured("2026-01", 0.1, repeats=1)
    invalid("2026-01", 2, 3)
    review.review_campaign("2026-01")
    with open_archive() as archive:
        assert [view for view in archive.findings() if view.kind == "missing_data"] == []


def on_nodes(campaign: str, factors: dict[str, float]) -> None:
    """A trial on each node, whose steps take 0.1 s times its factor and a little of its own."""
    with open_archive() as archive:
        for repeat, (node, factor) in enumerate(factors.items(), 1):
            asked = trial(campaign=campaign, repeat=repeat, planned_at=PLANNED + timedelta(days=int(campaign.split("-")[1]) * 30))
            made = document(asked, metrics=training_metrics(0.1 * factor * (1 + 0.001 * repeat)))
            assert made.launch is not None
            archive.record(made.with_launch(made.launch.model_copy(update={"node": {"host.name": node}})), uri="file:///nowhere")


def slow_node_known(node: str) -> None:
    found = provider_finding(
        "lab-2core", "reliability", f"node/{node}", since="2026-01-01", severity="warn", title=f"node {node} is slow", explanation=""
    )
    with open_archive() as archive:
        apply(archive, Reconciliation((found,)), by="test", seen_in="accept-3")


NODES = [f"n{i}" for i in range(6)]


def step_time(comparison: Comparison) -> MetricComparison:
    return next(r for r in comparison.rows if (r.metric, r.statistic, r.phase) == ("step_time", "median", "steady"))


@pytest.mark.parametrize("known", [True, False])
def test_a_slow_node_widens_no_spread_and_hides_no_drift_of_the_others(known: bool) -> None:
    """Two of the baseline's eight nodes, and one of the next campaign's, are 12 % slow; the others become 4 % slower."""
    on_nodes("2026-01", {**dict.fromkeys(NODES, 1.0), "bad": 1.12, "bad-2": 1.12})
    on_nodes("2026-02", {**dict.fromkeys(NODES, 1.04), "bad": 1.16})
    if known:
        slow_node_known("bad")
        slow_node_known("bad-2")
    review.review_campaign("2026-01")
    (one,) = review.review_campaign("2026-02")
    row = step_time(one.comparison)
    assert (row.n_baseline, row.n_candidate) == ((6, 6) if known else (8, 7))
    assert (left_out_text(one.comparison) != "") is known
    if known:
        assert "bad" in left_out_text(one.comparison) and row.verdict == "regressed" and row.effect == pytest.approx(0.04, abs=0.005)
    with open_archive() as archive:
        (series,) = report.campaign_data(archive, "2026-02").drift
    assert ("without trials on bad" in series.note) is known


@pytest.mark.parametrize("known", [True, False])
def test_more_trials_on_a_slow_node_are_drift_of_the_provider_only_while_it_is_not_known(known: bool) -> None:
    on_nodes("2026-01", dict.fromkeys(NODES, 1.0))
    on_nodes("2026-02", {**dict.fromkeys(NODES[:2], 1.0), **{f"bad{i}": 1.2 for i in range(12)}})
    for i in range(12 if known else 0):
        slow_node_known(f"bad{i}")
    review.review_campaign("2026-01")
    (one,) = review.review_campaign("2026-02")
    assert bool(one.findings) is not known


def test_a_provider_with_slow_nodes_alone_is_compared_as_it_is() -> None:
    for campaign in ("2026-01", "2026-02"):
        on_nodes(campaign, dict.fromkeys(NODES, 1.0))
    for node in NODES:
        slow_node_known(node)
    review.review_campaign("2026-01")
    (one,) = review.review_campaign("2026-02")
    assert step_time(one.comparison).n_candidate == len(NODES) and left_out_text(one.comparison) == ""
