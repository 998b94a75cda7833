"""One campaign of a series against its accepted baseline: a row per metric, with an effect, an interval and a verdict.

Which rows are judged. A metric that has thresholds (the workload's, the file's or the catalogue's) is judged by its leading statistic,
in the steady phase if it is measured there and otherwise in the phases where it is, warm-up excepted; its p95 and p99 are judged as
`tail`, in a family of their own, because tails are noisy and never page alone. Every other row is informative: it has an effect
and an interval but no verdict.

Verdicts, with `warn` the metric's practical threshold and q the p corrected by Benjamini–Hochberg over the judged rows of the same
family in everything that is compared together (plumbline.analysis.drift.verdicts says why):

    regressed, improved  |effect| >= warn, q <= the declared false discovery rate and p <= 1 - confidence; which of both by the direction
    suspected            |effect| >= warn but not significant: `repeats_needed` more repeats would settle it
    unchanged            the interval lies within ±warn; or |effect| < warn and a change of warn would have been found (minimum
                         detectable effect <= warn)
    moved                the same, but the change is larger than the minimum detectable effect, and p <= 1 - confidence
    insufficient_data    anything else: the repeats can neither show nor exclude a change that matters; again with `repeats_needed`

With 2 against 2 repeats no p is below 1/3: such a comparison can suspect, never accuse."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from plumbline.analysis.drift import environment
from plumbline.analysis.drift.comparison import Comparison, Family, Limits, MetricComparison, Verdict, reliability_of
from plumbline.analysis.drift.effect import Effect, estimate_effect
from plumbline.analysis.drift.verdicts import RowWithEffect, judge_series
from plumbline.declarations.thresholds import DriftRules
from plumbline.declarations.trials import REQUIRED_EQUAL, SOURCES_NEVER_MIX, difference_reason, specification_differences
from plumbline.metrics import Metric, metric_of
from plumbline.results.sample import CampaignSample, Series

_TAILS = ("p95", "p99")


@dataclass(frozen=True)
class SeriesPair:
    """One series to compare: a campaign with all accepted campaigns of its baseline.

    `limits` gives a metric's thresholds, None for one that never alarms. `history` are campaigns since the baseline that did not drift,
    oldest first: what campaigns of this series differ by is learned from them.
    """

    baseline: Sequence[CampaignSample]
    candidate: CampaignSample
    limits: Limits
    history: Sequence[CampaignSample] = ()


def compare(
    baseline: Sequence[CampaignSample],
    candidate: CampaignSample,
    *,
    rules: DriftRules,
    limits: Limits,
) -> Comparison:
    """Compare a campaign of one series with all accepted campaigns of its baseline. What is not comparable is refused in `problems`
    and has no rows; reliability and missing trials are reported all the same.
    """
    return compare_series([SeriesPair(baseline, candidate, limits)], rules=rules)[0]


def compare_series(
    pairs: Sequence[SeriesPair], *, rules: DriftRules, across_providers: bool = False, judged_only: bool = False
) -> list[Comparison]:
    """Compare several series of one campaign, corrected together for how many metrics they have; one comparison each, in their order.

    `judged_only`: without the informative rows, which have no verdict and are most of the work.
    """
    refused = [find_incomparabilities(pair.baseline, pair.candidate, across_providers) for pair in pairs]
    measured = [[] if no else _measured(pair, rules.confidence, judged_only) for pair, no in zip(pairs, refused, strict=True)]
    return [
        Comparison(
            series_key=pair.candidate.series_key,
            baseline_campaigns=tuple(sample.campaign_id for sample in pair.baseline),
            candidate_campaign=pair.candidate.campaign_id,
            simulated=pair.candidate.simulated,
            imported=pair.candidate.imported,
            confidence=rules.confidence,
            rows=rows,
            environment_changes=()
            if no
            else environment.diff_environments(
                [facts for sample in pair.baseline for facts in sample.environments], pair.candidate.environments, rules.environment
            ),
            reliability=reliability_of(pair.baseline, pair.candidate),
            problems=no,
            slow_nodes=tuple(sorted({n for sample in (*pair.baseline, pair.candidate, *pair.history) for n in sample.left_out})),
        )
        for pair, no, rows in zip(pairs, refused, judge_series(measured, rules), strict=True)
    ]


_Key = tuple[str, str, str]


def _measured(pair: SeriesPair, confidence: float, judged_only: bool) -> list[RowWithEffect]:
    baseline, candidate, limits = pair.baseline, pair.candidate, pair.limits
    since = [_by_metric(sample) for sample in pair.history]
    before = [_by_metric(sample) for sample in baseline]
    after = _by_metric(candidate)
    keys = sorted(set(after).union(*before))
    about = {(o.metric, o.statistic, o.phase): o for sample in (*baseline, candidate) for o in sample.observations}
    steady = {metric for metric, _, phase in keys if phase == "steady"}
    measured: list[RowWithEffect] = []
    for key in keys:
        metric, statistic, phase = key
        definition = metric_of(about[key])
        known = limits(definition)
        family = _family(definition, statistic, phase, known is not None, metric in steady)
        if judged_only and family == "informative":
            continue
        accepted = [campaign[key] for campaign in before if key in campaign]
        thresholds = None if family == "informative" else known
        row = MetricComparison(
            metric=metric,
            statistic=statistic,
            phase=phase,
            unit=about[key].unit,
            direction=about[key].direction,
            family=family,
            n_baseline=sum(len(v) for campaign in accepted for v in campaign.values()),
            n_candidate=sum(len(v) for v in after.get(key, {}).values()),
            warn=None if thresholds is None else thresholds.warn,
            page=None if thresholds is None else thresholds.page,
        )
        if not row.n_baseline or not row.n_candidate:
            absent = "this campaign" if row.n_baseline else "the baseline"
            verdict: Verdict | None = "insufficient_data" if row.family != "informative" else None
            measured.append((replace(row, verdict=verdict, notes=(f"absent from {absent}",)), None))
            continue
        history = [campaign[key] for campaign in since if key in campaign] if row.warn is not None else ()
        effect = estimate_effect(metric, accepted, after[key], confidence, history=history, warn=row.warn)
        measured.append((_with_effect(row, effect), effect))
    return measured


def _by_metric(sample: CampaignSample) -> dict[_Key, dict[str, list[float]]]:
    values: dict[_Key, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for o in sample.observations:
        values[o.metric, o.statistic, o.phase][o.slot].append(o.value)
    return values


def _family(known: Metric, statistic: str, phase: str, has_limits: bool, in_steady: bool) -> Family:
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
    same = ("scale", "baseline", "candidate", "effect", "ci_low", "ci_high", "p", "smallest_p", "blocked")
    return replace(row, **{name: getattr(effect, name) for name in same}, past_threshold=past, notes=notes)


_WITHIN_A_SERIES = {
    "provider": "name the two providers to compare them with each other",
    "region": "another region is another place",
    "instance_type": "another instance type is another machine",
}
_NAMED_BY_THE_SERIES = ("kind", "name", "version")


def find_incomparabilities(
    baseline: Sequence[CampaignSample], candidate: CampaignSample, across_providers: bool = False
) -> tuple[str, ...]:
    """Every reason why the comparison is refused, each naming the field and both values; empty if it may go on."""
    reasons: list[str] = []
    new = Series.parse(candidate.series_key)
    fields = REQUIRED_EQUAL if across_providers else {**REQUIRED_EQUAL, **_WITHIN_A_SERIES}
    for sample in baseline:
        old = Series.parse(sample.series_key)
        names = _names(sample, candidate)
        if _source(sample) != _source(candidate):
            reasons.append(f"source: {_source(sample)} in {names[0]}, {_source(candidate)} in {names[1]}: {SOURCES_NEVER_MIX}")
        for field, why in fields.items():
            before, after = getattr(old, field), getattr(new, field)
            if before != after:
                reasons.append(f"{field}: {before} in {names[0]}, {after} in {names[1]}: {why}")
        if sample.spec is not None and candidate.spec is not None:
            reasons += [
                f"{field}: {before} in {names[0]}, {after} in {names[1]}: {difference_reason(field)}"
                for field, before, after in specification_differences(sample.spec, candidate.spec)
                if field not in _NAMED_BY_THE_SERIES
            ]
        if (sample.series_key, sample.campaign_id) == (candidate.series_key, candidate.campaign_id):
            reasons.append(f"campaign: {candidate.campaign_id} is part of the baseline that it is compared with")
    if not baseline:
        reasons.append("baseline: the series has no accepted baseline yet")
    elif not any(sample.observations for sample in baseline):
        reasons.append(f"baseline: no usable number in {', '.join(s.campaign_id for s in baseline)}")
    if not candidate.observations:
        reasons.append(f"candidate: no usable number in {candidate.campaign_id}")
    return tuple(dict.fromkeys(reasons))


def _names(old: CampaignSample, new: CampaignSample) -> tuple[str, str]:
    """Names of the two sides: campaigns, or providers if both took part in one campaign."""
    if old.campaign_id != new.campaign_id:
        return old.campaign_id, new.campaign_id
    return Series.parse(old.series_key).provider, Series.parse(new.series_key).provider


def _source(sample: CampaignSample) -> str:
    return "imported" if sample.imported else "simulated" if sample.simulated else "measured"
