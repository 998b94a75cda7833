"""Reserved hours from an archive: the same rows for command, page and report, and a finding of the daily price check."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from tests.data.result_documents import document, provider, trial
from tests.fakes.trials import CONFIG

from plumbline.answers.commitments import contract_commitments
from plumbline.archive import Archive
from plumbline.declarations import Contract, Declarations, load
from plumbline.presentation.commitments import commitment_table
from plumbline.presentation.html.report import write_report
from plumbline.results import Event
from plumbline.words.commitments import renewal_text
from plumbline.workflows.read_prices import read_and_store_prices
from plumbline.workflows.report import campaign_data

NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)
PLACE = provider(
    prices=[{"purchase": "on_demand", "price": "90 USD/h", "since": "2026-01-01", "source": "contract 7"}],
    price_sources=[{"kind": "contract", "contract": "neo"}],
)


def places(*terms: tuple[str, str]) -> Declarations:
    prices = [
        {"purchase": "reserved", "price": "60 USD/instance-hour", "since": begin, "until": end, "committed": {"instances": 1}}
        for begin, end in terms
    ]
    neo = Contract.model_validate({"name": "neo", "source": "contract 7", "prices": prices}, strict=False)
    return replace(load(CONFIG), providers={PLACE.name: PLACE}, contracts={"neo": neo})


@pytest.fixture
def used(archive: Archive) -> Archive:
    """Six hours on the 19th."""
    began = NOW - timedelta(days=2)
    moments = (("harness_started", 0.0), ("harness_finished", 6 * 3600.0))
    timeline = tuple(Event(name=name, utc=began + timedelta(seconds=s), monotonic_s=s) for name, s in moments)
    archive.record(document(trial(where=PLACE.of_trial(), planned_at=began), timeline=timeline), uri="file:///nowhere")
    return archive


def test_report_and_command_have_the_same_rows(used: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """20 days · 24 h passed, 6 h used: 474 h · 60 = 28,440.00 USD."""
    declared = places(("2026-11-01", "2026-12-01"))
    (one,) = found = contract_commitments(used, declared, NOW)
    assert (one.used_h, one.unused_h, str(one.unused_usd), one.ahead_h) == (6, 474, "28,440.00 USD", 240)
    assert renewal_text(one) == "not known without committed.used"
    monkeypatch.setattr("plumbline.workflows.report.load_in_force", lambda: declared)
    data = campaign_data(used, used.newest_campaign() or "")
    (_, shown) = data.commitments
    assert shown[:3] == commitment_table(found)[1][:3] and shown[4:6] == ("720.0", "6.0")
    assert '<th scope="row">neo</th>' in write_report(data, tmp_path).read_text(encoding="utf-8")
    assert contract_commitments(used, declared, NOW, ["elsewhere"]) == ()


def states(archive: Archive) -> list[tuple[str, str]]:
    return [(f.detail["subject"], f.state) for f in archive.findings_of(PLACE.name) if f.detail["subject"].startswith("commitment")]


def test_the_price_check_opens_and_resolves_the_finding(used: Archive) -> None:
    term, subject = ("2026-11-01", "2026-12-01"), "commitment neo until 2026-12-01"
    read_and_store_prices(used, places(("2026-01-01", "2027-01-01")), PLACE, NOW)
    assert states(used) == []
    for _ in range(2):
        read_and_store_prices(used, places(term), PLACE, NOW)
        assert states(used) == [(subject, "open")]
    read_and_store_prices(used, places(term, ("2026-12-01", "2027-12-01")), PLACE, NOW + timedelta(days=1))
    assert states(used) == [(subject, "resolved")]
