"""A document that cannot be believed is kept in quarantine with its reason, costs nothing else of the campaign, and gets a second look."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.data.result_documents import FACTS, believed_training_metrics
from tests.fakes.trials import CONFIG, a_trial, cluster_provider, put_evidence

from plumbline.archive import Archive, QuarantineRecord, QuarantineView, Refused, open_archive
from plumbline.declarations import Trial, installation_paths
from plumbline.launch import stores
from plumbline.launch.plan import RunRequest
from plumbline.results import (
    Environment,
    Event,
    LaunchRecord,
    PodRecord,
    Reason,
    ResultDocument,
    ResultStore,
    Validity,
    metric_row,
    signing,
)
from plumbline.results.evidence_files import damaged_files
from plumbline.workflows import collect, plan_trials, record, validate
from plumbline.workflows.plan import TRIAL_GROUPS
from plumbline.workflows.record import override_verdict, record_attempt, retry_all_quarantined, retry_quarantined

NOW = datetime.now(timezone.utc)
LANE = TRIAL_GROUPS["training"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(CONFIG))
    yield tmp_path


def measured(trial: Trial, *more: Any, ended: datetime = NOW, evidence: Any = ()) -> ResultDocument:
    """A document that the quality checks believe, unless a test spoils it."""
    return ResultDocument.sealed(
        trial=trial,
        harness_version="0.1.0",
        environment=Environment.of(FACTS),
        validity=Validity(status="valid"),
        timeline=(Event(name="finished", utc=ended),),
        metrics=(*believed_training_metrics(), *more),
        evidence=evidence,
    )


def plain(document: ResultDocument) -> bytes:
    return document.model_dump_json(indent=1).encode()


def planned(repeats: int) -> tuple[ResultStore, list[dict[str, Any]], list[Trial]]:
    specs = plan_trials.plan_trials("local-1core", LANE, RunRequest("2026-11", "a test", repeats=repeats))
    store = stores.home()
    trials = [stores.planned_trial(store, spec) for spec in specs]
    for trial in trials:
        store.put_trial(trial)
    return store, specs, trials


def through(specs: list[dict[str, Any]]) -> list[Any]:
    for spec in specs:
        collect.collect_trial(spec)
    return [row["recorded"] for row in record.record_group(validate.validate_group("local-1core", LANE.name, specs)).done]


BAD: dict[str, tuple[Callable[[Trial], bytes], str]] = {
    "newer": (
        lambda t: plain(measured(t)).replace(b'"schema_version": 1,\n "trial"', b'"schema_version": 2,\n "trial"'),
        "is newer than 1",
    ),
    "nan": (lambda t: plain(measured(t)).replace(b'"value": 0.1,', b'"value": NaN,'), "finite number"),
    "checksum": (lambda t: plain(measured(t)).replace(b'"value": 0.1,', b'"value": 0.2,'), "the document was changed or cut short"),
    "negative": (lambda t: plain(measured(t, metric_row("data_wait_time", -0.1, 5, statistic="mean"))), "data_wait_time"),
    "twice": (lambda t: plain(measured(t, metric_row("step_time", 0.2, 5))), "repeated_metric"),
    "future": (lambda t: plain(measured(t, ended=NOW + timedelta(days=1))), "from_the_future"),
}


@pytest.mark.fault("a document is not believed", ends="failed, quarantined", keeps="the document; the other attempts")
def test_what_cannot_be_believed_is_kept_with_its_reason_and_nothing_else_is_lost() -> None:
    store, specs, trials = planned(len(BAD) + 1)
    for trial, (spoilt, _) in zip(trials, BAD.values(), strict=False):
        store.put(f"{store.folder(trial)}/result.json", spoilt(trial))
    store.put_document(measured(trials[-1]))
    for _ in range(2):  # a retry of all steps changes nothing
        said = through(specs)
        assert len(said) == len(trials)
        with open_archive() as archive:
            assert [t.trial_id for t in archive.trials("2026-11") if t.usable] == [trials[-1].trial_id]
            assert len(archive.trials("2026-11")) == len(trials), "each planned trial is accounted for"
            held = {q.trial_id: q for q in archive.quarantined()}
            assert archive.verify(evidence=True) == []
        assert sorted(held) == sorted(t.trial_id for t in trials[:-1])
        for trial, (spoilt, why) in zip(trials, BAD.values(), strict=False):
            found = held[trial.trial_id]
            assert why in found.reason, found
            kept = store.get(found.uri.removeprefix(f"{store.url}/"))
            assert hashlib.sha256(kept).hexdigest() == found.sha256
            assert "result.json" not in found.uri or kept == spoilt(trial)


def quarantined_newer(tmp_path: Path) -> tuple[ResultStore, Trial, bytes, QuarantineView]:
    """A document that only a newer version understands, in quarantine, and what it is once it is understood."""
    store, specs, (trial,) = planned(1)
    file = tmp_path / "steps.parquet"
    file.write_bytes(b"rows")
    good = plain(measured(trial, evidence=(put_evidence(store, trial, "steps", file, rows=1),)))
    store.put(f"{store.folder(trial)}/result.json", good.replace(b'"schema_version": 1,\n "trial"', b'"schema_version": 2,\n "trial"'))
    assert through(specs) == [["inserted"]]
    with open_archive() as archive:
        (held,) = archive.quarantined()
    return store, trial, good, held


def test_a_document_that_holds_at_last_is_recorded_in_the_place_of_its_failed_attempt(tmp_path: Path) -> None:
    store, trial, good, held = quarantined_newer(tmp_path)
    with open_archive() as archive:
        again = retry_quarantined(archive, held.quarantine_id, "ada")
        assert again.attempt is None
        assert "schema_version" in again.reason
        store.put(held.uri.removeprefix(f"{store.url}/"), good)  # as an upgrade would read it
        (done,) = retry_all_quarantined(archive, "ada")
        assert done.attempt == 2
        first, second = archive.trials()
        assert (first.status, first.corrected, first.usable) == ("failed", True, False)
        assert (second.attempt, second.status, second.usable) == (2, "valid", True)
        assert archive.document(trial.trial_id).metrics == measured(trial).metrics  # type: ignore[union-attr]
        assert len(archive.sample(trial.series_key, "2026-11").environments) == 1
        assert archive.quarantined() == []
        assert archive.quarantined(everything=True)[0].state == "released"
        assert [e.what for e in archive.audit(f"{trial.trial_id}#1")] == ["measurement_corrected"]
        assert retry_quarantined(archive, held.quarantine_id, "ada").reason == "already released"
    assert damaged_files(store, store.collected(f"2026-11/{trial.trial_id}/attempt-2")) == []


@pytest.mark.full
def test_one_that_is_lost_keeps_no_other_from_its_second_look(tmp_path: Path) -> None:
    store, trial, good, held = quarantined_newer(tmp_path)
    with open_archive() as archive:
        gone = replace(held, trial_id="2026-11.gone", uri=held.uri.replace(trial.trial_id, "2026-11.gone"), sha256="0" * 64)
        archive.quarantine(QuarantineRecord(**{f.name: getattr(gone, f.name) for f in fields(QuarantineRecord)}))
        store.put(held.uri.removeprefix(f"{store.url}/"), good)
        done = {one.quarantine_id: one.attempt for one in retry_all_quarantined(archive, "ada")}
        (lost,) = archive.quarantined()
    assert (lost.trial_id, done) == ("2026-11.gone", {held.quarantine_id: 2, lost.quarantine_id: None})


@pytest.mark.fault("a document's evidence is damaged", ends="failed, quarantined", keeps="the document, with its reason")
def test_a_document_whose_evidence_is_damaged_stays_in_quarantine(tmp_path: Path) -> None:
    store, trial, good, held = quarantined_newer(tmp_path)
    store.put(held.uri.removeprefix(f"{store.url}/"), good)
    store.put(f"{store.folder(trial)}/evidence/steps.parquet", b"Rows")
    with open_archive() as archive:
        done = retry_quarantined(archive, held.quarantine_id, "ada")
    assert done.attempt is None
    assert "has SHA-256" in done.reason


def test_a_document_that_the_archive_refuses_is_quarantined_and_recorded_once_it_may(archive_of_simulated: Archive) -> None:
    store, specs, (trial,) = planned(1)
    store.put_document(measured(trial))
    assert through(specs) == [["quarantined"]]
    (held,) = archive_of_simulated.quarantined()
    assert "measured" in held.reason and trial.series_key in held.reason
    with pytest.raises(Refused, match="series"):
        retry_quarantined(archive_of_simulated, held.quarantine_id, "ada")


@pytest.fixture
def archive_of_simulated() -> Iterator[Archive]:
    _, _, (trial,) = planned(1)
    old = trial.model_copy(update={"campaign_id": "2026-10"})
    with open_archive() as archive:
        archive.record(measured(old).model_copy(update={"simulated": True}), uri="file:///store")
        yield archive


def test_a_collected_document_that_was_spoilt_later_does_not_end_the_checks_of_the_others() -> None:
    store, specs, trials = planned(2)
    for trial, spec in zip(trials, specs, strict=True):
        store.put_document(measured(trial))
        collect.collect_trial(spec)
    store.put(f"{store.folder(trials[0])}/collected.json", b"{")
    rows = validate.validate_group("local-1core", LANE.name, specs)
    assert record.record_group(rows).done[1]["recorded"] == ["inserted"]
    with open_archive() as archive:
        (held,) = archive.quarantined()
        assert held.trial_id == trials[0].trial_id
        assert "JSON" in held.reason and "collected.json" in held.uri


STEPS = ("put_correction", "correct", "copy_evidence", "put_collected")


@pytest.mark.fault(
    "a correction is ended at any of its steps", ends="one measurement that counts", keeps="both attempts; the command again does the rest"
)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("after", [False, True])
def test_a_correction_that_was_ended_anywhere_never_counts_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    store, specs, (trial,) = planned(1)
    file = tmp_path / "steps.parquet"
    file.write_bytes(b"rows")
    store.put_document(measured(trial, evidence=(put_evidence(store, trial, "steps", file, rows=1),)))
    assert through(specs) == [["inserted"]]
    place: Any = {"correct": Archive, "copy_evidence": stores}.get(step, ResultStore)
    works = getattr(place, step)

    def ends(*arguments: Any, **more: Any) -> None:
        if after:
            works(*arguments, **more)
        raise ConnectionError("killed")

    def usable() -> list[int]:
        with open_archive() as archive:
            return [t.attempt for t in archive.trials() if t.usable]

    with monkeypatch.context() as killed, open_archive() as archive:
        killed.setattr(place, step, ends)
        with pytest.raises(ConnectionError):
            override_verdict(archive, trial.trial_id, 1, "reject", "ada", "the neighbour's job ran too")
    recorded = STEPS.index(step) + after > STEPS.index("correct")
    assert usable() == ([] if recorded else [1])
    with open_archive() as archive:
        collect.collect_campaign(archive, "2026-11")  # it neither finds a new measurement, nor loses the correction
        assert len(archive.trials()) == 1 + recorded
        assert usable() == ([] if recorded else [1])
        if not recorded:
            override_verdict(archive, trial.trial_id, 1, "reject", "ada", "the neighbour's job ran too")
        assert usable() == [] and archive.verify(evidence=True) == []
        corrected = archive.trials()[-1]
        assert damaged_files(store, store.collected(f"2026-11/{trial.trial_id}/attempt-{corrected.attempt}")) == []


QUOTA = Reason(code="quota_exceeded", detail="the customer's quota")
LAUNCHED = LaunchRecord(
    launcher="kubernetes",
    events=(),
    pods=(PodRecord(name="p", rank=0, node="n", events=(Event(name="started", utc=NOW, clock="cluster"),), facts={}),),
)


def forged(document: ResultDocument, kind: str) -> ResultDocument:
    """A signed slow result as whoever writes to the bucket would like to have it."""
    failed = Validity(status="failed", reasons=(QUOTA,), failure_class="quota_exceeded")
    if kind == "changed validity":
        assert document.signature is not None
        kept = {name: getattr(document, name) for name in ResultDocument.model_fields if name not in ("validity", "checksum", "signature")}
        return ResultDocument.sealed(
            **kept, validity=failed, signature=document.signature.model_copy(update={"validity": document.validity})
        )
    status = failed if kind == "unsigned replacement" else Validity(status="missing", reasons=(QUOTA,))
    return ResultDocument.sealed(trial=document.trial, harness_version=signing.UNKNOWN_HARNESS, validity=status)


@pytest.mark.fault(
    "a bucket's writer replaces a signed result by a failure", ends="quarantined", keeps="the forged bytes; the attempt as failed by us"
)
@pytest.mark.parametrize("launch", ["as it was", "forged too"])
@pytest.mark.parametrize("file", ["result.json", "collected.json"])
@pytest.mark.parametrize("kind", ["changed validity", "unsigned replacement", "status missing"])
def test_a_signed_result_cannot_be_turned_into_the_customers_failure(tmp_path: Path, kind: str, file: str, launch: str) -> None:
    store, key = stores.home(), signing.KeyPair.generate()
    away = ResultStore((tmp_path / "away").as_uri())
    trial = a_trial(provider=cluster_provider(results_url=away.url))
    spec = {"campaign_id": trial.campaign_id, "trial_id": trial.trial_id}
    plan_trials.store_planned_trial(store, trial)
    store.put_trial(trial)
    store.put_launch(trial, LAUNCHED)
    signed = signing.sign(measured(trial), key)
    away.put_document(signed)
    with open_archive() as archive:
        archive.issue_signing_key(trial.campaign_id, trial.trial_id, 1, key.public_hex)
        bad = forged(signed, kind)
        if launch == "forged too":
            bad = bad.with_launch(LAUNCHED.model_copy(update={"failure_class": "quota_exceeded", "failure_detail": QUOTA.detail}))
        if file == "result.json":
            away.put_document(bad)
            collect.collect_trial(spec)
            assert store.collected(store.folder(trial)).validity.failure_class == "harness_error"
        else:
            collect.collect_trial(spec)
            store.put_collected(bad)
        said = record_attempt(archive, store, store.folder(trial), "accept", ())
        assert said == ("inserted" if file == "result.json" else "quarantined")
        assert "quota_exceeded" not in [t.failure_class for t in archive.trials()]
        (held,) = archive.quarantined()
        assert retry_quarantined(archive, held.quarantine_id, "ada").attempt is None


def test_a_verdict_by_hand_is_a_new_row_that_names_the_old_one() -> None:
    store, _, (trial,) = planned(1)
    folder = store.put_collected(measured(trial))
    why = "the neighbour's job ran too"
    with open_archive() as archive:
        assert record_attempt(archive, store, folder, "accept", ()) == "inserted"
        assert override_verdict(archive, trial.trial_id, 1, "reject", "ada", why) == 2
        first, second = archive.trials()
        assert (first.quality_action, first.corrected, first.usable) == ("accept", True, False)
        assert (second.quality_action, second.usable) == ("reject", False)
        assert second.quality_reasons == (Reason(code="verdict_by_hand", detail=why),)
        assert archive.sample(trial.series_key, "2026-11").observations == ()
        assert archive.metric_history(trial.series_key, "step_time", "median") == []
        with pytest.raises(ValueError, match="was corrected already"):
            override_verdict(archive, trial.trial_id, 1, "reject", "ada", "again")
        assert override_verdict(archive, trial.trial_id, 2, "accept", "bob", "it did not") == 3
        assert len(archive.sample(trial.series_key, "2026-11").environments) == 1
        with pytest.raises(LookupError, match="has no attempt"):
            override_verdict(archive, trial.trial_id, 9, "reject", "ada", "x")
        with pytest.raises(ValueError, match="why is empty"):
            override_verdict(archive, trial.trial_id, 3, "reject", "ada", " ")
        assert record_attempt(archive, store, folder, "accept", ()) == "unchanged", "a replayed record changes nothing"
        assert len(archive.trials()) == 3
        assert archive.verify(evidence=True) == []
    assert installation_paths().archive_url.startswith("sqlite")
