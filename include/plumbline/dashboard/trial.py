"""What the page of one trial shows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from plumbline.archive import TrialView
from plumbline.declarations.phases import PHASES
from plumbline.reports.figures import scale, words
from plumbline.results import Event, PodRecord, ResultDocument


@dataclass(frozen=True)
class MetricLine:
    name: str
    statistic: str
    value: str
    interval: str
    n: int


@dataclass(frozen=True)
class Moment:
    """An event `at` so long after the first one."""

    name: str
    clock: str
    at: str
    utc: str


@dataclass(frozen=True)
class PodPart:
    """One pod of a launch on a cluster: where it ran, how it came up and ended, and what the cluster said meanwhile."""

    name: str
    node: str | None
    ended: str
    facts: tuple[tuple[str, str], ...]
    moments: tuple[Moment, ...]
    notices: tuple[tuple[str, str, str, str], ...]


@dataclass(frozen=True)
class TrialPage:
    document: ResultDocument
    view: TrialView
    attempts: tuple[TrialView, ...]
    metrics: tuple[tuple[str, tuple[MetricLine, ...]], ...]
    moments: tuple[Moment, ...]
    pods: tuple[PodPart, ...] = ()


def trial_page(document: ResultDocument, attempts: tuple[TrialView, ...]) -> TrialPage:
    """One attempt in full. `attempts`: every archived attempt of the trial, this one among them."""
    view = next(a for a in attempts if a.attempt == document.trial.attempt)
    ordered = sorted(document.metrics, key=lambda m: PHASES.index(m.phase))
    metrics = []
    for phase, rows in groupby(ordered, key=lambda m: m.phase):
        lines = []
        for m in rows:
            shown = scale(m.unit, [m.value], m.metric)
            interval = f"{shown.number(m.ci_low)} … {shown.number(m.ci_high)}" if m.ci_low is not None else ""
            lines.append(MetricLine(words(m.metric), "" if m.statistic == "value" else m.statistic, shown.text(m.value), interval, m.n))
        metrics.append((words(phase), tuple(lines)))
    events = (*(document.launch.events if document.launch else ()), *document.timeline)
    pods = tuple(_pod(pod) for pod in document.launch.pods) if document.launch else ()
    return TrialPage(document, view, attempts, tuple(metrics), tuple(_moments(events)), pods)


def _pod(pod: PodRecord) -> PodPart:
    exit_status = f"exit status {pod.exit_code}" if pod.exit_code is not None else ""
    return PodPart(
        name=pod.name,
        node=pod.node,
        ended=", ".join(part for part in (pod.reason, exit_status) if part) or "nothing was seen of its end",
        facts=tuple((key, "–" if value is None else str(value)) for key, value in sorted(pod.facts.items())),
        moments=tuple(_moments(pod.events)),
        notices=tuple((n.utc.strftime("%H:%M:%S"), n.reason, f"{n.count}×" if n.count > 1 else "", n.message) for n in pod.notices),
    )


def _moments(events: tuple[Event, ...]) -> list[Moment]:
    """Events in the order of the wall clock, after the request: a cluster cuts its times to whole seconds, so what followed from the
    request may seem to come before it. All clocks count from the same first moment.
    """
    if not events:
        return []
    ordered = sorted(events, key=lambda e: (e.name != "requested", e.utc))
    first = ordered[0].utc
    return [
        Moment(words(e.name), e.clock, f"{max((e.utc - first).total_seconds(), 0.0):.2f} s", e.utc.strftime("%H:%M:%S")) for e in ordered
    ]
