"""A finding's headline in words, for messages, lists and covers: who does what how much worse, since when, and what it costs."""

from __future__ import annotations

import re
from calendar import month_name

from plumbline.metrics import METRICS
from plumbline.metrics.formatting import format_name
from plumbline.results.finding import Finding

SYMBOLS = {"page": "✖", "warn": "▲", "info": "●"}
_SPEED = ("latency", "throughput")
_VERBS = {"training": "trains", "inference": "serves"}


def headline_in_words(finding: Finding, usd: float | None = None) -> str:
    """One line, such as `p5 trains gpt-1b 7.9 % slower since November 2026: about 5,700 USD a month`. `usd`: more a month, if known."""
    money = f": {about_monthly(usd)}" if usd else ""
    return f"{what_happened(finding)}{money}"


def what_happened(finding: Finding) -> str:
    """The change without its cost; of a metric that is no speed, or of facts, prices and failures, the finding's own title."""
    metric = METRICS.get(finding.metric or "")
    began = since(finding)
    if finding.is_decision_change:
        return f"{finding.title or finding.subject} since {began}"
    if finding.kind != "performance" or finding.effect is None or metric is None or finding.workload_kind not in _VERBS:
        what = finding.title or finding.subject
        of = f" {finding.workload}" if finding.workload else ""
        return f"{finding.provider}{of}: {what} since {began}" if began and began not in what else f"{finding.provider}{of}: {what}"
    share = _percent(finding.effect)
    if metric.group not in _SPEED or metric.direction == "informative":
        change = "higher" if finding.effect > 0 else "lower"
        return f"{finding.provider}: {format_name(metric.name)} of {finding.workload} {share} {change} since {began}"
    better = (finding.effect > 0) == (metric.direction == "higher_is_better")
    return f"{finding.provider} {_VERBS[finding.workload_kind]} {finding.workload} {share} {'faster' if better else 'slower'} since {began}"


def since(finding: Finding) -> str:
    """The month of a monthly campaign in words, another campaign's id, or the day."""
    began = finding.campaign_id or finding.since or ""
    if monthly := re.fullmatch(r"(\d{4})-(0[1-9]|1[0-2])", began):
        return f"{month_name[int(monthly[2])]} {monthly[1]}"
    return f"campaign {began}" if finding.campaign_id else began


def about_monthly(usd: float) -> str:
    """An amount a month to two digits."""
    amount = float(f"{abs(usd):.2g}")
    text = f"{amount:,.0f}" if amount >= 10 else f"{amount:g}"
    return f"{'about' if usd > 0 else 'saves about'} {text} USD a month"


def _percent(effect: float) -> str:
    share = abs(100 * effect)
    return f"{share:.0f} %" if share >= 10 else f"{share:.1f} %"
