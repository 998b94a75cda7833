"""A quarter in which half of the failures are the operator's: none of them counts in promises, scorecards and claims."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from tests.data.blamed import CASES, Blamed, table
from tests.data.result_documents import document, failed, trial

from plumbline.answers.claims import claimable
from plumbline.answers.promises import provider_promises
from plumbline.archive import Archive, FindingRecord, open_archive
from plumbline.declarations import Declarations, load
from plumbline.declarations.installation import REPOSITORY
from plumbline.declarations.providers.provider import Price
from plumbline.declarations.providers.service_level import ServiceLevel
from plumbline.findings.headline import headline
from plumbline.launch.cluster.observe.observation import LaunchObservation, StopCause, StopReason
from plumbline.launch.cluster.observe.verdict import classify_launch
from plumbline.results import FailureClass
from plumbline.results.finding import Finding, Member
from plumbline.workflows.claim import write_claim

MONTHS = ("2025-09", "2025-10", "2025-11")
STARTED, EACH = 30, 5
"""Of each month: launches that were measured, and failures of either side."""
NODES = "0/4 nodes are available: "
THEIRS: list[tuple[StopReason, str, int | None]] = [
    ("schedule_timeout", f"{NODES}4 Insufficient nvidia.com/gpu.", None),
    ("schedule_timeout", f"{NODES}1 Insufficient nvidia.com/gpu, 3 node(s) didn't match Pod's node affinity/selector.", None),
    ("schedule_timeout", "FailedScaleUp: Node scale up in zones europe-west4-b failed: GCE out of resources.", None),
    ("schedule_timeout", "FailedScaleUp: InsufficientInstanceCapacity in eu-west-1a", None),
    ("schedule_timeout", "FailedScaleUp: ZONE_RESOURCE_POOL_EXHAUSTED", None),
]
OURS: list[tuple[StopReason, str, int | None]] = [
    ("schedule_timeout", f"{NODES}4 node(s) didn't match Pod's node affinity/selector.", None),
    ("schedule_timeout", f"{NODES}4 node(s) had untolerated taint {{nvidia.com/gpu: present}}.", None),
    ("schedule_timeout", f"{NODES}4 Insufficient memory.", None),
    ("schedule_timeout", f'{NODES}persistentvolumeclaim "data" not found.', None),
    ("schedule_timeout", f"{NODES}request gpu: device class gpu.example.com does not exist.", None),
    ("schedule_timeout", "FailedScaleUp: failed: GCE quota exceeded.", None),
    ("schedule_timeout", "NotTriggerScaleUp: pod didn't trigger scale-up: 1 max node group size reached", None),
    ("image_error", "pod x cannot start: ErrImagePull: 401 Unauthorized", None),
    ("image_error", "pod x cannot start: ErrImagePull: 429 Too Many Requests", None),
    ("config_error", 'secret "results" not found', None),
    ("startup_timeout", "pod x had a node for 900 s, but its container did not start; it still pulled the image", None),
    ("refused", "admission webhook denied the request", 403),
    ("refused", "exceeded quota: gpus", 403),
    ("unreachable", "no answer for 900 s, last: Unauthorized", 401),
    ("unreachable", "no answer for 900 s, last: x509: certificate has expired", None),
]


def class_of(reason: StopReason, detail: str, status: int | None) -> FailureClass:
    """On a cluster that the provider alone operates."""
    failure, _ = classify_launch(LaunchObservation(1, stop=StopCause(reason, detail, status), providers_nodes=True), None)
    assert failure is not None, detail
    return failure


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLUMBLINE_HOME", str(tmp_path_factory.mktemp("home")))
        with open_archive() as opened:
            fill(opened)
            yield opened


def fill(archive: Archive) -> None:
    for number, month in enumerate(MONTHS):
        trials = iter([trial(campaign=month, repeat=repeat) for repeat in range(1, STARTED + 2 * EACH + 1)])
        for _ in range(STARTED):
            archive.record(document(next(trials)), uri="file:///store")
        for case in (*THEIRS, *OURS[number * EACH : (number + 1) * EACH]):
            archive.record(failed(next(trials), class_of(*case)), uri="file:///store")
    classes = {name: class_of(*case) for name, case in (("theirs", THEIRS[0]), ("ours", OURS[0]), ("image", OURS[7]))}
    archive.save_findings([finding("both", classes["theirs"], classes["ours"]), finding("ours", classes["ours"], classes["image"])])


def finding(finding_id: str, *classes: FailureClass) -> FindingRecord:
    of = trial(campaign=MONTHS[-1])
    found = Finding(
        finding_id=finding_id,
        series_key=of.series_key,
        campaign_id=of.campaign_id,
        kind="reliability",
        severity="page",
        evidence="10 of 40 attempts failed",
        explanation="no baseline yet",
        provider=of.provider.name,
        workload_kind="training",
        workload=of.workload.name,
        subject=finding_id,
        title="10 of 40 attempts failed",
        members=tuple(Member(name, f"{name} × 5") for name in classes),
        series=(of.series_key,),
    )
    detail: dict[str, Any] = found.to_dict()
    return FindingRecord(
        finding_id, of.series_key, of.campaign_id, found.provider, found.kind, found.severity, headline(found), detail=detail
    )


def declared(promised: str) -> Declarations:
    price = Price.model_validate({"purchase": "on_demand", "price": "10 USD/h", "since": date(2020, 1, 1), "source": "a test"})
    sla = ServiceLevel.model_validate({"launch_success": promised})
    place = trial().provider.model_copy(update={"sla": sla, "prices": (price,)})
    return replace(load(), providers={place.name: place})


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.case} {case.message}{' of the provider' if case.providers else ''}")
def test_who_is_to_blame_for_what_a_cluster_says(case: Blamed) -> None:
    failure, detail = case.judged
    assert failure == case.failure and case.says in detail, detail


def test_the_page_lists_who_is_to_blame() -> None:
    """`python -m tests.data.blamed` prints the table."""
    assert table() in (REPOSITORY / "docs" / "measurements" / "field-cases.md").read_text()


def test_each_side_of_the_quarter_is_told_apart() -> None:
    assert {class_of(*case) for case in THEIRS} == {"insufficient_capacity"}
    assert {class_of(*case) for case in OURS} == {"bad_declaration", "image_error", "quota_exceeded", "launch_timeout", "unreachable"}


@pytest.mark.fault(
    "half of a quarter's failures are the operator's", ends="in no promise and no claim", keeps="the unproven ones, shown apart"
)
def test_half_of_a_quarters_failures_are_the_operators_and_none_counts(archive: Archive) -> None:
    name, started, theirs = trial().provider.name, STARTED * len(MONTHS), EACH * len(MONTHS)
    unproven = sum(class_of(*case) in ("launch_timeout", "unreachable") for case in OURS)
    assert unproven == 4
    for promised, verdict in (("99%", "broken"), ("85%", "not_shown")):  # 75 % of all attempts would break 85 % too
        promises = provider_promises(archive, declared(promised), name)
        (row, *_) = promises.rows
        launch = row.tries
        assert (launch.share.successes, launch.share.n) == (started, started + theirs)
        assert (launch.verdict, launch.unproven) == (verdict, unproven)
        assert row.measured == "90 of 105 launches; 4 more failed for a cause that is not proven to be the provider's"


def test_a_claim_rests_on_the_providers_failures_alone(archive: Archive, tmp_path: Path) -> None:
    views = [archive.finding(name) for name in ("both", "ours")]
    found = claimable(archive, declared("99%"), views)
    assert found["both"].broken and found["ours"].why == (
        "No failure of it is proven to be the provider's: bad_declaration and image_error."
    )
    assert not claimable(archive, declared("85%"), views)["both"].broken
    letter = write_claim(archive, declared("99%"), "both", tmp_path / "claim").letter.read_text()
    assert "measured 90 of 105 launches" in letter
    assert "2025-09: 30 of 35, 2025-10: 30 of 35, 2025-11: 30 of 35. Not counted: 4 whose cause is not proven to be yours." in letter
    assert "insufficient_capacity × 5" in letter and "bad_declaration" not in letter
