"""A signature holds for exactly what was signed, with exactly the key that was issued; everything else is found."""

from __future__ import annotations

import pytest
from tests.fakes.trials import a_trial, cluster_provider

from plumbline.results import Environment, Event, Evidence, LaunchRecord, Reason, ResultDocument, Validity, metric_row, signing

KEY = signing.KeyPair.generate()
ISSUED = {1: KEY.public_hex}
TRIAL = a_trial(provider=cluster_provider())
RECORD = LaunchRecord(launcher="kubernetes", events=(Event(name="requested", utc=TRIAL.planned_at, clock="launcher"),))


def document(value: float = 0.1, sha256: str = "0" * 64, **more: object) -> ResultDocument:
    fields = {
        "trial": TRIAL,
        "harness_version": "0.1.0",
        "environment": Environment.of({"cpu.model": "x"}),
        "validity": Validity(status="valid"),
        "metrics": (metric_row("step_time", value, 5),),
        "evidence": (Evidence(kind="steps", uri="evidence/steps.parquet", sha256=sha256, bytes=4),),
        **more,
    }
    return ResultDocument.sealed(**fields)


def status(found: ResultDocument, keys: dict[int, str] = ISSUED) -> str:
    return signing.verify(found, keys).status


def resigned(changed: ResultDocument, by: ResultDocument) -> ResultDocument:
    """A document that a forger made: its checksum holds, its signature is of another one."""
    return changed.model_copy(update={"signature": by.signature})


def test_what_the_pod_signed_is_verified_also_after_a_round_trip_and_with_the_launchers_record() -> None:
    found = ResultDocument.model_validate_json(signing.sign(document(), KEY).model_dump_json())
    assert signing.verify(found, ISSUED).key == KEY.public_hex and status(found) == "verified"
    assert status(found.with_launch(RECORD)) == "verified"
    assert signing.verify_collected(found, ISSUED).signature.public_key == KEY.public_hex
    assert found.checksum == document().checksum, "an unsigned document of the same content has the same checksum"


@pytest.mark.fault(
    "a forger changes a number and computes the checksum again", ends="harness_error, document in quarantine", keeps="the forged bytes"
)
@pytest.mark.parametrize("changed", [document(value=0.05), document(sha256="1" * 64), document(harness_version="0.1.1")])
def test_a_change_of_anything_that_was_signed_is_found(changed: ResultDocument) -> None:
    forged = resigned(changed, signing.sign(document(), KEY))
    assert ResultDocument.model_validate_json(forged.model_dump_json()) == forged, "its checksum holds"
    assert status(forged) == "broken"
    with pytest.raises(ValueError, match="signature"):
        signing.verify_collected(forged, ISSUED)


def test_a_changed_signature_another_key_and_no_signature_are_found() -> None:
    good = signing.sign(document(), KEY)
    flipped = f"{int(good.signature.value[:2], 16) ^ 1:02x}{good.signature.value[2:]}"
    assert status(good.model_copy(update={"signature": good.signature.model_copy(update={"value": flipped})})) == "broken"
    assert status(signing.sign(document(), signing.KeyPair.generate())) == "broken"
    assert status(document()) == "broken"
    assert status(good, {2: KEY.public_hex}) == "broken", "no key was issued for the attempt"
    assert status(good, {}) == "broken", "nor for any other"


def test_a_key_that_came_with_the_document_is_for_imports_and_not_for_what_arrives_here() -> None:
    forger = signing.KeyPair.generate()
    found = signing.sign(document(), forger)
    found = found.model_copy(update={"signature": found.signature.model_copy(update={"public_key": forger.public_hex})})
    assert status(found) == "broken", "the issued key counts"
    assert status(found, {}) == "verified_as_exported"
    with pytest.raises(ValueError, match="no signing key"):
        signing.verify_collected(found, {})


def test_a_better_failure_class_and_a_correction_keep_what_was_signed() -> None:
    stopped = Validity(status="failed", reasons=(Reason(code="interrupted", detail="stopped"),), failure_class="interrupted")
    known = Validity(status="failed", reasons=(Reason(code="timeout", detail="late"),), failure_class="timeout")
    original = signing.sign(document(validity=stopped), KEY)
    seen = {"signature": original.signature.model_copy(update={"validity": stopped})}
    late = RECORD.model_copy(update={"failure_class": "timeout", "failure_detail": "late"})
    assert status(document(validity=known).model_copy(update=seen).with_launch(late)) == "verified"
    assert status(document(validity=known).model_copy(update=seen)) == "broken", "no launch explains it"
    assert status(document().model_copy(update=seen)) == "broken", "a failure never becomes a success"
    later = TRIAL.model_copy(update={"attempt": 2})
    moved = document(trial=later, validity=stopped).model_copy(update={"signature": original.signature.model_copy(update={"attempt": 1})})
    assert status(moved) == "verified"
    assert status(moved, {**ISSUED, 2: signing.KeyPair.generate().public_hex}) == "broken", "the second attempt had a pod of its own"


@pytest.mark.parametrize("kind", ["made at home", "launched without a key"])
def test_what_no_pod_signed(kind: str) -> None:
    if kind == "launched without a key":
        assert status(document(), {}) == "not_signed"
        return
    failed = Validity(status="failed", reasons=(Reason(code="interrupted", detail="x"),), failure_class="interrupted")
    empty = ResultDocument.sealed(trial=TRIAL, harness_version=signing.UNKNOWN_HARNESS, validity=failed)
    assert status(empty) == "not_signed"
    assert status(document(harness_version=signing.UNKNOWN_HARNESS)) == "broken", "it holds numbers"


@pytest.mark.fault("a child process or a log asks for the signing key", ends="refused", keeps="the key in the harness alone")
def test_the_key_is_taken_out_of_the_environment_and_never_shown() -> None:
    environment = {signing.KEY_VARIABLE: KEY.private_hex, "PATH": "/bin"}
    taken = signing.take_key(environment)
    assert taken is not None and taken.public_hex == KEY.public_hex and environment == {"PATH": "/bin"}
    assert KEY.private_hex not in repr(taken) and signing.take_key(environment) is None
    with pytest.raises(signing.InvalidKey) as refused:
        signing.take_key({signing.KEY_VARIABLE: "not-a-key"})
    assert "not-a-key" not in str(refused.value) and refused.value.__cause__ is None
