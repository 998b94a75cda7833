"""One source for what findings cost: the overview, the list of findings, a report and a message."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from tests.data.result_documents import PLANNED, document, trial

from plumbline.answers.campaign_history import campaign_history
from plumbline.answers.costed_findings import costed_findings
from plumbline.answers.ledger import ledger_of
from plumbline.answers.monthly_costs import monthly_cost_of, monthly_costs
from plumbline.archive import open_archive
from plumbline.declarations import Declarations, load
from plumbline.declarations.alerts import RentedVolume
from plumbline.metrics.formatting import format_money
from plumbline.presentation.overview import overview
from plumbline.results.finding import Finding, Member
from plumbline.workflows.findings import finding_record


def declared() -> Declarations:
    known = load()
    volume = RentedVolume.model_construct(provider="local-*", workload=None, time_per_month=3600.0 * 730, purchase="on_demand")
    return replace(known, alerts=known.alerts.model_copy(update={"volumes": (volume,)}))


def moved(name: str, effect: float) -> Finding:
    asked = trial()
    return Finding(
        finding_id=name,
        kind="performance",
        severity="warn",
        provider="local-1core",
        evidence="WARN  step time moved",
        explanation="",
        workload_kind="training",
        workload=asked.workload.name,
        subject=asked.workload.name,
        campaign_id="2025-11",
        series_key=asked.series_key,
        metric="step_time",
        effect=effect,
        members=(Member("step_time", "moved", effect=effect, series_key=asked.series_key),),
    )


def test_a_gain_does_not_pay_for_a_loss_and_every_reader_gets_the_same_amount(tmp_path: Path) -> None:
    known = declared()
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        archive.record(document(), uri="file:///store")
        broken = finding_record(moved("broken", 0.1))
        archive.save_findings(
            [finding_record(moved("slow", 0.2)), finding_record(moved("fast", -0.1)), replace(broken, detail={"members": 3})]
        )
        views = archive.findings("open")
        costs = monthly_costs(archive, known, views)
        history, _ = campaign_history(archive, known, "2025-11")
        shown = overview(archive, known, (), PLANNED + timedelta(days=1))
        found = ledger_of(costed_findings(archive, known, views).values())
        assert costs.keys() == {"slow", "fast"}, "one that cannot be read has no amount"
        assert costs["slow"] == monthly_cost_of(archive, known, archive.finding("slow"))
    total = found.total()
    assert (total.lost, total.saved) == (costs["slow"].usd, -(costs["fast"].usd or 0.0)) and total.lost > total.saved > 0
    assert history.monthly == total
    tile = next(tile for tile in shown.tiles if tile.name == "Lost a month")
    assert tile.value == format_money(total.lost)
    assert {g.usd for g in shown.groups} == {costs["slow"].usd, costs["fast"].usd, None}
