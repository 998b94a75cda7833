"""The stored shape of a decision, a finding and a compared invoice: a changed one fails here first, and what archives hold already is still read.

tests/data/golden/decision.json, finding.json and compared_invoice.json were stored by this version's code; a new field is added to them on purpose, with its default
in the class, so that rows without it are read too.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.fakes.labs import CHEAP, FAST, measure, spread, world
from tests.unit.alerts.test_message import FINDING

from plumbline.analysis.decisions.decision_record import read_decision
from plumbline.answers.current_results import decide_teams
from plumbline.archive import DecisionView, open_archive
from plumbline.results.compared_invoice import ComparedInvoice, ComparedSum, Difference, Uncompared
from plumbline.results.finding import CauseEvidence, ChoiceMove, EndingHours, Finding, PriceMove, PromisedCredit
from plumbline.words.decision_record import decision_detail, decision_document

GOLDEN = Path(__file__).parents[2] / "data" / "golden"
AT = datetime(2025, 12, 2, tzinfo=timezone.utc)


def golden(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((GOLDEN / name).read_text(encoding="utf-8"))
    return content


def paths(value: Any, at: str = "") -> set[str]:
    """The fields of a document: their names with those around them, and the kind of value; places in lists count as one."""
    if isinstance(value, dict):
        return {f"{at} {{}}"} | {path for key, inner in value.items() for path in paths(inner, f"{at}.{key}")}
    if isinstance(value, list):
        return {f"{at} []"} | {path for inner in value for path in paths(inner, f"{at}[]")}
    return {f"{at} {'null' if value is None else 'text' if isinstance(value, str) else 'number'}"}


def stored(detail: dict[str, Any]) -> DecisionView:
    return DecisionView("d1", "platform", "training", FAST, 0.91, detail, AT)


def test_a_decision_is_stored_in_the_golden_shape(tmp_path: Path) -> None:
    declared = world()
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        measure(archive, declared, {FAST: spread(0.090), CHEAP: spread(0.1)})
        decided = next(d for d in decide_teams(archive, declared, AT.date()) if d.decision.ranking)
    detail = json.loads(json.dumps(decision_detail(decision_document(decided))))
    assert paths(detail) == paths(golden("decision.json"))


def test_a_golden_decision_is_read_without_loss() -> None:
    read = read_decision(stored(golden("decision.json")))
    assert read is not None and read.first_name == CHEAP and read.decided_at == AT
    assert json.loads(json.dumps(decision_detail(read))) == golden("decision.json")


def test_a_finding_is_stored_in_the_golden_shape_and_read_without_loss() -> None:
    finding = replace(
        FINDING,
        series=(FINDING.series_key,),
        standing=(FINDING.series_key,),
        cause=CauseEvidence(
            ("driver.version",),
            ("driver 570.86.15",),
            "confirmed",
            ("aurora",),
            ("cirrus",),
            3,
            4,
            1,
            2,
            0.01,
            clouds=2,
            missing="one cloud has it",
            decides="the same change at a second cloud",
        ),
        moves=(ChoiceMove("platform", "training", "aurora", "cirrus"),),
        prices=(PriceMove("aurora", 2.0, 2.6),),
        credit=PromisedCredit(0.1, "2026-09", "2026-10-30"),
        ending=EndingHours("2026-12-31", 1752.0, -350.0),
    )
    assert json.loads(json.dumps(finding.to_dict())) == golden("finding.json")
    assert Finding.of(golden("finding.json")) == finding
    assert asdict(Finding.of({**golden("finding.json"), "of a newer version": 1})) == asdict(finding)


def test_a_compared_invoice_is_stored_in_the_golden_shape_and_read_without_loss() -> None:
    difference = Difference("duplicate", "aurora", Decimal("90.00"), 4, "1 h of i-7 again", currency="EUR")
    invoice = ComparedInvoice(
        file="november.csv",
        sha256="9f2c",
        asked=("aurora",),
        first=date(2026, 11, 1),
        after=date(2026, 12, 1),
        lines=9,
        matched=4,
        compared=(ComparedSum("aurora", "EUR", 4, Decimal("360.00")),),
        differences=(difference,),
        uncompared=(Uncompared("Storage", "EUR", 5, Decimal("3.10")),),
        findings=("0499e17b875f",),
        selection=("--account", "bench"),
        left_out=(Uncompared("not selected", "EUR", 2, Decimal("20.00")),),
    )
    assert json.loads(json.dumps(invoice.to_dict())) == golden("compared_invoice.json")
    assert ComparedInvoice.of({**golden("compared_invoice.json"), "of a newer version": 1}) == invoice
