"""A busy machine has no winner: in the quality checks, the verdict, the report's cover and the decisions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import pytest
from tests.data.result_documents import document, provider, trial

from plumbline.analysis.busy_machine import busy_machine
from plumbline.analysis.campaign_data import CampaignData, CampaignQuality
from plumbline.analysis.conclusions import conclude
from plumbline.declarations import Provider, load
from plumbline.presentation.html.report import report_context
from plumbline.presentation.verdicts import campaign_verdict
from plumbline.quality.check import check, spoilt_by_load
from plumbline.results import Reason, ResultDocument, Telemetry, Validity
from plumbline.results.document import OtherProgram

ONE, TWO = provider("lab-other"), provider("lab-2core")


def measured(where: Provider, repeat: int, foreign: float, status: str = "valid", attempt: int = 1) -> ResultDocument:
    reasons = () if status == "valid" else (Reason(code="contended_cpu", detail=f"others used {foreign:.0%} of core 0 in steady"),)
    return document(
        trial(where=where, repeat=repeat, attempt=attempt),
        validity=Validity(status=status, reasons=reasons),  # type: ignore[arg-type]
        simulated=where.simulated,
        telemetry=(Telemetry(phase="steady", signal="foreign_cpu", unit="ratio", n=9, mean=foreign, min=foreign, max=foreign),),
        other_programs=(OtherProgram(name="make", cores=foreign),) if foreign > 0.1 else (),
    )


QUIET = [measured(ONE, 1, 0.02), measured(ONE, 2, 0.03), measured(TWO, 1, 0.02), measured(TWO, 2, 0.01)]
SPOILT = [measured(ONE, 1, 0.02), measured(ONE, 2, 0.66, "invalid"), measured(TWO, 1, 0.02), measured(TWO, 2, 0.01)]


def campaign(documents: Sequence[ResultDocument], docs: Path) -> CampaignData:
    verdicts = check(documents, [d.trial for d in documents], docs, "checked").verdicts
    quality = {
        (d.trial.trial_id, d.trial.attempt): CampaignQuality(v.action, tuple(f"{r.code}: {r.detail}" for r in v.reasons))
        for d in documents
        for v in [verdicts[f"{d.trial.trial_id}#{d.trial.attempt}"]]
    }
    providers = {d.trial.provider.name: d.trial.provider for d in documents}
    return CampaignData("2025-11", "a test", tuple(documents), providers, load().teams, datetime.now(timezone.utc), quality=quality)


@pytest.mark.parametrize(
    ("documents", "rejected"),
    [
        (QUIET, 0),
        (SPOILT, 1),
        # Repeated by itself, and the repetition was quiet.
        ([*QUIET[1:], measured(ONE, 1, 0.66, "invalid"), measured(ONE, 1, 0.02, attempt=2)], 0),
        # Less than valid: one of four counts with a note, two of four are a busy machine.
        ([*QUIET[1:], measured(ONE, 1, 0.3, "degraded")], 0),
        ([*QUIET[2:], measured(ONE, 1, 0.3, "degraded"), measured(ONE, 2, 0.25, "degraded")], 2),
        ([], 0),
    ],
)
def test_one_spoilt_trial_or_half_of_them_touched_is_a_busy_machine(documents: list[ResultDocument], rejected: int) -> None:
    assert [reason.code for reason in spoilt_by_load(documents).values()] == ["machine_busy"] * rejected


def test_a_neighbour_on_a_providers_node_is_a_fact_about_the_provider() -> None:
    node = load().providers["simulated-h100"]
    assert spoilt_by_load([measured(node, 1, 0.66, "invalid")]) == {}


def test_a_quiet_campaign_has_leaders(tmp_path: Path) -> None:
    concluded = conclude(campaign(QUIET, tmp_path))
    assert concluded.busy is None and not campaign_verdict(concluded).busy
    assert any(bar.best for one in campaign_verdict(concluded).workloads for bar in one.bars)


def test_a_busy_one_says_so_first_and_ranks_nothing(tmp_path: Path) -> None:
    found = campaign(SPOILT, tmp_path)
    assert (busy := busy_machine(found)) is not None
    assert (round(busy.share, 2), busy.programs) == (0.66, ("make",))
    concluded = conclude(found)
    verdict = campaign_verdict(concluded)
    assert verdict.busy and verdict.headline == "this machine was busy (others used 66 %): no winner; close make and run again"
    assert concluded.decisions == () and verdict.choices == ()
    assert not any(bar.best for one in verdict.workloads for bar in one.bars)
    context = report_context(concluded)
    cells = [cell for each in context["tables"]["training"] for _, rows in each[0].groups for row in rows for cell in row.cells]
    assert cells and {cell.mark for cell in cells} == {""}
    assert context["page_one"] == verdict
