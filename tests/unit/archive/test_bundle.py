"""Export and import: the same content has the same hash in every archive, and what contradicts the archive stays out."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from tests.data.price_readings import reading
from tests.data.result_documents import PLANNED, document, failed, training_metrics, trial
from tests.golden import Golden

from plumbline.archive import (
    Archive,
    DecisionRecord,
    FindingRecord,
    IncidentRecord,
    QuarantineRecord,
    SnapshotRecord,
    open_archive,
)
from plumbline.archive.bundle import BadBundle
from plumbline.archive.bundle.importer import IMPORTED_SUFFIX
from plumbline.archive.migrate import head
from plumbline.declarations import DriftRules
from plumbline.results import Event, LaunchRecord, Reason

SERIES = trial().series_key
RULES = DriftRules.model_validate_json('{"confidence": "95%", "false_discovery_rate": "5%", "bootstrap_trials": 2}')
ONE = RULES.model_copy(update={"bootstrap_trials": 1})
FINDING = FindingRecord("f1", SERIES, "2025-11", "lab-2core", "performance", "warn", "slower", {"members": [1, None]}, effect=0.05)

LAUNCH = LaunchRecord(
    launcher="local",
    events=tuple(
        Event(name=name, utc=PLANNED, monotonic_s=at, clock="launcher") for name, at in (("requested", 1.0), ("harness_ready", 2.5))
    ),
)


@pytest.fixture
def filled(archive: Archive) -> Archive:
    for repeat in (1, 2):
        ready = document(trial(repeat=repeat)).with_launch(LAUNCH)
        archive.record(ready, uri="file:///store/a")
    archive.record(failed(trial(repeat=3)), uri="file:///store/b")
    archive.record(
        document(trial("inference")), uri="file:///store/c", action="annotate", quality_reasons=[Reason(code="late", detail="ü")]
    )
    archive.record(document(trial(campaign="2025-12", planned_at=PLANNED.replace(month=12))), uri="file:///store/d")
    archive.correct(document(trial(repeat=2, attempt=2)), 2 - 1, by="ada", why="a mistake", uri="file:///store/e", action="reject")
    archive.save_findings([FINDING])
    archive.set_finding_state("f1", "acknowledged", "ada", "looking")
    archive.bootstrap_baseline(trial("inference").series_key, RULES.model_copy(update={"bootstrap_trials": 1}))
    archive.quarantine(QuarantineRecord("2025-11", "x", 1, "file:///store/quarantine/x/result.json", "0" * 64, "newer"))
    archive.save_decision(DecisionRecord("d1", "team", "training", "lab-2core", 0.9, {"scores": [1.5]}))
    archive.accept_price("lab-2core", "on_demand", None, 1.25, PLANNED.date(), "a test", by="ada", why="first")
    archive.accept_price("lab-2core", "reserved", "1y", 1.1, PLANNED.date(), "contract 7", by="ada", why="signed")
    archive.record_readings([reading(1), reading(2)])
    archive.save_snapshot(
        SnapshotRecord("lab-2core", "probe", PLANNED, {"driver.version": "570", "gpu.count": 8}, {"matmul_tflops": 700.5})
    )
    return archive


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Archive]:
    with open_archive(f"sqlite:///{tmp_path / 'other.db'}") as opened:
        yield opened


@pytest.fixture
def bundle(filled: Archive, tmp_path: Path) -> Path:
    filled.export(tmp_path / "bundle")
    return tmp_path / "bundle"


def test_a_round_trip_keeps_everything_and_its_hashes(filled: Archive, other: Archive, bundle: Path, tmp_path: Path) -> None:
    taken = other.import_(bundle)
    assert [(t.campaign_id, t.new, t.known, t.refused, t.notes) for t in taken] == [
        ("2025-11", 5, 0, None, ()),
        ("2025-12", 1, 0, None, ()),
    ]
    assert other.export(tmp_path / "again") == filled.export(tmp_path / "before")
    for ask in QUESTIONS:
        assert ask(other) == ask(filled)
    assert other.verify() == []


QUESTIONS: tuple[Callable[[Archive], Any], ...] = (
    lambda a: a.trials(),
    lambda a: a.campaigns(),
    lambda a: a.series(),
    lambda a: a.sample(SERIES, "2025-11"),
    lambda a: a.document(trial().trial_id),
    lambda a: a.metric_history(SERIES, "provisioning_lead_time", "value", "cold_start"),
    lambda a: a.findings(),
    lambda a: a.baseline_history(trial("inference").series_key),
    lambda a: a.quarantined(),
    lambda a: a.prices(),
    lambda a: [replace(seen, recorded_at=PLANNED) for seen in a.price_readings("lab-2core")],
    lambda a: a.snapshots("lab-2core"),
    lambda a: a.decisions(),
    lambda a: sorted(
        (e.at, e.who.removesuffix(IMPORTED_SUFFIX), e.what, e.subject, e.why, json.dumps(e.detail, sort_keys=True))
        for e in a.audit()
        if e.what != "bundle_imported"
    ),
)


def test_what_no_campaign_showed_travels_with_the_whole_archive_and_its_thread_too(
    archive: Archive, other: Archive, tmp_path: Path
) -> None:
    archive.record(document(), uri="file:///store")
    archive.save_findings([FindingRecord("f2", "", None, "lab-2core", "environment", "warn", "driver", {"since": "2025-11-05"})])
    archive.save_incident(IncidentRecord("f2", "C1", "1.2", "open", "hash"))
    archive.export(tmp_path / "whole")
    other.import_(tmp_path / "whole")
    assert other.findings() == archive.findings()
    assert [(i.finding_id, i.channel, i.ts) for i in other.incidents()] == [("f2", "C1", "1.2")]


def test_importing_again_changes_nothing(other: Archive, bundle: Path) -> None:
    other.import_(bundle)
    before = [ask(other) for ask in QUESTIONS]
    assert [(t.new, t.known, t.refused) for t in other.import_(bundle)] == [(0, 5, None), (0, 1, None)]
    assert [ask(other) for ask in QUESTIONS] == before


def bootstrapped(archive: Archive, months: str) -> None:
    """A series with a campaign in each of these months, all of them its first baseline."""
    for month in months:
        asked = trial(campaign=f"2026-0{month}", planned_at=PLANNED.replace(year=2026, month=int(month)))
        archive.record(document(asked), uri="file:///store")
        archive.bootstrap_baseline(SERIES, ONE)
        archive.join_baseline(SERIES, f"2026-0{month}", ONE)


def test_a_baseline_of_several_campaigns_travels_whole(archive: Archive, other: Archive, tmp_path: Path) -> None:
    bootstrapped(archive, "123")
    archive.export(tmp_path / "bundle")
    assert [t.notes for t in other.import_(tmp_path / "bundle", ["2026-01"])] == [()]
    assert [t.notes for t in other.import_(tmp_path / "bundle")] == [(), (), ()], "also where only part of it had arrived"
    assert other.baseline_history(SERIES) == archive.baseline_history(SERIES)
    assert other.verify() == []


def test_a_series_that_was_bootstrapped_here_takes_no_other_baseline(archive: Archive, other: Archive, tmp_path: Path) -> None:
    bootstrapped(archive, "123")
    bootstrapped(other, "4")
    archive.export(tmp_path / "bundle")
    notes = [t.notes for t in other.import_(tmp_path / "bundle")]
    assert [(SERIES in note, note.split()[-1]) for (note,) in notes] == [(True, f"2026-0{month}") for month in (1, 2, 3)]
    assert other.baseline(SERIES) == ["2026-04"]


def test_a_decision_made_here_is_not_joined_by_what_was_bootstrapped_elsewhere(archive: Archive, other: Archive, tmp_path: Path) -> None:
    bootstrapped(archive, "12")
    archive.export(tmp_path / "bundle")
    other.import_(tmp_path / "bundle", ["2026-01"])
    bootstrapped(other, "5")
    other.accept_baseline(SERIES, "2026-05", by="ada", why="the new driver is here to stay")
    (second,) = other.import_(tmp_path / "bundle", ["2026-02"])
    (note,) = second.notes
    assert SERIES in note and note.endswith(" 2026-02")
    assert other.baseline(SERIES) == ["2026-05"]


def test_one_campaign_alone_travels_with_what_was_said_of_it(filled: Archive, other: Archive, tmp_path: Path) -> None:
    filled.export(tmp_path / "one", ["2025-11"])
    other.import_(tmp_path / "one")
    assert [c.campaign_id for c in other.campaigns()] == ["2025-11"]
    assert other.findings() == filled.findings()
    assert [e.what for e in other.audit("f1")] == ["finding_opened", "finding_acknowledged"]
    assert [e.what for e in other.audit(trial("inference").series_key)] == ["baseline_accepted"]
    assert other.verify() == []


def test_a_campaign_that_says_something_else_is_refused_and_the_others_are_taken_in(other: Archive, bundle: Path) -> None:
    mine = document(metrics=training_metrics(step_time=0.3))
    other.record(mine, uri="file:///mine")
    first, second = other.import_(bundle)
    assert first.refused is not None
    assert "r1#1: checksum is" in first.refused
    assert (second.new, second.refused) == (1, None)
    assert len(other.trials("2025-11")) == 1, "nothing of a refused campaign may stay"
    assert other.findings() == []
    assert other.document(trial().trial_id) == mine
    assert other.verify() == []


def test_a_measured_series_takes_no_simulated_campaign(other: Archive, bundle: Path) -> None:
    other.record(document(trial(campaign="2025-10"), simulated=True), uri="file:///simulated")
    first, _ = other.import_(bundle)
    assert first.refused is not None
    assert all(word in first.refused for word in (SERIES, "measured", "simulated"))


def test_the_archives_own_conclusions_stay(other: Archive, bundle: Path, golden: Golden) -> None:
    other.record(document(trial("inference")), uri="file:///store/c", action="annotate", quality_reasons=[Reason(code="late", detail="ü")])
    other.save_findings([FindingRecord("f1", SERIES, None, "lab-2core", "performance", "warn", "slower")])
    other.accept_baseline(trial("inference").series_key, "2025-11", "bob", "ours")
    first, _ = other.import_(bundle)
    assert (first.new, first.known, first.refused) == (4, 1, None)
    golden("archive.import_notes", "\n".join(first.notes), series=trial("inference").series_key)
    assert [b.accepted_by for b in other.baseline_history(trial("inference").series_key)] == ["bob"]


def changed(bundle: Path, name: str, *, in_manifest: bool, change: Callable[[bytes], bytes]) -> None:
    path = bundle / name
    data = change(path.read_bytes())
    path.write_bytes(data)
    if in_manifest:
        manifest = json.loads((bundle / "manifest.json").read_text())
        manifest["campaigns"]["2025-12"]["files"][name] = hashlib.sha256(data).hexdigest()
        (bundle / "manifest.json").write_text(json.dumps(manifest))


DOCUMENT = "campaigns/2025-12/documents/000001.json"
ATTEMPTS = "campaigns/2025-12/attempts.jsonl"


def test_a_changed_file_is_named_before_anything_is_written(other: Archive, bundle: Path) -> None:
    changed(bundle, DOCUMENT, in_manifest=False, change=lambda data: data + b" ")
    with pytest.raises(BadBundle, match=r"000001\.json has SHA-256 "):
        other.import_(bundle)
    (bundle / DOCUMENT).unlink()
    with pytest.raises(BadBundle, match=r"000001.json is missing"):
        other.import_(bundle)
    assert other.campaigns() == []


def test_a_forged_document_is_refused_although_the_manifest_agrees(other: Archive, bundle: Path) -> None:
    changed(bundle, DOCUMENT, in_manifest=True, change=lambda data: data.replace(b'"value":0.1,', b'"value":0.01,', 1))
    _, second = other.import_(bundle)
    assert second.refused is not None and "no document of this SHA-256" in second.refused
    sha256 = hashlib.sha256((bundle / DOCUMENT).read_bytes()).hexdigest().encode()
    changed(bundle, ATTEMPTS, in_manifest=True, change=lambda data: re.sub(rb'(?<="sha256": ")[0-9a-f]+', sha256, data))
    _, second = other.import_(bundle)
    assert second.refused is not None and "checksum is" in second.refused
    assert other.trials("2025-12") == []


def test_a_file_that_the_manifest_does_not_name_is_not_read(filled: Archive, other: Archive, bundle: Path, tmp_path: Path) -> None:
    filled.save_findings([replace(FINDING, finding_id="planted", campaign_id="2025-12")])
    filled.export(tmp_path / "planted", ["2025-12"])
    for name in ("campaigns/2025-12/findings.jsonl", "campaigns/2025-12/audit.jsonl"):
        (bundle / name).write_bytes((tmp_path / "planted" / name).read_bytes())
    assert [t.refused for t in other.import_(bundle)] == [None, None]
    assert [f.finding_id for f in other.findings()] == ["f1"]


def test_folders_that_are_no_bundle(filled: Archive, bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(BadBundle, match="is not empty"):
        filled.export(bundle)
    with pytest.raises(BadBundle, match=r"manifest.json is missing"):
        filled.import_(tmp_path / "nothing")
    with pytest.raises(LookupError, match='no campaign "2099-01"'):
        filled.export(tmp_path / "new", ["2099-01"])
    with pytest.raises(LookupError, match=r'"2099-01".* 2025-11, 2025-12'):
        filled.import_(bundle, ["2099-01"])
    manifest = (bundle / "manifest.json").read_text()
    (bundle / "manifest.json").write_text(manifest.replace('"schema_revision": "', '"schema_revision": "9'))
    with pytest.raises(BadBundle, match=f"schema 9{head()}"):
        filled.import_(bundle)
    (bundle / "manifest.json").write_text(manifest.replace('"format": 2', '"format": 1'))
    with pytest.raises(BadBundle, match="format: Input should be 2"):
        filled.import_(bundle)
    (bundle / "manifest.json").write_text(manifest.replace("campaigns/2025-12/", "../../"))
    with pytest.raises(BadBundle, match="should match pattern"):
        filled.import_(bundle)


def test_an_import_of_a_campaign_is_one_transaction(other: Archive, bundle: Path) -> None:
    with other.engine.begin() as connection:
        connection.execute(text("CREATE TRIGGER stop BEFORE INSERT ON evidence BEGIN SELECT RAISE(ABORT, 'power cut'); END"))
    assert ["power cut" in (one.refused or "") for one in other.import_(bundle)] == [True, True]
    with other.engine.begin() as connection:
        connection.execute(text("DROP TRIGGER stop"))
    assert other.trials() == []
    assert [t.new for t in other.import_(bundle)] == [5, 1]
    assert other.verify() == []
