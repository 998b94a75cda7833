"""One campaign of a series against its accepted baseline: a row per metric, with an effect, an interval and a verdict.

Which rows are judged. A metric that has thresholds (the workload's, the file's or the catalogue's) is judged by its leading statistic,
in the steady phase if it is measured there and otherwise in the phases where it is, warm-up excepted; its p95 and p99 are judged as
`tail`, in a family of their own, because tails are noisy and never page alone. Every other row is informative: it has an effect
and an interval but no verdict.

Verdicts, with `warn` the metric's practical threshold and q the p corrected by Benjamini–Hochberg over the judged rows of the same
family in this series (not over all series: a provider that drifts must not be diluted by those that don't):

    regressed, improved  |effect| >= warn and q <= the declared false discovery rate; which of both by the metric's direction
    suspected            |effect| >= warn but not significant: `repeats_needed` more repeats would settle it
    unchanged            the interval lies within ±warn; or |effect| < warn and a change of warn would have been found (minimum
                         detectable effect <= warn)
    insufficient_data    anything else: the repeats can neither show nor exclude a change that matters; again with `repeats_needed`

With 2 against 2 repeats no p is below 1/3: such a comparison can suspect, never accuse.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from plumbline.declarations.metrics import METRICS, Direction
from plumbline.declarations.thresholds import DriftRules
from plumbline.declarations.workload import DriftLimits
from plumbline.drift import environment
from plumbline.drift.comparability import problems
from plumbline.drift.effect import Effect, Scale, effect_of, on_analysis_scale, shown
from plumbline.drift.environment import Change
from plumbline.drift.multiplicity import benjamini_hochberg
from plumbline.drift.noise import minimum_detectable, repeats_to_see
from plumbline.drift.reliability import Reliability, reliability_of
from plumbline.drift.sample import CampaignSample

Verdict = Literal["regressed", "improved", "unchanged", "suspected", "insufficient_data"]
Family = Literal["lead", "tail", "informative"]
RepeatsWhere = Literal["candidate", "both"]
Limits = Callable[[str], DriftLimits | None]
_TAILS = ("p95", "p99")


@dataclass(frozen=True)
class MetricComparison:
    """One statistic of one metric in one phase.

    `baseline` and `candidate` are medians over repeats in the metric's unit. `effect` and its interval are fractions
    (`candidate / baseline - 1`; see plumbline.drift.effect for the other scales), None where one side has no value. `mde` is the
    smallest change that these repeats would find, as a fraction. `past_threshold` counts the candidate's repeats beyond warn.
    `repeats_needed` further repeats would settle a doubt: of the candidate, or of candidate and baseline each (`repeats_where`);
    None in doubt means that not even 200 on each side would.
    """

    metric: str
    statistic: str
    phase: str
    unit: str
    direction: Direction
    family: Family
    n_baseline: int
    n_candidate: int
    scale: Scale = "ratio"
    baseline: float | None = None
    candidate: float | None = None
    effect: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    p: float | None = None
    q: float | None = None
    mde: float | None = None
    warn: float | None = None
    page: float | None = None
    verdict: Verdict | None = None
    blocked: bool = True
    past_threshold: int = 0
    repeats_needed: int | None = None
    repeats_where: RepeatsWhere | None = None
    smallest_p: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def worse(self) -> bool | None:
        """Whether the candidate is worse (True) or better (False); None if the metric has no good side or did not move."""
        if not self.effect or self.direction == "informative":
            return None
        return (self.effect > 0) == (self.direction == "lower_is_better")


@dataclass(frozen=True)
class Comparison:
    """What became of a series: rows by metric, what changed around it, how reliably it ran, and why it was refused, if it was."""

    series_key: str
    baseline_campaigns: tuple[str, ...]
    candidate_campaign: str
    simulated: bool
    confidence: float
    rows: tuple[MetricComparison, ...]
    environment_changes: tuple[Change, ...]
    reliability: Reliability
    problems: tuple[str, ...] = ()

    @property
    def moved(self) -> tuple[MetricComparison, ...]:
        """The rows that regressed or improved."""
        return tuple(row for row in self.rows if row.verdict in ("regressed", "improved"))

    @property
    def verdict(self) -> Verdict | None:
        """The series' verdict: the gravest of its rows'; None if nothing was judged."""
        found = {row.verdict for row in self.rows}
        order: tuple[Verdict, ...] = ("regressed", "improved", "suspected", "insufficient_data", "unchanged")
        return next((v for v in order if v in found), None)


def compare(
    baseline: Sequence[CampaignSample],
    candidate: CampaignSample,
    *,
    rules: DriftRules,
    limits: Limits,
    across_providers: bool = False,
) -> Comparison:
    """Compare a campaign with all accepted campaigns of its baseline.

    `limits` gives a metric's thresholds, None for one that never alarms. What is not comparable is refused in `problems`
    and has no rows; reliability and missing trials are reported all the same.
    """
    refused = problems(baseline, candidate, across_providers)
    rows: tuple[MetricComparison, ...] = ()
    changes: tuple[Change, ...] = ()
    if not refused:
        rows = _judged(_measured(baseline, candidate, limits, rules.confidence), rules)
        changes = environment.diff([facts for sample in baseline for facts in sample.environments], candidate.environments)
    return Comparison(
        series_key=candidate.series_key,
        baseline_campaigns=tuple(sample.campaign_id for sample in baseline),
        candidate_campaign=candidate.campaign_id,
        simulated=candidate.simulated,
        confidence=rules.confidence,
        rows=rows,
        environment_changes=changes,
        reliability=reliability_of(baseline, candidate),
        problems=refused,
    )


_Key = tuple[str, str, str]
_Measured = tuple[MetricComparison, Effect | None]


def _measured(baseline: Sequence[CampaignSample], candidate: CampaignSample, limits: Limits, confidence: float) -> list[_Measured]:
    before = [_by_metric(sample) for sample in baseline]
    after = _by_metric(candidate)
    keys = sorted(set(after).union(*before))
    about = {(o.metric, o.statistic, o.phase): o for sample in (*baseline, candidate) for o in sample.observations}
    steady = {metric for metric, _, phase in keys if phase == "steady"}
    measured: list[_Measured] = []
    for key in keys:
        metric, statistic, phase = key
        known = limits(metric)
        told = [campaign[key] for campaign in before if key in campaign]
        row = MetricComparison(
            metric=metric,
            statistic=statistic,
            phase=phase,
            unit=about[key].unit,
            direction=about[key].direction,
            family=_family(key, known is not None, metric in steady),
            n_baseline=sum(len(v) for campaign in told for v in campaign.values()),
            n_candidate=sum(len(v) for v in after.get(key, {}).values()),
        )
        if row.family != "informative" and known is not None:
            row = replace(row, warn=known.warn, page=known.page)
        if not row.n_baseline or not row.n_candidate:
            absent = "this campaign" if row.n_baseline else "the baseline"
            verdict: Verdict | None = "insufficient_data" if row.family != "informative" else None
            measured.append((replace(row, verdict=verdict, notes=(f"absent from {absent}",)), None))
            continue
        effect = effect_of(metric, told, after[key], confidence)
        measured.append((_with_effect(row, effect), effect))
    return measured


def _by_metric(sample: CampaignSample) -> dict[_Key, dict[str, list[float]]]:
    found: dict[_Key, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for o in sample.observations:
        found[o.metric, o.statistic, o.phase][o.slot].append(o.value)
    return found


def _family(key: _Key, has_limits: bool, in_steady: bool) -> Family:
    metric, statistic, phase = key
    known = METRICS[metric]
    if not has_limits or known.direction == "informative" or phase == "warmup" or (in_steady and phase != "steady"):
        return "informative"
    if statistic == known.statistic:
        return "lead"
    return "tail" if statistic in _TAILS else "informative"


def _with_effect(row: MetricComparison, effect: Effect) -> MetricComparison:
    notes = effect.notes
    if effect.scale == "difference" and row.unit != "ratio" and row.warn is not None:
        # A relative threshold means nothing against a baseline of zero.
        row = replace(row, family="informative", warn=None, page=None)
        notes = (*notes, "the baseline is zero: no relative threshold applies")
    sign = 1 if effect.effect >= 0 else -1
    past = sum(1 for change in effect.candidate_changes if row.warn is not None and sign * change >= row.warn)
    return replace(
        row,
        scale=effect.scale,
        baseline=effect.baseline,
        candidate=effect.candidate,
        effect=effect.effect,
        ci_low=effect.ci_low,
        ci_high=effect.ci_high,
        p=effect.p,
        smallest_p=effect.smallest_p,
        blocked=effect.blocked,
        past_threshold=past,
        notes=notes,
    )


def _judged(measured: list[_Measured], rules: DriftRules) -> tuple[MetricComparison, ...]:
    rows = [row for row, _ in measured]
    families: dict[Family, list[tuple[int, float, Effect]]] = defaultdict(list)
    for i, (row, effect) in enumerate(measured):
        if effect is not None and row.warn is not None:
            families[row.family].append((i, row.warn, effect))
    for members in families.values():
        corrected = benjamini_hochberg([effect.p for _, _, effect in members])
        past = sum(abs(effect.effect) >= warn for _, warn, effect in members)
        # The level at which a row would be called if the metrics that are past their threshold stay there.
        level = rules.false_discovery_rate * max(1, past) / len(members)
        for (i, warn, effect), q in zip(members, corrected, strict=True):
            rows[i] = _verdict(replace(rows[i], q=q), warn, effect, rules.false_discovery_rate, level)
    return tuple(rows)


def _verdict(row: MetricComparison, warn: float, effect: Effect, rate: float, level: float) -> MetricComparison:
    detectable = minimum_detectable(effect.noise, effect.noise_df, effect.sizes, rate, effect.floor_shift)
    mde = None if detectable is None else shown(detectable, effect.scale)
    row = replace(row, mde=mde)
    if abs(effect.effect) >= warn:
        if row.q is not None and row.q <= rate:
            return replace(row, verdict="regressed" if row.worse else "improved")
        return _in_doubt(row, effect, "suspected", effect.effect, level)
    within = effect.ci_low is not None and effect.ci_high is not None and -warn <= effect.ci_low and effect.ci_high <= warn
    if within or (mde is not None and mde <= warn):
        return replace(row, verdict="unchanged")
    return _in_doubt(row, effect, "insufficient_data", warn, rate)


def _in_doubt(row: MetricComparison, effect: Effect, verdict: Verdict, change: float, level: float) -> MetricComparison:
    shift = on_analysis_scale(change, effect.scale)
    needed = repeats_to_see(shift, effect.noise, effect.noise_df, effect.sizes, level, effect.floor_shift)
    if needed is None:
        return replace(row, verdict=verdict)
    return replace(row, verdict=verdict, repeats_needed=needed[0], repeats_where="both" if needed[1] else "candidate")
