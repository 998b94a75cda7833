"""No judge says met without evidence. A new judge needs its entry here, else `test_each_judge_is_tried` fails."""

from __future__ import annotations

import ast
import importlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data.plain_rows import plain_row
from tests.source_trees import source_tree

import plumbline
from plumbline.analysis.availability import availability, find_outages
from plumbline.analysis.decisions.decision import Decision, Gate, Ranked
from plumbline.analysis.drift.comparison import MetricComparison
from plumbline.analysis.drift.pooled import SeriesShift, pooled_effect
from plumbline.analysis.drift.verdicts import judge_series
from plumbline.analysis.node_acceptance import Node, judge_fleet
from plumbline.analysis.scorecards.criteria import judge
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import Criterion
from plumbline.declarations.promises.availability import MonthAvailability, month_availability
from plumbline.declarations.promises.judging.share import judge_share
from plumbline.declarations.promises.speed_floors import judge_speed
from plumbline.declarations.providers.service_level import ServiceLevel
from plumbline.declarations.thresholds import DriftRules
from plumbline.harness.inference.analysis.capacity_limit import CapacityEvidence, judge_capacity
from plumbline.harness.training.analysis.step_limit import StepEvidence, judge_step
from plumbline.judgement import JUDGES, Judged, Judgement, is_measured, not_shown, together
from plumbline.launch.doctor_check import failed, judge_checks, ok, skipped, unknown
from plumbline.metrics.proportions import wilson_interval
from plumbline.results.availability_check import AvailabilityCheck
from plumbline.results.compared_invoice import Difference, Uncompared
from plumbline.words.acceptance import judge_delivery
from plumbline.words.causes import judge_effect
from plumbline.words.criteria import judge_criterion
from plumbline.words.decisions import judge_choice
from plumbline.words.invoices import judge_invoice

Evidence = Callable[[], object]


@dataclass(frozen=True)
class Tried:
    """What a judge is shown. `gaps`: evidence that decides nothing, by its kind; `met` and `broken`: enough of it for each side, so that the
    judge is not one that never decides."""

    gaps: dict[str, Evidence]
    met: Evidence | None = None
    broken: Evidence | None = None
    why_no_side: str = field(default="")


LIMIT = Criterion.model_validate("p95 request_scheduled_latency <= 900ms in steady")


def judged(trials: Sequence[TrialSample]) -> Judgement:
    return judge_criterion(judge(LIMIT, trials))


def _trials(*values: float | None, metric: str = "request_scheduled_latency", n: int = 90) -> list[TrialSample]:
    return [
        TrialSample(
            f"t{i}", "a", "inference", "w", 1, "valid", "02:00", i, None, (plain_row("steady", metric, "p95", value, "s", "lower_is_better", n),)
        )
        for i, value in enumerate(values)
    ]  # fmt: skip


def _missing(count: int) -> list[TrialSample]:
    return [replace(t, status="missing", metrics=(), trial_id=f"missing-{i}") for i, t in enumerate(_trials(*[None] * count))]


ROW = MetricComparison("tokens_per_second", "median", "steady", "token/s", "higher_is_better", "lead", 0, 0)

RULES = DriftRules.model_validate({"confidence": "95%", "false_discovery_rate": "10%", "bootstrap_trials": 3})
NOVEMBER, LATER, FIVE = datetime(2026, 11, 1, tzinfo=timezone.utc), datetime(2027, 1, 1, tzinfo=timezone.utc), timedelta(minutes=5)


def _month(missed: Callable[[int], str | None], watched: range) -> MonthAvailability:
    """November against a promise of 99.9 %, by checks every five minutes; `missed`: the failure class of each of them, None for an answer."""
    seen = [AvailabilityCheck("p", "uptime", NOVEMBER + n * FIVE, missed(n)) for n in watched]
    outages = find_outages(seen, 300)
    month = availability(NOVEMBER, seen, outages, 300, LATER)
    down = [(o.began, o.ended or LATER) for o in month.outages if o.whose == "provider"]
    return month_availability(
        NOVEMBER, [], ServiceLevel.model_validate({"availability": "99.9%"}), LATER, down, {NOVEMBER: month} if seen else None
    )


def _nodes(count: int, **figures: float) -> list[Node]:
    return [Node(f"n{i:02d}", {"driver.version": "570"}, {"matmul_tflops": 700.0 + i, **figures}, {}) for i in range(count)]


def _delivery(nodes: list[Node], slow_before: Mapping[str, Sequence[str]] | None = None) -> Judgement:
    return judge_delivery(judge_fleet(nodes, slow_before))


def _with_slow_node() -> list[Node]:
    return [*_nodes(32), *(replace(n, name="slow") for n in _nodes(1, matmul_tflops=70.0))]


def _clouds(*changes: float) -> list[SeriesShift]:
    """Four series at one provider of each cloud."""
    return [
        SeriesShift(f"p{c}", f"{w}p{c}", f"w{w}", "training", "t", x, 0.003, 0.05, group=f"c{c}")
        for c, x in enumerate(changes)
        for w in range(4)
    ]


def _effect(touched: Sequence[SeriesShift], untouched: Sequence[SeriesShift]) -> Judgement | None:
    effect = pooled_effect(touched, untouched)
    return None if effect is None else judge_effect(effect)


def _renamed(shifts: Sequence[SeriesShift], group: str) -> list[SeriesShift]:
    return [replace(s, group=f"{group}{s.group}", provider=f"{group}{s.provider}", series_key=f"{group}{s.series_key}") for s in shifts]


def _ranked(*chances: float | None, of: tuple[Ranked, ...] = ()) -> Judgement:
    first = tuple(Ranked(f"p{i}", True, 1.0, chance, (1.0,), n=6) for i, chance in enumerate(chances))
    return judge_choice(Decision("team", "training", ("w",), ranking=(*first, *of)))


GATE = Gate("w", "mean_time_between_failures >= 10h", "s", 3600.0, 36000.0, passed=False)
REFUSED = Ranked("slow", False, values=(1.0,), gates=(GATE,), why_not=("a gate is not met",))

FASTER = Criterion.model_validate("tokens_per_second >= 100tokens/s in steady")
_CORES = CapacityEvidence(rate=40.0, accelerated=False, in_flight=6.0, slots=64, own=0.97, path_rate=400.0)

TRIED: dict[str, Tried] = {
    "capacity of a sweep": Tried(
        {
            "nothing": lambda: judge_capacity(None),
            "a rate of 0": lambda: judge_capacity(replace(_CORES, rate=0.0)),
            "NaN": lambda: judge_capacity(replace(_CORES, rate=math.nan)),
            "idle cores": lambda: judge_capacity(replace(_CORES, own=0.4)),
            "cores that were not seen": lambda: judge_capacity(replace(_CORES, own=None)),
            "no path": lambda: judge_capacity(replace(_CORES, path_rate=None)),
            "a path of 0": lambda: judge_capacity(replace(_CORES, path_rate=0.0)),
            "accelerators that were not seen": lambda: judge_capacity(replace(_CORES, accelerated=True)),
            "accelerators without power or arithmetic": lambda: judge_capacity(replace(_CORES, accelerated=True, utilization=0.9)),
            "the client": lambda: judge_capacity(replace(_CORES, client_limited="late")),
            "others on the cores": lambda: judge_capacity(replace(_CORES, foreign=0.5)),
        },
        met=lambda: judge_capacity(_CORES),
        why_no_side="what limits a rate is named, not broken",
    ),
    "step of training": Tried(
        {
            "nothing": lambda: judge_step(StepEvidence(False)),
            "an idle device": lambda: judge_step(StepEvidence(True, 0.0, 0.0, 0.3, 0.02)),
            "busy, and nothing computed": lambda: judge_step(StepEvidence(True, 0.0, 0.0, 0.9, 0.02, 0.1)),
            "busy, and nothing known of it": lambda: judge_step(StepEvidence(True, 0.0, 0.0, 0.9)),
            "data": lambda: judge_step(StepEvidence(False, 0.4, 0.0, 0.9)),
            "NaN": lambda: judge_step(StepEvidence(False, 0.0, 0.0, math.nan)),
        },
        met=lambda: judge_step(StepEvidence(False, 0.0, 0.0, 0.9)),
        why_no_side="what limits a step is named, not broken",
    ),
    "acceptance of nodes": Tried(
        {
            "nothing": lambda: _delivery([]),
            "no figure": lambda: _delivery([replace(n, figures={}) for n in _nodes(8)]),
            "0": lambda: _delivery(_nodes(8, matmul_tflops=0.0)),
            "NaN": lambda: _delivery(_nodes(8, matmul_tflops=math.nan)),
            "a figure that all others have": lambda: _delivery([*_nodes(7, memory_bandwidth=3e12), replace(_nodes(8)[7])]),
            "one node": lambda: _delivery(_nodes(1)),
            "one complete node": lambda: _delivery([_nodes(1)[0], *(replace(n, missing="no trial") for n in _nodes(8)[1:])]),
            "not measured": lambda: _delivery([replace(n, missing="no trial") for n in _nodes(8)]),
            "slow at one look": lambda: _delivery(_with_slow_node()),
        },
        met=lambda: _delivery(_nodes(8)),
        broken=lambda: _delivery(_with_slow_node(), {"slow": ["matmul_tflops"]}),
    ),
    "availability promise": Tried(
        {
            "nothing": lambda: _month(lambda n: None, range(0)),
            "half a month unwatched": lambda: _month(lambda n: None, range(-1, 4320)),
            "a hundred checks": lambda: _month(lambda n: None, range(100)),
            "ten dark days": lambda: _month(lambda n: "unreachable" if 1000 <= n < 3880 else None, range(-1, 8641)),
            "our own misses only": lambda: _month(lambda n: "bad_declaration", range(-1, 8641)),
            "unproven misses only": lambda: _month(lambda n: "unreachable", range(-1, 8641)),
        },
        met=lambda: _month(lambda n: None, range(-1, 8641)),
        broken=lambda: _month(lambda n: "timeout" if 1000 <= n < 1100 else None, range(-1, 8641)),
    ),
    "promised share": Tried(
        {
            "nothing": lambda: judge_share(wilson_interval(0, 0), 0.99),
            "nothing promised": lambda: judge_share(wilson_interval(500, 500), None),
            "half": lambda: judge_share(wilson_interval(190, 190), 0.99),
            "unproven only": lambda: judge_share(wilson_interval(0, 0), 0.99, 40),
            "as many unproven": lambda: judge_share(wilson_interval(400, 400), 0.99, 40),
            "100 %": lambda: judge_share(wilson_interval(10_000, 10_000), 1.0),
        },
        met=lambda: judge_share(wilson_interval(400, 400), 0.99),
        broken=lambda: judge_share(wilson_interval(50, 100), 0.99),
    ),
    "promised speed": Tried(
        {
            "nothing": lambda: judge_speed("w", FASTER, []),
            "one repeat": lambda: judge_speed("w", FASTER, [("t", 200.0)]),
            "0 and NaN": lambda: judge_speed("w", FASTER, [(f"t{i}", value) for i, value in enumerate([0.0, math.nan] * 10)]),
        },
        met=lambda: judge_speed("w", FASTER, [(f"t{i}", 200.0) for i in range(20)]),
        broken=lambda: judge_speed("w", FASTER, [(f"t{i}", 50.0) for i in range(20)]),
    ),
    "acceptance criterion": Tried(
        {
            "nothing": lambda: judged([]),
            "something else": lambda: judged(_trials(0.1, 0.1, metric="time_per_output_token")),
            "half": lambda: judged(_trials(0.1) + _missing(2)),
            "too few requests for the tail": lambda: judged(_trials(0.1, n=3)),
            "not usable": lambda: judged([replace(t, status="invalid") for t in _trials(0.1, 0.1)]),
            "0": lambda: judged(_trials(0.0, 0.0)),
            "NaN": lambda: judged(_trials(math.nan, math.nan)),
            "none": lambda: judged(_trials(None, n=3)),
        },
        met=lambda: judged(_trials(0.1, 0.2)),
        broken=lambda: judged(_trials(1.1, 1.2)),
    ),
    "invoice": Tried(
        {
            "nothing": lambda: judge_invoice(0, 0, (), ()),
            "something else": lambda: judge_invoice(9, 0, (), (Uncompared("Some GPU", "USD", 9, Decimal("810")),)),
            "half": lambda: judge_invoice(9, 5, (), (Uncompared("Some GPU", "USD", 4, Decimal("360")),)),
        },
        met=lambda: judge_invoice(9, 9, (), ()),
        broken=lambda: judge_invoice(9, 9, (Difference("price", "a", Decimal(8), 3, "98 USD for 1 h"),), ()),
    ),
    "cause of a change": Tried(
        {
            "nothing": lambda: _effect([], []),
            "one series": lambda: _effect(_clouds(0.0)[:1], _clouds(0.0)),
            "one cloud that moved": lambda: _effect(_clouds(0.2), _renamed(_clouds(0.0, 0.0, 0.0), "u")),
            "nothing to compare with": lambda: _effect(_clouds(0.1, 0.1), []),
            "clouds that disagree": lambda: _effect(_clouds(0.2, -0.2, 0.0), _renamed(_clouds(0.0, 0.0, 0.0), "u")),
        },
        met=lambda: _effect(_clouds(0.0, 0.0, 0.0, 0.0), _renamed(_clouds(0.0, 0.0, 0.0, 0.0), "u")),
        broken=lambda: _effect(_clouds(0.1, 0.1, 0.1), _renamed(_clouds(0.0, 0.0, 0.0), "u")),
    ),
    "decision": Tried(
        {
            "nothing": lambda: _ranked(),
            "one provider": lambda: _ranked(0.99),
            "one provider beside one that is refused": lambda: _ranked(0.99, of=(REFUSED,)),
            "below the bar": lambda: _ranked(0.67, 0.33),
            "no probability": lambda: _ranked(None, None),
            "0 and NaN": lambda: [_ranked(chance, 0.0) for chance in (0.0, math.nan, math.inf)],
            "none measured": lambda: _ranked(of=(Ranked("p", False, values=(None,), why_not=("not measured",)),)),
            "a gate that is not shown": lambda: _ranked(of=(replace(REFUSED, gates=(replace(GATE, shown=False),)),)),
        },
        met=lambda: _ranked(0.97, 0.03),
        broken=lambda: _ranked(of=(REFUSED, replace(REFUSED, provider="slower"))),
    ),
    "checks of the doctor": Tried(
        {
            "nothing": lambda: judge_checks([]),
            "not made": lambda: judge_checks([unknown("clock", "no date", "a date")]),
            "half of them": lambda: judge_checks([ok("clock", "+0.1 s"), unknown("quota", "cannot be read", "get on resourcequotas")]),
            "inapplicable ones alone": lambda: judge_checks([skipped("scheduler", "not applicable: no Airflow here")] * 3),
        },
        met=lambda: judge_checks([ok("clock", "+0.1 s"), skipped("scheduler", "not applicable: no Airflow here")]).judgement,
        broken=lambda: judge_checks([ok("clock", "+0.1 s"), failed("quota", "no room", "raise it")]),
    ),
    "performance of a series": Tried(
        {
            "nothing": lambda: judge_series([[(ROW, None)]], RULES),
            "one side": lambda: judge_series(
                [[(replace(ROW, n_candidate=3, candidate=5.0), None)]],
                RULES,
            ),
        },
        why_no_side="a change needs two campaigns: tests/unit/analysis/drift has them",
    ),
}


def _judgements(of: object) -> Iterator[Judgement]:
    if isinstance(of, Judgement):
        yield of
    elif isinstance(of, Judged):
        yield of.judgement
    elif isinstance(of, Sequence) and not isinstance(of, str):
        for each in of:
            yield from _judgements(each)


def _good_news(of: object) -> list[Judgement]:
    return [j for j in _judgements(of) if j.verdict == "met" or j.tone == "good"]


def _judged_types(of: object) -> set[str]:
    """Names of the types in it that have a judgement, also within others."""
    own = {type(of).__name__} if isinstance(of, Judged) else set()
    if isinstance(of, Sequence) and not isinstance(of, str):
        return own.union(*map(_judged_types, of))
    if is_dataclass(of) and isinstance(of, Judged):
        return own.union(*(_judged_types(getattr(of, each.name)) for each in fields(of)))
    return own


def _import_all_judges() -> None:
    root = Path(plumbline.__file__).parent
    for file in sorted(root.rglob("*.py")):
        if re.search(r"^@judges\(", file.read_text(), re.MULTILINE):
            importlib.import_module(".".join(("plumbline", *file.relative_to(root).with_suffix("").parts)))


def test_each_judge_is_tried() -> None:
    _import_all_judges()
    assert set(JUDGES) == set(TRIED)
    assert all(tried.gaps and ((tried.met and tried.broken) or tried.why_no_side) for tried in TRIED.values())


@pytest.mark.parametrize(("name", "gap"), [(name, gap) for name, tried in TRIED.items() for gap in tried.gaps])
def test_no_judge_says_met_without_evidence(name: str, gap: str) -> None:
    assert _good_news(TRIED[name].gaps[gap]()) == [], f"{name}: met by {gap}"


@pytest.mark.parametrize("name", [name for name, tried in TRIED.items() if tried.met and tried.broken])
def test_each_judge_decides_with_evidence(name: str) -> None:
    tried = TRIED[name]
    assert tried.met and tried.broken
    assert {j.verdict for j in _judgements(tried.met())} == {"met"}
    assert "broken" in {j.verdict for j in _judgements(tried.broken())}


def test_a_judge_that_says_met_for_nothing_is_caught() -> None:
    careless = judge_criterion(replace(judge(LIMIT, []), outcome="pass", limit=0.9))
    assert _good_news(careless) == _good_news([careless]) != []


def test_each_kind_of_judged_thing_is_returned_by_a_judge() -> None:
    """A class with a judgement that no registered judge makes would be tried by none of these tests."""
    texts = {file: file.read_text() for file in Path(plumbline.__file__).parent.rglob("*.py")}
    tree = {file: source_tree(text) for file, text in texts.items() if "from plumbline.judgement import" in text}
    judged = {
        each.name
        for module in tree.values()
        for each in ast.walk(module)
        if isinstance(each, ast.ClassDef)
        and any(getattr(part, "name", getattr(getattr(part, "target", None), "id", "")) == "judgement" for part in each.body)
    }
    shown = {name for tried in TRIED.values() for make in (*tried.gaps.values(), tried.met) if make for name in _judged_types(make())}
    # The workflow's record and the page's view carry the judgement of `judge_invoice`, another view that of `judge_delivery`.
    assert judged - shown == {"InvoiceResult", "InvoiceView", "DeliveryView"}


@given(st.lists(st.one_of(st.none(), st.just(0.0), st.just(math.nan)), max_size=5), st.integers(0, 5))
def test_a_criterion_is_never_met_by_what_is_no_measurement(values: list[float | None], missing: int) -> None:
    assert judged(_trials(*values) + _missing(missing)).verdict != "met"


def test_a_judgement_that_is_not_shown_says_what_would_decide() -> None:
    with pytest.raises(ValueError, match="what would decide"):
        Judgement("not_shown", "3 launches")
    with pytest.raises(ValueError, match="what was seen"):
        Judgement("met", "")
    assert not_shown("3 launches, none failed", "too few", "381 launches without a failure").tone == "warn"


def test_several_are_met_only_if_there_are_any_and_all_are() -> None:
    assert together([]) == "not_shown"
    assert together(["met", "not_shown"]) == "not_shown"
    assert together(["met", "not_shown", "broken"]) == "broken"
    assert together(["met", "met"]) == "met"


@pytest.mark.parametrize("figure", [None, 0.0, -1.0, math.nan, math.inf])
def test_what_is_no_figure_is_not_measured(figure: float | None) -> None:
    assert not is_measured(figure)
