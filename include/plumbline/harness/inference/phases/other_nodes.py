"""The other nodes of a trial that serves on several: joined before its first phase, and what they reported in its record at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from plumbline.declarations.workloads.load import LoadPhaseSpec
from plumbline.harness.gang.topology import topology_of
from plumbline.harness.gpu_monitor import GpuPhaseMonitor
from plumbline.harness.inference.phases.trial_record import TrialRecord
from plumbline.harness.inference.server.nodes import ServingNodes
from plumbline.harness.measurement import EvidenceFile, TrialFailed
from plumbline.harness.probes import inter_node
from plumbline.metrics import Phase
from plumbline.results import MetricRow, metric_row


@contextmanager
def other_nodes(record: TrialRecord) -> Iterator[ServingNodes | None]:
    """The trial's other nodes, joined and fetching the model; None on a single node. After the block the record has what they reported.

    TrialFailed if a node does not join; the server's failures name the node that caused them."""
    topology = topology_of(record.trial, os.environ)
    if topology.nodes == 1:
        yield None
        return
    nodes, gpus = ServingNodes(record.trial, topology), record.watch.gpus
    before = gpus.announce
    try:
        with nodes:
            gpus.announce = nodes.enter
            nodes.gather(
                record.trial.provider.launcher.gang_assembly_s, record.trial.spec_hash, lambda note: record.report("cold_start", 0.0, note)
            )
            record.result.metrics += inter_node.peer_rows(nodes.peers.values())
            nodes.prepare()
            try:
                yield nodes
            except TrialFailed as failure:
                if failure.failure_class not in ("server_error", "timeout"):
                    raise
                raise nodes.explained(failure) from failure
    finally:
        gpus.announce = before
        gpus.add_nodes(nodes.gpus)
        _record(record, nodes)


def _record(record: TrialRecord, nodes: ServingNodes) -> None:
    facts = record.result.facts
    facts["server.nodes"] = nodes.nodes
    for node, found in sorted(nodes.facts.items()):
        facts |= {f"node{node}.{name}": value for name, value in found.items()}
    for node, text in sorted(nodes.logs.items()):
        path = record.workdir / f"server-node{node}.log"
        path.write_text(text, encoding="utf-8")
        record.result.evidence.append(EvidenceFile("server_log", path))
    for phase in (spec.name for spec in record.workload.phases if isinstance(spec, LoadPhaseSpec)):
        tokens = sum(int(log.arrived.sum()) for log in record.logs if log.load.name == phase)
        record.result.metrics += _energy_rows(record.watch.gpus, phase, tokens)


def _energy_rows(gpus: GpuPhaseMonitor, phase: Phase, tokens: int) -> list[MetricRow]:
    """`gpu_power` of all nodes together, and `energy_per_output_token`; nothing where no node reads a GPU."""
    rows, seconds = gpus.rows(phase), gpus.seconds(phase)
    for row in list(rows):
        if tokens and row.value is not None:
            rows.append(metric_row("energy_per_output_token", row.value * seconds / tokens, tokens, phase=phase))
    return rows
