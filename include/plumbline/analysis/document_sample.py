"""Trial samples from result documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from plumbline.analysis.campaign_data import CampaignData, CampaignQuality
from plumbline.analysis.scorecards.comparison_class import FACTS
from plumbline.analysis.trial_sample import USABLE, Conditions, TrialSample
from plumbline.declarations import Criterion, Trial
from plumbline.declarations.trials import flatten, requested_specification
from plumbline.results import Event, HeldPart, ResultDocument
from plumbline.results.document import ReplicaCount
from plumbline.results.launch_record import launch_metrics


def sample_of(
    document: ResultDocument, quality: CampaignQuality | None = None, resolved: Mapping[str, Criterion] | None = None
) -> TrialSample:
    """One attempt as plain numbers. An attempt that the quality checks rejected counts as invalid, with their reasons."""
    trial = document.trial
    numbers = TrialSample(
        **_identity(trial),
        status=document.validity.status,
        started=began_on(document),
        metrics=(*document.metrics, *(launch_metrics(document.launch, document.timeline) if document.launch is not None else ())),
        failure_class=document.validity.failure_class,
        reasons=tuple(f"{reason.code}: {reason.detail}" for reason in document.validity.reasons),
        held_s=billed_seconds(document),
        nodes=trial.workload.nodes,
        gpus=trial.workload.gpus,
        usage=document.usage,
        conditions=conditions_of(document),
        limits=document.limits,
        resolved=resolved or {},
    )
    return numbers if quality is None else with_quality_verdict(numbers, quality)


def _identity(trial: Trial) -> dict[str, Any]:
    workload = trial.workload
    place = {"provider": trial.provider.name, "kind": workload.kind, "workload": workload.name, "version": workload.version}
    return {**place, "trial_id": trial.trial_id, "slot": trial.slot, "repeat": trial.repeat, "attempt": trial.attempt}


def conditions_of(document: ResultDocument) -> Conditions:
    """Under what the trial was measured: what decides what its numbers may be put beside."""
    _, _, protocol, engine, *_ = document.trial.series_key.split("/")
    facts = document.environment.facts if document.environment is not None else {}
    return Conditions(
        "simulated" if document.simulated else "measured",
        protocol,
        engine,
        tuple(flatten(requested_specification(document.trial))),
        stack=tuple((name, str(facts[name])) for name in FACTS if facts.get(name) is not None),
        accelerator=document.trial.provider.accelerator.product,
    )


def with_quality_verdict(numbers: TrialSample, quality: CampaignQuality) -> TrialSample:
    """The attempt after the quality checks: a rejected one is invalid, one with a note degraded, each with their reasons."""
    if quality.action == "accept":
        return numbers
    status = numbers.status
    if quality.action == "reject" and status in USABLE:
        return replace(numbers, status="invalid", reasons=(*quality.reasons, *numbers.reasons))
    if status == "valid" and quality.reasons:
        status = "degraded"
    return replace(numbers, status=status, reasons=(*numbers.reasons, *quality.reasons))


def campaign_numbers(campaign: CampaignData) -> tuple[TrialSample, ...]:
    """Every attempt of the campaign, and one "missing" entry for each planned trial without a document."""
    quality, resolved = campaign.quality, campaign.resolved
    samples = [sample_of(d, quality.get((d.trial.trial_id, d.trial.attempt)), resolved.get(d.trial.series_key)) for d in campaign.documents]
    trial_ids = {t.trial_id for t in samples}
    missing = [t for t in campaign.planned if t.trial_id not in trial_ids]
    reasons = ("no_result: planned, but nothing came back",)
    return (*samples, *(TrialSample(**_identity(t), status="missing", started=None, reasons=reasons) for t in missing))


def held_seconds(document: ResultDocument | HeldPart) -> float | None:
    """Seconds that the trial held its provider: from the launcher's first event to its last; the harness's own timeline without it.

    On a cluster each pod holds its node from the moment it has one: the sum over the pods; elsewhere all nodes of a trial are held together.
    Servers of a Deployment hold theirs too; on accelerators only they do, because the pod that sends the load has none.
    Waiting in the queue holds nothing and is left out. None when fewer than two moments are known: the duration is unknown, not zero.
    """
    if document.launch is not None and document.launch.pods:
        gone = tuple(e for e in document.launch.events if e.name == "deleted")
        spans = [_span(_on_node(pod.events, gone)) for pod in document.launch.pods]
        pods_s, servers_s = sum(span for span in spans if span is not None), _server_seconds(document.launch.replicas, gone)
        alone = servers_s and document.trial.provider.accelerator.kind != "cpu"
        return (servers_s if alone else pods_s + servers_s) or None
    for events in (document.launch.events if document.launch else (), document.timeline):
        span = _span(tuple(e for e in events if e.name != "queued"))
        if span is not None:
            return span * document.trial.workload.nodes
    return None


def _server_seconds(replicas: Sequence[ReplicaCount], gone: Sequence[Event]) -> float:
    """Servers × seconds until all were deleted, or last seen; of those that were asked for and not ready, and of those that still ended, too."""
    until = [*(count.at for count in replicas[1:]), *(event.utc.timestamp() for event in gone[-1:])]
    return sum(max(count.ready, count.wanted) * max(end - count.at, 0.0) for count, end in zip(replicas, until, strict=False))


def billed_seconds(document: ResultDocument) -> float | None:
    """`held_seconds`, but 0 for an attempt that was observed to its end and never had a node."""
    seconds = held_seconds(document)
    return 0.0 if seconds is None and document.launch is not None and document.validity.status == "failed" else seconds


def _on_node(events: tuple[Event, ...], gone: tuple[Event, ...]) -> tuple[Event, ...]:
    """Events since a pod had its node. One that never finished by itself held it until the launch was deleted."""
    scheduled = next((e.utc for e in events if e.name == "scheduled"), None)
    if scheduled is None:
        return ()
    ended = any(e.name in ("finished", "deleted") for e in events)
    return tuple(e for e in (*events, *(() if ended else gone)) if e.utc >= scheduled)


def _span(events: tuple[Event, ...]) -> float | None:
    if len(events) < 2:
        return None
    clocked = [e.monotonic_s for e in events if e.monotonic_s is not None]
    if len(clocked) == len(events):
        span = max(clocked) - min(clocked)
    else:
        moments = [e.utc for e in events]
        span = (max(moments) - min(moments)).total_seconds()
    return span if span > 0 else None


def began_on(document: ResultDocument) -> date | None:
    """The day of the first event; None without any."""
    events = (*(document.launch.events if document.launch else ()), *document.timeline)
    return min(e.utc for e in events).date() if events else None
