"""Whom a decision leaves out: providers whose numbers answer another question than the others', and those that fell silent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from tests.data.decision_trials import preference, repeats
from tests.fakes.labs import CHEAP, FAST, lab, measure, spread, world

from plumbline.analysis.conclusions import conclude
from plumbline.analysis.decisions.current_results import CurrentResults, TeamDecision, decide_choice
from plumbline.analysis.trial_sample import Conditions
from plumbline.answers.current_results import decide_teams
from plumbline.archive import Archive, open_archive
from plumbline.dashboard.decision_query import compute_decision
from plumbline.words.decision_record import decision_document
from plumbline.words.decisions import first_sentence, today_text, why_not_texts
from plumbline.workflows.report import campaign_data

SAME = Conditions("measured", "h2", "triton-vllm", (("model.precision", "bf16"),))
FP8 = replace(SAME, asked=(("model.precision", "fp8"),))
H1 = replace(SAME, protocol="h1")
WANTED = preference({"time_to_first_token": 1.0})


def decided(by_provider: dict[str, Conditions], lengths: dict[str, float] | None = None) -> TeamDecision:
    """A decision about providers of these conditions, the first by name the fastest; by provider, tokens a second at ten requests a second."""
    trials = []
    for place, (name, conditions) in enumerate(by_provider.items(), 1):
        tokens = {"output_token_throughput": (lengths or {}).get(name, 100.0), "request_throughput": 10.0}
        trials += [
            replace(t, conditions=conditions)
            for t in repeats(name, *({"time_to_first_token": 0.1 * place * k, **tokens} for k in (1, 1.01)))
        ]
    results = CurrentResults(
        trials=tuple(trials),
        providers={},
        campaigns={(name, "chat"): "c" for name in by_provider},
        simulated=frozenset(),
        day=date(2026, 11, 1),
    )
    return decide_choice("t", "inference", WANTED, results)


def eligible(found: TeamDecision) -> list[str]:
    return [r.provider for r in found.decision.eligible]


def test_data_may_have_to_stay_somewhere() -> None:
    found = decided({"a": SAME, "b": SAME, "c": SAME})
    providers = {name: lab(name).model_copy(update={"residency": places}) for name, places in (("a", ("US",)), ("b", ("DE", "EU")))}
    results = replace(found.current, providers=providers)
    kept = decide_choice("t", "inference", WANTED.model_copy(update={"residency": ("EU", "CH")}), results)
    assert eligible(kept) == ["b"]
    reasons = {r.provider: why_not_texts(r) for r in kept.decision.ranking if not r.eligible}
    assert reasons == {
        "a": ("data must stay in EU or CH; it declares US",),
        "c": ("data must stay in EU or CH; it declares no residency",),
    }
    assert eligible(decide_choice("t", "inference", WANTED, results)) == ["a", "b", "c"]


def test_the_smaller_side_leaves_the_ranking_with_the_reason() -> None:
    found = decided({"a": H1, "b": SAME, "c": SAME})
    assert eligible(found) == ["b", "c"] and sum(r.probability_first or 0 for r in found.decision.eligible) == pytest.approx(1)
    (out,) = (r for r in found.decision.ranking if not r.eligible)
    assert out.provider == "a" and out.probability_first is None and "protocol h1 on a" in why_not_texts(out)[0]
    assert "a" not in {s.provider for s in found.cheapest[0].setups if s.meets}
    assert not any(flip.first == "a" for swing in found.weight_swings for flip in (swing.below, swing.above) if flip)


@pytest.mark.parametrize(
    ("sides", "lengths", "named"),
    [
        ({"a": SAME, "b": FP8}, None, ("bf16 on a", "fp8 on b")),
        ({"a": SAME, "b": H1}, None, ("protocol h1 on b",)),
        ({"a": SAME, "b": SAME, "c": H1, "d": H1}, None, ("protocol h1 on c, d",)),
        ({"a": SAME, "b": SAME}, {"a": 100.0, "b": 50.0}, ("10 tokens", "5 tokens")),
    ],
)
def test_where_no_side_is_the_larger_one_nobody_is_first(
    sides: dict[str, Conditions], lengths: dict[str, float] | None, named: tuple[str, ...]
) -> None:
    found = decided(sides, lengths).decision
    assert found.first is None and found.winner is None and {r.probability_first for r in found.ranking} == {None}
    assert all(name in why_not_texts(r)[0] for r in found.ranking for name in named)


def test_answers_of_another_length_and_a_provider_of_two_kinds_leave() -> None:
    assert eligible(decided(dict.fromkeys("abc", SAME), {"a": 50.0, "b": 100.0, "c": 103.0})) == ["b", "c"]
    assert eligible(decided(dict.fromkeys("abc", SAME))) == ["a", "b", "c"]


def test_a_provider_that_is_out_anyway_takes_no_side() -> None:
    found = decided({"a": SAME, "b": SAME, "c": H1, "d": H1})
    trials = tuple(replace(t, metrics=t.metrics[1:]) if t.provider == "d" else t for t in found.current.trials)
    again = decide_choice("t", "inference", WANTED, replace(found.current, trials=tuple(replace(t, apart="") for t in trials)))
    assert eligible(again) == ["a", "b"]


SILENT = "lab-silent"


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    """Two labs that ran in November, and a fast one that ran in September last."""
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as opened:
        declared = world({SILENT: 1.0})
        measure(opened, declared, {FAST: spread(0.101), CHEAP: spread(0.2), SILENT: spread(0.1)}, campaign="2025-09")
        measure(opened, declared, {FAST: spread(0.1), CHEAP: spread(0.2)})
        yield opened


def test_a_provider_silent_for_two_months_has_no_probability(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declared, day = world({SILENT: 1.0}), date(2025, 11, 10)
    ours, _ = decide_teams(archive, declared, day)
    page = compute_decision(archive, declared, day, "platform", "training").decided
    document = decision_document(ours)
    assert page.decision == ours.decision
    (out,) = (r for r in ours.decision.ranking if not r.eligible)
    assert out.provider == SILENT and out.probability_first is None and "70 days old" in why_not_texts(out)[0]
    assert SILENT not in document.campaigns and not any(s.meets for s in document.cheapest[0].setups if s.provider == SILENT)
    monkeypatch.setattr("plumbline.workflows.report.load_in_force", lambda: declared)
    report = next(d for d in conclude(campaign_data(archive, "2025-11")).decided if d.decision.kind == "training").decision
    assert [(r.provider, r.probability_first) for r in report.eligible] == [
        (r.provider, r.probability_first) for r in ours.decision.eligible
    ]
    assert today_text(report, ours.decision) == ""


def test_results_within_the_age_count_and_so_do_old_ones_where_none_is_newer(archive: Archive) -> None:
    declared = world({SILENT: 1.0})
    measure(archive, declared, {SILENT: spread(0.1)}, campaign="2025-10")
    assert sorted(eligible(decide_teams(archive, declared, date(2025, 11, 9))[0])) == [CHEAP, FAST, SILENT]
    assert sorted(eligible(decide_teams(archive, declared, date(2025, 11, 11))[0])) == [CHEAP, FAST]
    late = decide_teams(archive, declared, date(2026, 6, 1))[0]
    assert sorted(eligible(late)) == [CHEAP, FAST, SILENT], "of old results those count that are at most 40 days older than the newest"


def test_a_report_says_what_today_differs_in(archive: Archive) -> None:
    declared = world({SILENT: 1.0})
    ours = decide_teams(archive, declared, date(2025, 11, 10))[0].decision
    measure(archive, declared, {SILENT: spread(0.05)}, campaign="2025-12")
    today = decide_teams(archive, declared, date(2025, 12, 2))[0].decision
    assert today_text(ours, None) == "" and today_text(ours, today) == f"as of this campaign; today {first_sentence(today)}"
