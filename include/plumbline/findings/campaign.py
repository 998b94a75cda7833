"""Findings of a campaign's comparisons: one for each provider, kind and subject, never one for each metric.

Metrics of one trial move together: all that regressed or improved are one performance finding, led by the metric that says most about the
workload. Environment changes that matter are a finding even if performance is unchanged.

Severity. Performance: page if a leading metric is worse by its page threshold, else warn; tails alone warn at most; an improvement warns from
the page threshold on, else info. Environment: warn. Reliability: page if every attempt failed, info within the baseline's rate, else warn; GPU
errors: info if corrected or within the baseline's rate, else warn. Missing data: page if nothing was recorded, else warn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from plumbline.analysis.drift.attribution import attribute
from plumbline.analysis.drift.comparison import Comparison, MetricComparison, Reliability
from plumbline.declarations.promises.judging.launches import OPERATOR_FAULTS, UNPROVEN
from plumbline.findings.phrases import without_share
from plumbline.findings.types import about_facts, about_failures
from plumbline.findings.types.environment import EnvironmentFinding
from plumbline.findings.types.failed_launches import FailedLaunches
from plumbline.findings.types.gpu_errors import GpuErrors
from plumbline.findings.types.missing_trials import MissingTrials
from plumbline.findings.types.performance import Performance
from plumbline.metrics import leading_order, metric_of
from plumbline.metrics.formatting import format_limit, shorten
from plumbline.results.finding import Finding, FindingKind, Member, Severity, finding_id, gravity
from plumbline.results.sample import Series
from plumbline.words.drift import attribution_text, format_effect, format_interval, format_metric_name, past_text


def findings_of(comparison: Comparison) -> tuple[Finding, ...]:
    """The findings of one series in one campaign. A refused comparison (no baseline yet, nothing measured) still has failures and missing trials."""
    candidates = (
        _performance(comparison),
        _environment(comparison),
        _reliability(comparison),
        _gpu_errors(comparison),
        _missing(comparison),
    )
    return tuple(finding for finding in candidates if finding is not None)


def _performance(comparison: Comparison) -> Finding | None:
    moved = comparison.drifted
    if not moved:
        return None
    ranked = _ranked(moved)
    lead = ranked[0]
    attribution = attribute(lead, comparison.rows, comparison.environment_changes)
    repeats = f"{lead.past_threshold} of {lead.n_candidate} repeats"
    what = f"{_name(lead)} {format_effect(lead)} ({format_interval(lead, comparison.confidence)})"
    return _finding(
        comparison,
        kind="performance",
        subject=Performance.subject,
        severity=_severity(moved),
        title=f"{_name(lead)} {format_effect(lead)}",
        evidence=f"{what}, {repeats}",
        explanation="; ".join(filter(None, (past_text(lead.past), attribution_text(attribution)))),
        effect=lead.effect,
        ci_low=lead.ci_low,
        ci_high=lead.ci_high,
        metric=lead.metric,
        members=[_member(row) for row in ranked],
        attributed_to=[e.subject for e in attribution.explanations],
        causes=tuple(without_share(e.text) for e in attribution.explanations),
    )


def _ranked(moved: Sequence[MetricComparison]) -> list[MetricComparison]:
    """The lead first: worse before better, a leading statistic before a tail, then the catalogue's order, then the distance past the threshold."""

    def rank(row: MetricComparison) -> tuple[bool, bool, int, float]:
        return row.verdict != "regressed", row.family != "lead", leading_order(row.metric), -abs(row.effect or 0.0) / (row.warn or 1.0)

    return sorted(moved, key=rank)


def _severity(moved: Sequence[MetricComparison]) -> Severity:
    leads = [row for row in moved if row.family == "lead"]
    past_page = {row.verdict for row in leads if row.page is not None and abs(row.effect or 0.0) >= row.page}
    if "regressed" in past_page:
        return "page"
    if "improved" in past_page or any(row.verdict == "regressed" for row in moved):
        return "warn"
    return "info"


def _name(row: MetricComparison) -> str:
    return format_metric_name(row, metric_of(row).statistic)


def _member(row: MetricComparison) -> Member:
    text = f"{_name(row)} {format_effect(row)}" + (f"; {past_text(row.past)}" if row.past else "")
    return Member(_name(row), text, row.effect, row.ci_low, row.ci_high, row.q, row.verdict, crept=row.crept)


def _environment(comparison: Comparison) -> Finding | None:
    changes = [change for change in comparison.environment_changes if change.matters]
    if not changes:
        return None
    members = [Member(change.key, f"{change.group}: {change.text}") for change in changes]
    judged = [row for row in comparison.rows if row.verdict is not None and row.family == "lead"]
    if comparison.drifted:
        effect = "performance changed too"
    elif judged and all(row.verdict in ("unchanged", "moved") for row in judged):
        effect = _within_thresholds(judged)
    else:
        effect = "too few repeats to judge performance"
    return _finding(
        comparison,
        kind="environment",
        subject=EnvironmentFinding.subject,
        severity="warn",
        title=f"environment changed: {changes[0].text}",
        evidence=f"environment changed: {shorten(m.fact for m in members)}",
        explanation=f"compared with baseline {', '.join(comparison.baseline_campaigns)}; {effect}",
        members=members,
        attributed_to=[change.key for change in changes],
        consequence=effect,
    )


def _within_thresholds(judged: Sequence[MetricComparison]) -> str:
    """How far performance moved at most, beside the threshold that it stayed below."""
    moves = [row for row in judged if row.effect is not None and row.warn]
    if not moves:
        return "performance is unchanged"
    most = max(moves, key=lambda row: abs(row.effect or 0.0) / (row.warn or 1.0))
    return f"{_name(most)} moved {format_effect(most)}, below your {format_limit(most.warn or 0.0)} threshold"


def _reliability(comparison: Comparison) -> Finding | None:
    reliability = comparison.reliability
    if not reliability.failures:
        return None
    severity: Severity = "page" if reliability.failures == reliability.attempts else "info" if reliability.as_usual else "warn"
    classes = ", ".join(f"{name} × {n}" for name, n in reliability.failed)
    return _finding(
        comparison,
        kind="reliability",
        subject=FailedLaunches.subject,
        severity=severity,
        title=f"{reliability.failures} of {reliability.attempts} attempts failed",
        evidence=f"{reliability.failures} of {reliability.attempts} attempts failed ({classes}) in campaign {comparison.candidate_campaign}",
        explanation=f"{_in_baseline(reliability.baseline_failed, reliability)}; failed: {', '.join(reliability.failed_trials[:3])}"
        + (" …" if len(reliability.failed_trials) > 3 else "")
        + _not_the_providers(reliability.failed),
        members=[Member(name, f"{name} × {n}") for name, n in reliability.failed],
        attributed_to=[name for name, _ in reliability.failed],
    )


def _in_baseline(n: int, reliability: Reliability) -> str:
    return f"{n} of {reliability.baseline_attempts} in the baseline" if reliability.baseline_attempts else "no baseline yet"


def _not_the_providers(failed: Sequence[tuple[str, int]]) -> str:
    """How many of the failures no promise counts; empty without one."""
    ours, unproven = (sum(n for name, n in failed if name in classes) for classes in (OPERATOR_FAULTS, UNPROVEN))
    parts = [f"{ours} by our own fault"] * bool(ours) + [f"{unproven} for a cause that is not proven to be the provider's"] * bool(unproven)
    return f"; of these {', '.join(parts)}" if parts else ""


_CORRECTED = {"gpu_ecc_corrected", "gpu_pcie_replays"}
"""Errors that the hardware corrected: they cost time, not results."""


def _gpu_errors(comparison: Comparison) -> Finding | None:
    reliability = comparison.reliability
    if not reliability.gpu_errors:
        return None
    codes = [code for code, _ in reliability.gpu_errors]
    severity: Severity = "info" if reliability.gpu_errors_as_usual or _CORRECTED.issuperset(codes) else "warn"
    kinds = ", ".join(f"{code} × {n}" for code, n in reliability.gpu_errors)
    affected = f"GPU errors in {len(reliability.gpu_error_trials)} of {reliability.attempts} attempts"
    trials = list(dict.fromkeys(reliability.gpu_error_trials))
    return _finding(
        comparison,
        kind="reliability",
        subject=GpuErrors.subject,
        severity=severity,
        title=affected,
        evidence=f"{affected} ({kinds}) in campaign {comparison.candidate_campaign}",
        explanation=f"{_in_baseline(reliability.baseline_gpu_errors, reliability)}; trials: {', '.join(trials[:3])}"
        + (" …" if len(trials) > 3 else ""),
        members=[Member(code, f"{code} × {n}") for code, n in reliability.gpu_errors],
        attributed_to=codes,
    )


def _missing(comparison: Comparison) -> Finding | None:
    reliability = comparison.reliability
    if not reliability.missing:
        return None
    planned = (
        f"{reliability.missing} of {reliability.planned} planned trials"
        if reliability.planned is not None
        else f"{reliability.missing} trials"
    )
    return _finding(
        comparison,
        kind="missing_data",
        subject=MissingTrials.subject,
        severity="warn" if reliability.attempts else "page",
        title=f"{planned} left no result",
        evidence=f"{planned} left no result in campaign {comparison.candidate_campaign}",
        explanation="missing results do not count as zero",
    )


def _finding(
    comparison: Comparison,
    *,
    kind: FindingKind,
    subject: str,
    members: Sequence[Member] = (),
    attributed_to: Sequence[str] = (),
    **fields: Any,
) -> Finding:
    """`fields`: further ones of the finding."""
    series = Series.parse(comparison.series_key)
    return Finding(
        finding_id=finding_id(series.provider, comparison.candidate_campaign, kind, subject),
        series_key=comparison.series_key,
        campaign_id=comparison.candidate_campaign,
        kind=kind,
        provider=series.provider,
        workload_kind=series.kind,
        workload=series.workload,
        subject=subject,
        simulated=comparison.simulated,
        members=tuple(replace(member, series_key=comparison.series_key) for member in members),
        attributed_to=tuple(attributed_to),
        baseline_campaigns=comparison.baseline_campaigns,
        series=(comparison.series_key,),
        standing=(comparison.series_key,),
        **fields,
    )


def grouped(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings of the series of one campaign, one per provider, kind and subject: one cause, such as a driver, shows in many series.

    The series with the highest severity, then the one furthest from its baseline, leads with its numbers and its attribution.
    """
    groups: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        groups[finding.finding_id].append(finding)
    return tuple(_lead_with_members(sorted(group, key=_rank)) for group in groups.values())


def _rank(finding: Finding) -> tuple[int, float, str]:
    return gravity(finding.severity), -abs(finding.effect or 0.0), finding.series_key


def _lead_with_members(group: list[Finding]) -> Finding:
    lead, others = group[0], group[1:]
    if not others:
        return lead
    explained = next((f for f in group if f.attributed_to), lead)
    if about_facts(lead):
        also = f"the same in {shorten([f.concerns for f in others])}"
    else:
        also = f"also affected: {shorten([f'{f.workload} {f.title}' for f in others])}"
    return replace(
        lead,
        explanation=f"{explained.explanation}; {also}",
        title=f"{lead.title} and {len(others)} more series",
        evidence=f"{lead.evidence}, and {len(others)} more series",
        causes=explained.causes,
        members=_members(group),
        attributed_to=tuple(dict.fromkeys(key for f in group for key in f.attributed_to)),
        baseline_campaigns=tuple(dict.fromkeys(c for f in group for c in f.baseline_campaigns)),
        series=tuple(f.series_key for f in group),
        standing=tuple(f.series_key for f in group),
    )


def _members(group: Sequence[Finding]) -> tuple[Member, ...]:
    """One member for each fact; of metrics one for each series, which its text names."""
    if about_facts(group[0]) or about_failures(group[0]):
        first: dict[str, Member] = {}
        for finding in group:
            for member in finding.members:
                first.setdefault(member.name, member)
        return tuple(first.values())
    return tuple(replace(m, text=f"{f.workload_kind} {f.workload}: {m.text}") for f in group for m in f.members)
