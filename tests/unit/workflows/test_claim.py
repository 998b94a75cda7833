"""A claim names promise, measurement, clause and credit, and brings the pack whose checksum it states."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from email import message_from_bytes, policy
from pathlib import Path

import pytest
from tests.data.result_documents import document, failed, trial

from plumbline.answers.claims import claimable
from plumbline.archive import Archive, FindingRecord, open_archive
from plumbline.declarations import Declarations, load
from plumbline.declarations.alerts import Alerts
from plumbline.declarations.providers.provider import Price
from plumbline.declarations.providers.service_level import ServiceLevel
from plumbline.findings.headline import headline
from plumbline.results.finding import Finding, Member
from plumbline.workflows import claim as claim_module
from plumbline.workflows.claim import NothingToClaim, write_claim

BASE, NEW = (trial(campaign=campaign) for campaign in ("2025-10", "2025-11"))
REFUSED = [trial(campaign="2025-11", repeat=repeat) for repeat in range(2, 6)]
"""Launches of the campaign that did not start: with them one of six started."""
FOUND = Finding(
    finding_id="f1",
    series_key=NEW.series_key,
    campaign_id=NEW.campaign_id,
    kind="reliability",
    severity="page",
    evidence="4 of 5 attempts failed",
    explanation="0 of 1 failed in the baseline",
    provider=NEW.provider.name,
    workload_kind="training",
    workload=NEW.workload.name,
    subject="reliability",
    title="4 of 5 attempts failed",
    members=(Member("insufficient_capacity", "insufficient_capacity × 4"),),
    baseline_campaigns=(BASE.campaign_id,),
    series=(NEW.series_key,),
)
SLOWER = replace(
    FOUND,
    finding_id="f3",
    kind="performance",
    subject="performance",
    title="step_time +7.9 %",
    members=(Member("step_time", "step_time +7.9 %"),),
    attributed_to=("driver.version", "cuda.version"),
)


def record(finding: Finding) -> FindingRecord:
    return FindingRecord(
        finding.finding_id, NEW.series_key, finding.campaign_id, finding.provider, finding.kind, finding.severity, headline(finding),
        detail=finding.to_dict(),
    )  # fmt: skip


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    with open_archive() as opened:
        for each in (BASE, NEW):
            opened.record(document(each), uri="file:///store")
        for each in REFUSED:
            opened.record(failed(each, "insufficient_capacity"), uri="file:///store")
        price = replace(FOUND, finding_id="f2", kind="price", campaign_id=None, since="2025-11-02", series_key="", series=())
        opened.save_findings(
            [
                record(FOUND),
                record(price),
                record(SLOWER),
                record(
                    replace(
                        FOUND, finding_id="f5", members=(Member("image_error", "image_error × 3"), Member("unreachable", "unreachable × 1"))
                    )
                ),
                record(replace(SLOWER, finding_id="f4", attributed_to=("driver.version", "torch.version"))),
            ]
        )
        yield opened


def declared(**promised: object) -> Declarations:
    price = Price.model_validate({"purchase": "on_demand", "price": "10 USD/h", "since": date(2020, 1, 1), "source": "a test"})
    sla = ServiceLevel.model_validate(promised)
    place = NEW.provider.model_copy(update={"sla": sla, "prices": (price,)})
    alerts = Alerts.model_validate({"volumes": ({"provider": place.name, "time_per_month": "100h"},)})
    return replace(load(), providers={place.name: place}, alerts=alerts)


def test_the_mail_claims_the_credit_and_brings_the_pack(archive: Archive, tmp_path: Path) -> None:
    installed = declared(launch_success="99%", clause="Annex B, 4.2", credit="10%", contact="support@lab.example")
    claim = write_claim(archive, installed, "f1", tmp_path / "claim")
    assert claim.missing == () and claim.usd == pytest.approx(100.0)
    mail = message_from_bytes(claim.mail.read_bytes(), policy=policy.default)
    assert (mail["To"], mail["X-Unsent"], mail["Subject"]) == ("support@lab.example", "1", claim.subject)
    (attached,) = mail.iter_attachments()
    assert hashlib.sha256(attached.get_content()).hexdigest() == claim.sha256
    text = claim.letter.read_text()
    assert mail.get_body(("plain",)).get_content().split() == text.split()  # type: ignore[union-attr]
    for said in (
        f"verify.py --key {claim.pack.key}",
        "Annex B, 4.2",
        "10 % of the month's bill, 100.00 USD",
        claim.sha256,
        "Launch success: promised 99.0 %, measured 2 of 6 launches",
        "2025-10: 1 of 1, 2025-11: 1 of 5",
        NEW.trial_id,
    ):
        assert said in text, said


def test_a_large_pack_is_sent_apart_and_says_so(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_module, "LARGEST_ATTACHMENT", 1000)
    claim = write_claim(archive, declared(launch_success="99%"), "f1", tmp_path / "claim")
    mail = message_from_bytes(claim.mail.read_bytes(), policy=policy.default)
    assert not claim.attached and list(mail.iter_attachments()) == [] and "which we send apart" in claim.letter.read_text()
    assert claim.pack.file.exists()


@pytest.mark.parametrize("to", ["not an address", "ada@example.com, ", "ada@example.com\nBcc: all@example.com"])
def test_a_wrong_recipient_is_refused_before_anything_is_written(archive: Archive, tmp_path: Path, to: str) -> None:
    if to.endswith(", "):
        assert write_claim(archive, declared(launch_success="99%"), "f1", tmp_path / "claim", to=to).mail.exists()
        return
    with pytest.raises(ValueError, match="is no address"):
        write_claim(archive, declared(launch_success="99%"), "f1", tmp_path / "claim", to=to)
    assert not (tmp_path / "claim").exists()


def test_what_is_not_declared_is_named_and_not_made_up(archive: Archive, tmp_path: Path) -> None:
    claim = write_claim(archive, declared(launch_success="99%"), "f1", tmp_path / "claim", to="ada@example.com")
    assert claim.usd is None and len(claim.missing) == 2
    assert all(any(name in text for text in claim.missing) for name in ("sla.clause", "sla.credit, ", "; sla.credits for availability"))
    assert "credit" in claim.letter.read_text() and "USD" not in claim.letter.read_text()


def test_what_is_not_promised_or_not_proven_is_not_claimed(archive: Archive) -> None:
    def why(finding_id: str, **promised: object) -> str:
        answer = claimable(archive, declared(**promised), [archive.finding(finding_id)])[finding_id]
        assert (answer.broken == ()) is bool(answer.why)
        return answer.why

    floor = {NEW.workload.name: "tokens_per_second >= 700tokens/s in steady"}
    assert why("f1", launch_success="99%") == ""
    assert "measured 2 of 6" in why("f1", launch_success="20%") and "needs" in why("f1", launch_success="20%")
    named = (
        "launch_success",
        "provisioning_lead_time",
        "availability",
        "capacity",
        "time_to_recover",
        "support_response",
        "quota_response",
    )
    assert why("f1", speed_floors=floor).endswith(
        f"declares no promise but of speed (expected one of {', '.join(f'sla.{name}' for name in named)})."
    )
    assert why("f5", launch_success="99%") == "No failure of it is proven to be the provider's: image_error and unreachable."
    assert why("f2", launch_success="99%") == (
        "No promise covers a price rise: launch success, lead time, availability, capacity, time to recover, support response, "
        "quota response and speed can be promised."
    )
    assert "no promised speed" in why("f3", launch_success="99%")
    assert "needs 6 repeats" in why("f3", speed_floors=floor), "two repeats below a floor prove nothing"
    assert "not proven to be the provider's: torch.version changed too" in why("f4", speed_floors=floor)
    gone = replace(declared(), providers={})
    assert "no longer declared" in claimable(archive, gone, [archive.finding("f1")])["f1"].why


def test_a_speed_that_six_repeats_miss_is_claimed_unless_we_changed_too(archive: Archive) -> None:
    for repeat in range(6, 10):
        archive.record(document(trial(campaign="2025-11", repeat=repeat)), uri="file:///store")
    installed = declared(speed_floors={NEW.workload.name: "tokens_per_second >= 700tokens/s in steady"})
    found = claimable(archive, installed, [archive.finding(name) for name in ("f1", "f3", "f4")])
    (each,) = found["f3"].broken
    row = each.row
    assert (
        each.workload == NEW.workload.name
        and row.sentence.startswith(f"tokens per second of {NEW.workload.name}: promised at least 700")
        and "640" in row.measured
    )
    assert not found["f1"].broken and not found["f4"].broken


def test_nothing_is_written_without_a_breach_and_nothing_is_overwritten(archive: Archive, tmp_path: Path) -> None:
    installed = declared(launch_success="99%")
    with pytest.raises(NothingToClaim, match="covers a price rise"):
        write_claim(archive, installed, "f2", tmp_path / "claim")
    assert not (tmp_path / "claim").exists()
    with pytest.raises(LookupError, match="no finding"):
        write_claim(archive, installed, "f9", tmp_path / "claim")
    (tmp_path / "claim").mkdir()
    with pytest.raises(FileExistsError, match=r"claim.*folder"):
        write_claim(archive, installed, "f1", tmp_path / "claim")


def test_contract_terms_stay_out_of_trials() -> None:
    place = declared(
        launch_success="99%", speed_floors={"w": "step_time <= 1s in steady"}, clause="Annex B", credit="10%", contact="a@b.example"
    ).providers[NEW.provider.name]
    sent = place.of_trial()
    assert (sent.sla.launch_success, sent.sla.clause, sent.sla.credit, sent.sla.contact) == (0.99, None, None, None)
    assert sent.sla.speed_floors == {}
