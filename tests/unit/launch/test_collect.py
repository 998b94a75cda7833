"""Whatever became of an attempt, it becomes exactly one document, and a document that cannot be believed is kept but not believed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.trials import PLANNED_AT, a_trial, cluster_provider, put_evidence

from plumbline.declarations import Trial
from plumbline.launch import stores
from plumbline.launch.collect import collect
from plumbline.launch.remote import UNFINISHED
from plumbline.results import (
    Environment,
    Event,
    FailureClass,
    InvalidResult,
    LaunchRecord,
    PodRecord,
    Reason,
    ReplicaCount,
    ResultDocument,
    ResultStore,
    Validity,
    log_transport,
    metric_row,
    quarantine,
    signing,
)

TRIAL = a_trial()
RECORD = LaunchRecord(launcher="local", events=(Event(name="requested", utc=PLANNED_AT, monotonic_s=1.0, clock="launcher"),), exit_code=0)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ResultStore:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))  # its archive holds the keys that the launcher issued
    return ResultStore((tmp_path / "results").as_uri())


def document(trial: Trial = TRIAL, **more: object) -> ResultDocument:
    fields = {
        "trial": trial,
        "harness_version": "0.1.0",
        "environment": Environment.of({"cpu.model": "x"}),
        "validity": Validity(status="valid"),
        "metrics": (metric_row("step_time", 0.1, 5),),
        **more,
    }
    return ResultDocument.sealed(**fields)


def one(store: ResultStore) -> ResultDocument:
    (only,) = collect(store, TRIAL.campaign_id, TRIAL.trial_id)
    assert store.collected(store.folder(only.trial)) == only
    assert collect(store, TRIAL.campaign_id, TRIAL.trial_id) == [only], "collecting again changes nothing"
    return only


def test_a_document_that_holds_is_handed_on_with_what_the_launcher_saw(store: ResultStore) -> None:
    store.put_trial(TRIAL)
    store.put_document(document())
    store.put_launch(TRIAL, RECORD)
    found = one(store)
    assert found.validity.status == "valid"
    assert found.launch == RECORD
    assert found.checksum == document().checksum


def test_no_document_takes_the_launchers_word(store: ResultStore) -> None:
    store.put_trial(TRIAL)
    record = RECORD.model_copy(update={"failure_class": "out_of_memory", "failure_detail": "5 GiB of 4"})
    store.put_launch(TRIAL, record)
    found = one(store)
    assert (found.validity.status, found.validity.failure_class) == ("failed", "out_of_memory")
    assert found.validity.reasons[0].detail == record.failure_detail
    assert found.metrics == ()


@pytest.mark.fault("the launcher is killed and writes no record", ends="interrupted", keeps="the attempt")
def test_neither_document_nor_record_is_an_interruption(store: ResultStore) -> None:
    store.put_trial(TRIAL)
    assert one(store).validity.failure_class == "interrupted"


@pytest.mark.parametrize("spoilt", [None, b'{"trial_id": '])
def test_an_attempt_without_a_usable_specification_is_a_failure(store: ResultStore, spoilt: bytes | None) -> None:
    store.put(stores.planned_path(TRIAL.campaign_id, TRIAL.trial_id), TRIAL.model_dump_json().encode())
    if spoilt is not None:
        store.put(f"{store.folder(TRIAL)}/trial.json", spoilt)
    store.put_document(document())
    found = one(store)
    assert (found.validity.failure_class, found.metrics) == ("harness_error", ())
    assert quarantine.read_note(store, store.folder(TRIAL), "result.json") is not None


def test_a_folder_that_was_never_announced_is_no_attempt(store: ResultStore, tmp_path: Path) -> None:
    empty = tmp_path / "results" / store.folder(TRIAL)
    empty.mkdir(parents=True)
    (empty / "trial.json.0.part").write_bytes(b"{")  # the disk was full
    with pytest.raises(InvalidResult):
        collect(store, TRIAL.campaign_id, TRIAL.trial_id)
    second = stores.next_attempt(TRIAL, store)
    store.put_trial(second)
    store.put_document(document(second))
    (only,) = collect(store, TRIAL.campaign_id, TRIAL.trial_id)
    assert (only.trial.attempt, only.validity.status) == (2, "valid")


def test_a_document_that_vanished(store: ResultStore) -> None:
    store.put_trial(TRIAL)
    store.put_launch(TRIAL, RECORD)
    found = one(store)
    assert found.validity.failure_class == "harness_error"
    assert "no longer" in found.validity.reasons[0].detail


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b'"value": 0.1', b'"value": 0.2', "checksum"),
        (b'"schema_version": 1,\n "trial"', b'"schema_version": 2,\n "trial"', "newer"),
        (b"}", b"", "not a JSON object"),
    ],
)
def test_a_document_that_cannot_be_believed(store: ResultStore, old: bytes, new: bytes, said: str) -> None:
    store.put_trial(TRIAL)
    store.put_document(document())
    store.put_launch(TRIAL, RECORD)
    path = f"{store.folder(TRIAL)}/result.json"
    bad = store.get(path).replace(old, new, 1)
    assert bad != store.get(path)
    store.put(path, bad)
    found = one(store)
    assert found.validity.failure_class == "harness_error"
    assert said in found.validity.reasons[0].detail
    assert found.launch == RECORD
    assert store.get(path) == bad, "kept as it is"
    assert store.get(f"quarantine/{path}") == bad


@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_damaged_evidence(store: ResultStore, tmp_path: Path, damage: str) -> None:
    store.put_trial(TRIAL)
    file = tmp_path / "steps.parquet"
    file.write_bytes(b"rows")
    evidence = put_evidence(store, TRIAL, "steps", file, rows=1)
    store.put_document(document(evidence=(evidence,)))
    assert one(store).validity.status == "valid"
    stored = tmp_path / "results" / store.folder(TRIAL) / evidence.uri
    if damage == "missing":
        stored.unlink()
    else:
        stored.write_bytes(b"Rows")
    found = one(store)
    assert found.validity.failure_class == "harness_error"
    assert evidence.uri in found.validity.reasons[0].detail


def test_a_document_of_another_trial(store: ResultStore) -> None:
    other = TRIAL.model_copy(update={"planned_at": TRIAL.planned_at + timedelta(hours=1)})
    store.put_trial(TRIAL)
    store.put_document(document(other))
    found = one(store)
    assert found.validity.failure_class == "harness_error"
    assert found.trial == TRIAL


@pytest.mark.parametrize("failure_class", ["timeout", "out_of_memory", "bad_declaration", "insufficient_capacity", "interrupted"])
def test_the_launcher_knows_why_it_stopped_the_harness(store: ResultStore, failure_class: FailureClass) -> None:
    stopped = Validity(status="failed", reasons=(Reason(code="interrupted", detail="by SIGTERM"),), failure_class="interrupted")
    store.put_trial(TRIAL)
    store.put_document(document(validity=stopped))
    store.put_launch(TRIAL, RECORD.model_copy(update={"failure_class": failure_class, "failure_detail": "not done after 10s"}))
    found = one(store)
    assert found.validity.failure_class == failure_class
    assert found.validity.reasons[-1].detail == "by SIGTERM"
    assert found.metrics == document().metrics, "what was measured until then is kept"
    assert store.document(store.folder(TRIAL)).validity == stopped, "and so is what the harness signed"


def test_a_launcher_that_lost_sight_of_a_harness_knows_no_better(store: ResultStore) -> None:
    stopped = Validity(status="failed", reasons=(Reason(code="interrupted", detail="by SIGTERM"),), failure_class="interrupted")
    store.put_trial(TRIAL)
    store.put_document(document(validity=stopped))
    store.put_launch(TRIAL, RECORD.model_copy(update={"failure_class": "unreachable", "failure_detail": "no answer for 900 s"}))
    assert one(store).validity == stopped, "it ran: the provider did launch it"


def test_a_valid_document_stays_valid_when_the_harness_hung_afterwards(store: ResultStore) -> None:
    store.put_trial(TRIAL)
    store.put_document(document())
    store.put_launch(TRIAL, RECORD.model_copy(update={"failure_class": "timeout", "failure_detail": "not done after 10s"}))
    assert one(store).validity.status == "valid"


SAID = Event(name="requested", utc=PLANNED_AT, clock="launcher")
DELETED = Event(name="deleted", utc=PLANNED_AT, clock="launcher")
RAN = PodRecord(name="pl-a-0", rank=0, events=(Event(name="started", utc=PLANNED_AT, clock="cluster"),))
WAITED = PodRecord(name="pl-a-1", rank=1)


@pytest.mark.parametrize(
    ("failure_class", "detail", "events", "pods", "status"),
    [
        (None, None, (SAID, DELETED), (RAN,), "valid"),
        # Nobody came back to it: its pod may have run and written all the same.
        ("interrupted", UNFINISHED, (SAID,), (), "valid"),
        ("unreachable", "no answer for 900 s", (SAID, DELETED), (), "valid"),
        # A part of a gang ran.
        ("insufficient_capacity", "no node had room", (SAID, DELETED), (RAN, WAITED), "valid"),
        # These never ran, and what lies in the store is not asked for.
        ("insufficient_capacity", "no node had room", (SAID, DELETED), (WAITED,), "failed"),
        ("unreachable", "nothing was launched: the store refused", (SAID,), (), "failed"),
    ],
)
def test_what_pods_may_have_written_is_brought_home(
    store: ResultStore, tmp_path: Path, failure_class: FailureClass | None, detail: str, events: Any, pods: Any, status: str
) -> None:
    away = ResultStore((tmp_path / "away").as_uri())
    trial = a_trial(provider=cluster_provider(results_url=away.url))
    store.put_trial(trial)
    record = LaunchRecord(launcher="kubernetes", events=events, failure_class=failure_class, failure_detail=detail, pods=pods)
    store.put_launch(trial, record)
    away.put_document(document(trial))
    (found,) = collect(store, trial.campaign_id, trial.trial_id)
    assert found.validity.status == status


@pytest.mark.fault(
    "a pod's result arrives unsigned or signed with another key", ends="harness_error, document in quarantine", keeps="the bytes"
)
@pytest.mark.parametrize("signed_by", ["the pod", "another", None])
def test_what_a_clusters_pod_wrote_counts_only_with_its_signature(store: ResultStore, tmp_path: Path, signed_by: str | None) -> None:
    away = ResultStore((tmp_path / "away").as_uri())
    trial, key = a_trial(provider=cluster_provider(results_url=away.url)), signing.KeyPair.generate()
    store.put_trial(trial)
    written = document(trial)
    if signed_by is not None:
        written = signing.sign(written, key if signed_by == "the pod" else signing.KeyPair.generate())
    away.put_document(written)
    (found,) = collect(store, trial.campaign_id, trial.trial_id, lambda *_: {1: key.public_hex})
    held = quarantine.read_note(store, store.folder(trial), "result.json")
    if signed_by == "the pod":
        assert found.signature is not None and found.signature.public_key == key.public_hex and held is None
        assert found.metrics == written.metrics
    else:
        assert (found.validity.failure_class, found.metrics) == ("harness_error", ()) and held is not None
        assert signing.verify(found, {1: key.public_hex}).status == "not_signed"


def test_a_better_class_from_the_launcher_leaves_the_signature_verifiable(store: ResultStore, tmp_path: Path) -> None:
    away = ResultStore((tmp_path / "away").as_uri())
    trial, key = a_trial(provider=cluster_provider(results_url=away.url)), signing.KeyPair.generate()
    stopped = Validity(status="failed", reasons=(Reason(code="interrupted", detail="x"),), failure_class="interrupted")
    store.put_trial(trial)
    store.put_launch(trial, LaunchRecord(launcher="kubernetes", events=(), failure_class="timeout", failure_detail="late", pods=(RAN,)))
    away.put_document(signing.sign(document(trial, validity=stopped), key))
    (found,) = collect(store, trial.campaign_id, trial.trial_id, lambda *_: {1: key.public_hex})
    assert found.validity.failure_class == "timeout"
    assert signing.verify(found, {1: key.public_hex}).status == "verified"


@pytest.mark.fault("a local trial's store is away at the end", ends="valid", keeps="the document, brought home by the log")
def test_a_result_in_the_stored_log_counts(store: ResultStore) -> None:
    store.put_trial(TRIAL)
    lines = log_transport.encode_lines(document().model_dump_json().encode(), ())
    store.put(f"{store.folder(TRIAL)}/launch.log", "\n".join(lines).encode())
    assert one(store).validity.status == "valid"


def test_a_damaged_result_in_the_stored_log_goes_to_quarantine(store: ResultStore) -> None:
    store.put_trial(TRIAL)
    store.put_launch(TRIAL, RECORD.model_copy(update={"failure_class": "unreachable", "failure_detail": "away"}))
    store.put(f"{store.folder(TRIAL)}/launch.log", b"plumbline-result 1/2 UEsDBA==")
    assert one(store).validity.failure_class == "unreachable"
    assert quarantine.read_note(store, store.folder(TRIAL), "launch.log") is not None


def test_every_attempt_oldest_first(store: ResultStore) -> None:
    for attempt in range(1, 12):
        trial = TRIAL.model_copy(update={"attempt": attempt})
        store.put_trial(trial)
        if attempt == 11:
            store.put_document(document(trial))
    found = collect(store, TRIAL.campaign_id, TRIAL.trial_id)
    assert [d.trial.attempt for d in found] == list(range(1, 12))
    assert [d.validity.status for d in found] == ["failed"] * 10 + ["valid"]


def test_a_launch_record_that_cannot_be_read(store: ResultStore) -> None:
    store.put_trial(TRIAL)
    store.put(f"{store.folder(TRIAL)}/launch.json", b"{}")
    found = one(store)
    assert found.validity.failure_class == "harness_error"
    assert "launch.json" in found.validity.reasons[0].detail


def test_nothing_at_all_is_an_error_not_an_empty_list(store: ResultStore) -> None:
    with pytest.raises(InvalidResult, match=TRIAL.trial_id):
        collect(store, TRIAL.campaign_id, TRIAL.trial_id)
    store.put_document(document())
    with pytest.raises(InvalidResult, match=r"trial\.json"):
        collect(store, TRIAL.campaign_id, TRIAL.trial_id)


def scaling_trial() -> Trial:
    steady = {"name": "steady", "arrivals": {"poisson": {"rate": "8/s"}}, "duration": "10s"}
    scaling = {"name": "scale_out", "rates": ["2/s", "8/s"], "hold": "20s", "down": "5s"}
    return a_trial("inference", declare={"phases": [steady, scaling], "acceptance": []})


def collected_replicas(store: ResultStore, planned: Trial) -> tuple[ReplicaCount, ...]:
    store.put_trial(planned)
    store.put_document(document(planned, metrics=()))
    store.put_launch(planned, RECORD)
    (only,) = collect(store, planned.campaign_id, planned.trial_id)
    assert only.launch is not None
    return only.launch.replicas


def test_replicas_that_the_launcher_saw_come_home_in_order(store: ResultStore) -> None:
    planned, seen = scaling_trial(), [ReplicaCount(at=5.5, ready=1, wanted=3), ReplicaCount(at=2, ready=1, wanted=1)]
    store.put_replicas(planned, seen)
    assert collected_replicas(store, planned) == tuple(reversed(seen))


def test_unusable_replicas_are_quarantined(store: ResultStore) -> None:
    planned = scaling_trial()
    store.put(f"{store.folder(planned)}/replicas.jsonl", b'{"at": 2, "ready": 1, "wanted": 1}\n{"at": 3, "ready": -1, "wanted": 1}\n')
    assert collected_replicas(store, planned) == ()
    note = quarantine.read_note(store, store.folder(planned), "replicas.jsonl")
    assert note is not None and "replicas.jsonl:2: ready" in note.reason
