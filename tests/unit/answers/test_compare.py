"""Which series is held against which, when two campaigns or two providers are named."""

from __future__ import annotations

from typing import Any

import pytest
from tests.data.result_documents import document, failed, provider, trial
from tests.fakes.trials import CONFIG
from tests.unit.results.test_published import result

from plumbline.answers.compare import compare_named
from plumbline.archive import Archive
from plumbline.declarations import Declarations, load


@pytest.fixture
def declared() -> Declarations:
    return load(CONFIG)


def imported(archive: Archive, campaign: str, **changed: Any) -> str:
    found = result(campaign_id=campaign, **changed)
    archive.import_outside([found])
    return found.series_key


def test_the_same_series_are_paired_and_the_others_are_named(archive: Archive, declared: Declarations) -> None:
    kept = imported(archive, "v1")
    gone = imported(archive, "v1", workload="older")
    assert imported(archive, "v2") == kept
    come = imported(archive, "v2", workload="newer")
    found = compare_named(archive, declared, "v1", "v2")
    assert (found.series, found.only_old, found.only_new) == (((kept, kept),), (gone,), (come,))


def test_a_lone_near_match_is_paired_to_be_refused_and_two_are_not(archive: Archive, declared: Declarations) -> None:
    old = imported(archive, "v1")
    new = imported(archive, "v2", instance_type="2x8-gpu")
    found = compare_named(archive, declared, "v1", "v2")
    assert found.series == ((old, new),)
    (problem,) = found.comparisons[0].problems
    assert problem.startswith("instance_type: ") and "1x8-gpu" in problem and "2x8-gpu" in problem
    imported(archive, "v2", instance_type="4x8-gpu")
    with pytest.raises(LookupError, match="v1 and v2"):
        compare_named(archive, declared, "v1", "v2")


def test_an_exact_match_leaves_the_near_one_alone(archive: Archive, declared: Declarations) -> None:
    same = imported(archive, "v1")
    imported(archive, "v2")
    other = imported(archive, "v2", instance_type="2x8-gpu")
    found = compare_named(archive, declared, "v1", "v2")
    assert (found.series, found.only_new) == (((same, same),), (other,))


def test_providers_are_compared_on_what_is_of_one_size_where_there_is_a_choice(archive: Archive, declared: Declarations) -> None:
    small, large = (imported(archive, "v1", provider="a", instance_type=t) for t in ("1x8-gpu", "2x8-gpu"))
    here = imported(archive, "v1", provider="b", instance_type="2x8-gpu")
    found = compare_named(archive, declared, "a", "b")
    assert (found.series, found.only_old) == (((large, here),), (small,))
    assert found.comparisons[0].problems == ()


def test_a_provider_is_looked_at_in_a_campaign_in_which_it_has_a_number(archive: Archive, declared: Declarations) -> None:
    there = provider("far-2core")
    for campaign in ("2025-11", "2025-12"):
        archive.record(document(trial(campaign=campaign)), uri="file:///store")
    archive.record(document(trial(campaign="2025-11", where=there)), uri="file:///store")
    archive.record(failed(trial(campaign="2025-12", where=there)), uri="file:///store")
    (comparison,) = compare_named(archive, declared, "lab-2core", "far-2core").comparisons
    assert (comparison.baseline_campaigns, comparison.candidate_campaign) == (("2025-11",), "2025-11")


def test_of_one_provider_alone_there_is_nothing_to_compare_with_itself(archive: Archive, declared: Declarations) -> None:
    archive.record(document(), uri="file:///store")
    (comparison,) = compare_named(archive, declared, "lab-2core", "lab-2core").comparisons
    assert "2025-11" in comparison.problems[0] and comparison.rows == ()
