"""NodeAcceptance of a provider's nodes: a trial on each of them, the verdict on each, the signed sheet, and findings on nodes that stay slow."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from plumbline.analysis.node_acceptance import PAIR_METRICS, FleetVerdict, Node, absolute_limits, judge_fleet, with_pairs
from plumbline.answers.findings import readable_findings
from plumbline.archive import Archive, open_archive
from plumbline.archive.audit import DELIVERY_JUDGED
from plumbline.archive.shelves import shelf
from plumbline.declarations import Criterion, Declarations, Provider, digest
from plumbline.declarations.promises.judging.launches import PROVIDER_FAULTS
from plumbline.declarations.promises.speed_floors import SpeedFloors
from plumbline.declarations.purposes import ACCEPTANCE_REASON
from plumbline.declarations.references import References
from plumbline.findings.probe import distinct_metrics
from plumbline.findings.types.slow_node import CAMPAIGNS, SlowNode, reconcile_nodes
from plumbline.harness.environment import hardware_judgements
from plumbline.kinds import kind_of
from plumbline.launch import stores
from plumbline.launch.failures import NODES_FULL, Interrupted
from plumbline.launch.monthly_estimate import estimate_trial_s
from plumbline.launch.plan import PlanError, RunRequest, enabled_provider, fitting_workload, pairs_by_rounds
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import format_count, format_quantity
from plumbline.presentation.acceptance_sheet import sheets
from plumbline.results import MetricRow, ResultDocument
from plumbline.results.document import CONTENTION
from plumbline.results.finding import OPEN_STATES
from plumbline.words.acceptance import judge_delivery, lacking_of, reasons_of
from plumbline.workflows import collect, plan_trials, record, rehearse, validate
from plumbline.workflows.evidence_pack import EvidencePack, write_evidence_pack
from plumbline.workflows.findings import apply
from plumbline.workflows.plan import GANG, TRAINING

_STEP = ("step_time", "steady", METRICS["step_time"].statistic)
_AUTHOR = "acceptance"
LEAST_ROUNDS = 3
"""Of the median of two, each one counts."""


def plan_acceptance(
    declared: Declarations,
    provider: str,
    *,
    nodes: int | None,
    workload: str | None,
    campaign: str | None,
    now: datetime,
    rounds: int | None = None,
) -> RunRequest:
    """One training on each node, by default the shortest that uses most of a node's accelerators; with `rounds` one of two nodes on their pairs.
    PlanError if none fits."""
    place = enabled_provider(declared, provider)
    if rounds is not None and rounds < LEAST_ROUNDS:
        raise PlanError(f"{rounds} rounds do not show which node of a slow pair is slow; expected at least {LEAST_ROUNDS}")
    workloads = (workload or _shortest(declared, place, 1), *([_shortest(declared, place, 2)] if rounds is not None else ()))
    if workload is not None and fitting_workload(declared, place, workload).kind != "training":
        raise PlanError(f'workload "{workload}" is no training; expected one, whose step time the nodes are compared by')
    campaign_id = campaign or f"{now.astimezone(timezone.utc):accept-%Y%m%d-%H%M%S}"
    return RunRequest(campaign_id, f"{ACCEPTANCE_REASON}{provider}", workloads=workloads, placement="each_node", nodes=nodes, rounds=rounds)


def _shortest(declared: Declarations, place: Provider, nodes: int) -> str:
    fitting = [w for w in declared.workloads_for(place) if kind_of(w).compares_nodes and w.nodes == nodes]
    if not fitting:
        what = "one node" if nodes == 1 else f"{nodes} nodes"
        raise PlanError(f"no declared training workload of {what} fits {place.name}; expected one, such as a short pretraining")
    return min(fitting, key=lambda w: (-w.devices, w.step_count or 0, w.name)).name


def pair_time(declared: Declarations, place: Provider, request: RunRequest, names: Sequence[str]) -> str:
    """How long the rounds take, in words: rounds one after the other, of each as many pairs at a time as the provider permits."""
    pairs, (*_, name) = pairs_by_rounds(names, request.rounds or 0), request.workloads or ("",)
    rounds = len(pairs) // max(1, len(names) // 2)
    seconds = math.ceil(len(names) // 2 / place.launcher.trials_at_a_time) * rounds * estimate_trial_s(declared.workloads[name], place)
    return f"{format_count(len(pairs), 'pair')} in {format_count(rounds, 'round')} of {name}: about {format_quantity(seconds, 's')}"


def accept_here(provider: Provider, request: RunRequest, on_trial: Callable[[str], None]) -> None:
    """Measure, collect, check and record each node's trial in this process, as many at a time as the provider permits. A node whose trial ended is
    not measured again. PlanError or BudgetReached before anything runs."""
    lanes = [(lane, specs) for lane in (TRAINING, GANG) if (specs := plan_trials.plan_trials(provider.name, lane, request))]
    store = stores.home()

    def one(spec: Mapping[str, str]) -> None:
        rehearse.launch_with_retries(stores.planned_trial(store, spec), dict(spec))
        on_trial(spec["title"])

    pool = ThreadPoolExecutor(provider.launcher.trials_at_a_time)
    try:
        for lane, specs in lanes:
            # Of a round, no two pairs share a node.
            size = len(lanes[0][1]) // 2 if lane == GANG else len(specs)
            for first in range(0, len(specs), size):
                list(pool.map(one, specs[first : first + size]))
    except (Interrupted, KeyboardInterrupt):
        pool.shutdown(wait=True, cancel_futures=True)
        raise
    pool.shutdown()
    for lane, specs in lanes:
        collect.collect_group(specs)
        record.record_group(validate.validate_group(provider.name, lane.name, specs)).require_all()


def acceptance_verdict(
    archive: Archive,
    campaign_id: str,
    provider: str,
    slow_before: Mapping[str, Collection[str]] | None = None,
    declared: tuple[Provider, References] | None = None,
) -> FleetVerdict:
    """The verdict on the nodes that the campaign measured. `slow_before`: as of judge_fleet; `declared`: what absolute limits come from. LookupError
    without any."""
    last: dict[str, ResultDocument] = {}
    for (trial_id, _), document in sorted(archive.documents(campaign_id).items()):
        if document.trial.provider.name == provider and document.trial.placement == "each_node":
            last[trial_id] = document
    if not last:
        raise LookupError(f"campaign {campaign_id} has no trial on each node of {provider}; `plumbline accept {provider}` measures them")
    own = [document for document in last.values() if len(document.trial.on_nodes) == 1]
    workload = own[0].trial.workload.name if own else ""
    floor = None if declared is None else SpeedFloors.floors(declared[0].sla).get(workload)
    nodes = [_node(document, floor) for document in own]
    pairs = [(d.trial.on_nodes, _pair_figures(d)) for d in last.values() if len(d.trial.on_nodes) == 2]
    limits = {} if declared is None else absolute_limits(declared[0], workload, declared[1])
    # A published figure that no node has a probe for asks nothing; a promised speed does.
    asked = {m: limit for m, limit in limits.items() if (floor and m == floor.metric) or any(m in node.figures for node in nodes)}
    return judge_fleet(with_pairs(nodes, pairs), slow_before, asked)


def compared_figures(rows: Sequence[MetricRow]) -> dict[str, float]:
    """Metric → value of what nodes are compared by: the hardware probes and the step time."""
    figures = {r.metric: r.value for r in rows if r.phase == "environment" and r.value is not None}
    step = next((r.value for r in rows if (r.metric, r.phase, r.statistic) == _STEP), None)
    return {name: figures[name] for name in distinct_metrics(figures)} | ({} if step is None else {_STEP[0]: step})


def _pair_figures(document: ResultDocument) -> dict[str, float]:
    """What was measured between two nodes; empty if nothing was."""
    rows = document.metrics if document.validity.status in ("valid", "degraded") else ()
    return {r.metric: r.value for r in rows if r.metric in PAIR_METRICS and r.value is not None}


def _node(document: ResultDocument, floor: Criterion | None = None) -> Node:
    validity, facts = document.validity, {} if document.environment is None else document.environment.facts
    measured = validity.status in ("valid", "degraded")
    counters: dict[str, int] = {}
    for row in document.gpu_health:
        if (count := row.after if row.after is not None else row.before) is not None:
            counters[row.counter] = counters.get(row.counter, 0) + int(count)
    beside = [reason.detail for reason in validity.reasons if reason.code in CONTENTION]
    if measured and beside:
        why, measured = f"measured beside other load: {'; '.join(beside)}", False
    else:
        why = "" if measured else "; ".join(reason.detail for reason in validity.reasons) or validity.failure_class or validity.status
    # A trial on one named node finds no room where other jobs, such as our own, hold its accelerators.
    full = NODES_FULL in why
    theirs = validity.failure_class in PROVIDER_FAULTS and not full
    return Node(
        name=document.trial.on_nodes[0],
        facts=facts,
        figures={**compared_figures(document.metrics), **_promised_figure(document.metrics, floor)} if measured else {},
        counters=counters,
        serials=document.gpu_serials,
        faults=(*(judgement.reason.detail for judgement in hardware_judgements(facts)), *([why] if theirs else [])),
        missing="" if theirs else why,
    )


def _promised_figure(rows: Sequence[MetricRow], floor: Criterion | None) -> dict[str, float]:
    """What a speed is promised of, if it was measured."""
    wanted = None if floor is None else (floor.metric, floor.statistic, floor.phase)
    return {r.metric: r.value for r in rows if (r.metric, r.statistic, r.phase) == wanted and r.value is not None}


@dataclass(frozen=True)
class NodeAcceptance:
    """The signed sheet of a campaign; ids of `findings` on nodes that were slow in CAMPAIGNS acceptances in a row."""

    campaign_id: str
    provider: str
    fleet: FleetVerdict
    pack: EvidencePack
    findings: tuple[str, ...] = ()

    @property
    def why_returned(self) -> dict[str, list[str]]:
        """By node that goes back: the reasons in words."""
        return {verdict.node.name: list(reasons_of(verdict)) for verdict in self.fleet.returned}

    @property
    def why_not_measured(self) -> dict[str, str]:
        """By node that is neither accepted nor goes back: what is missing, in words."""
        return {verdict.node.name: "; ".join(lacking_of(verdict)) for verdict in (*self.fleet.unmeasured, *self.fleet.upgrading)}


def sheet_name(campaign_id: str) -> str:
    """The file of a campaign's sheet on the shelf `acceptance`."""
    return f"{campaign_id}.zip"


def write_kept_sheet(campaign_id: str, provider: Provider, references: References) -> tuple[NodeAcceptance, str]:
    """`write_sheet` in the place of the campaign's sheet on its shelf; also its path or URL."""
    sheets_written = shelf("acceptance")
    with sheets_written.writing(campaign_id) as folder:
        folder.mkdir(parents=True, exist_ok=True)
        done = write_sheet(campaign_id, provider, folder / sheet_name(campaign_id), references=references, replace=True)
    return done, sheets_written.address(campaign_id, sheet_name(campaign_id))


def write_sheet(
    campaign_id: str, provider: Provider, file: Path, *, references: References | None = None, replace: bool = False
) -> NodeAcceptance:
    """Judge a recorded campaign, write its signed sheet, and reconcile findings on nodes. `replace`: a sheet that is there. LookupError, FileExistsError, InvalidResult and OSError as of
    an evidence pack."""
    with open_archive() as archive:
        before = _slow_before(archive, campaign_id, provider.name)
        fleet = acceptance_verdict(archive, campaign_id, provider.name, before, (provider, references or References()))
        (planned,) = {c.planned_at for c in archive.campaigns() if c.campaign_id == campaign_id}
        if replace:
            file.unlink(missing_ok=True)
        pack = write_evidence_pack(
            archive, campaign_id, file, provider.name, sheets(fleet, campaign_id, provider, f"{planned:%Y-%m-%d %H:%M} UTC")
        )
        findings = _update_findings(archive, campaign_id, provider, fleet)
        judged = judge_delivery(fleet)
        detail = {"provider": provider.name, "verdict": judged.verdict}
        once = f"{DELIVERY_JUDGED}/{digest([campaign_id, judged.verdict, judged.text])}"
        archive.add_audit(who=_AUTHOR, what=DELIVERY_JUDGED, subject=campaign_id, why=judged.text, detail=detail, once=once)
    return NodeAcceptance(campaign_id, provider.name, fleet, pack, findings)


def _slow_before(archive: Archive, campaign_id: str, provider: str) -> dict[str, Collection[str]]:
    """Node → the metrics in which the acceptance before this one found it slow."""
    ids = _acceptances(archive, provider)
    for other in ids[ids.index(campaign_id) + 1 :][:1] if campaign_id in ids else ():
        return {v.node.name: set(v.slow) for v in acceptance_verdict(archive, other, provider).nodes if v.slow}
    return {}


def _update_findings(archive: Archive, campaign_id: str, provider: Provider, fleet: FleetVerdict) -> tuple[str, ...]:
    """Open and resolve findings by the CAMPAIGNS newest acceptances; an older campaign that is judged again changes none."""
    ids = _acceptances(archive, provider.name)
    if ids[:1] != [campaign_id]:
        return ()
    history = [(campaign_id, fleet), *((other, acceptance_verdict(archive, other, provider.name)) for other in ids[1:CAMPAIGNS])]
    findings = archive.findings_of(provider.name)
    own = [f for f in readable_findings(f for f in findings if f.state in OPEN_STATES) if SlowNode.has(f)]
    settled = {f.finding_id for f in findings if f.state not in OPEN_STATES}
    done = reconcile_nodes(
        provider.name, history[::-1], own, simulated=provider.simulated, cluster=provider.launcher.runs_pods, settled=settled
    )
    apply(archive, done, by=_AUTHOR, seen_in=campaign_id)
    return tuple(finding.finding_id for finding in (*done.opened, *done.unchanged))


def _acceptances(archive: Archive, provider: str) -> list[str]:
    """Campaigns that measured each of the provider's nodes, newest first."""
    return [head.campaign_id for head in archive.acceptances().get(provider, ())]
