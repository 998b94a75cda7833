from __future__ import annotations

from typing import Any

from tests.data.result_documents import FACTS, document, failed, trial

from plumbline.results import LaunchRecord, PodRecord, ResultDocument
from plumbline.results.launch_record import effective_environment


def launched(found: ResultDocument, *pods: dict[str, Any]) -> ResultDocument:
    """The document as a launch on a cluster brought it home."""
    records = tuple(PodRecord(name=f"p{i}", rank=i, facts=facts) for i, facts in enumerate(pods))
    return found.with_launch(LaunchRecord(launcher="kubernetes", events=(), pods=records))


def test_without_pods_it_is_what_the_harness_found() -> None:
    assert effective_environment(document()) == document().environment


def test_pods_add_what_the_harness_cannot_see() -> None:
    pod = {"kubernetes.version": "v1.33.1", "image_id": "sha256:ab", "host.zone": "b", "image_pull_s": 3.0, "kubernetes.job": "j-17"}
    found = effective_environment(launched(document(), pod))
    assert found is not None
    assert found.facts == {**FACTS, "kubernetes.version": "v1.33.1", "container.image_id": "sha256:ab", "host.zone": "b"}


def test_a_gangs_pods_are_named_together_and_once() -> None:
    found = effective_environment(
        launched(document(), {"kubernetes.version": "v2"}, {"kubernetes.version": "v1"}, {"kubernetes.version": "v2"})
    )
    assert found is not None and found.facts["kubernetes.version"] == "v1, v2"


def test_the_harnesss_own_word_counts() -> None:
    inside = document(facts={**FACTS, "host.zone": "a", "host.region": None})
    found = effective_environment(launched(inside, {"host.zone": "b", "host.region": "r"}))
    assert found is not None and (found.facts["host.zone"], found.facts["host.region"]) == ("a", "r")


def test_who_never_looked_around_has_none() -> None:
    assert effective_environment(launched(failed(trial()), {"host.zone": "b"})) is None
