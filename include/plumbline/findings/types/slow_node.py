"""One node that is slow in several acceptances in a row: a faulty node, not noise of its provider."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from plumbline.findings import Reconciliation, provider_finding, unsettled_id
from plumbline.findings.types.base import Step, register
from plumbline.findings.types.failed_launches import FailedLaunches
from plumbline.judgement import is_measured
from plumbline.metrics.formatting import format_change
from plumbline.results.finding import Finding

if TYPE_CHECKING:
    from plumbline.analysis.node_acceptance import FleetVerdict


@register
class SlowNode(FailedLaunches):
    id = "slow_node"
    subject = "node/"
    order = 32
    usual = False
    noun = "slow node"
    advice = "Return a node to"
    resolved_if = "returned or repaired, or a false alarm"

    def looks(self, finding: Finding) -> list[Step]:
        return [(f"plumbline accept {finding.provider} --last", "every node of the last acceptance, and which go back")]


CAMPAIGNS = 3
"""Acceptances in a row that open a finding."""


def slow_nodes(findings: Iterable[Finding]) -> frozenset[str]:
    """The nodes that the findings are about."""
    return frozenset(SlowNode.rest(finding) for finding in findings if SlowNode.has(finding))


def reconcile_nodes(
    provider: str,
    history: Sequence[tuple[str, FleetVerdict]],
    open_findings: Sequence[Finding],
    *,
    simulated: bool = False,
    cluster: bool = False,
    settled: Collection[str] = (),
) -> Reconciliation:
    """Open a finding for each node that is slow in all of the CAMPAIGNS acceptances of `history` (campaign and verdict, oldest first), and resolve those of
    nodes that the last one measured and found like the others. `cluster`: whether kubectl can take the node out of use."""
    from plumbline.metrics.formatting import format_probe_name

    slow = [{verdict.node.name: verdict.slow for verdict in fleet.nodes if verdict.slow} for _, fleet in history]
    measured = {
        verdict.node.name: {m for m, v in verdict.node.figures.items() if is_measured(v)}
        for verdict in history[-1][1].nodes
        if not verdict.node.missing
    }
    known = {finding.subject: finding for finding in open_findings}
    opened, unchanged = [], []
    for node in sorted(set.intersection(*map(set, slow))) if len(history) == CAMPAIGNS else ():
        subject = f"{SlowNode.subject}{node}"
        if subject in known:
            unchanged.append(known[subject])
            continue
        figures = ", ".join(f"{format_probe_name(m)} {format_change(-share)}" for m, share in sorted(slow[-1][node].items()))
        title = f"node {node} is slow: {figures} from the fleet in acceptance {history[-1][0]}"
        proposal = f"to take it out of use: kubectl cordon {node}" if cluster else "ask the provider for another node"
        opened.append(
            provider_finding(
                provider,
                "reliability",
                subject,
                name=unsettled_id(provider, history[0][0], "reliability", subject, settled),
                since=history[0][0],
                severity="warn",
                title=title,
                explanation=f"slow in {CAMPAIGNS} acceptances in a row ({', '.join(c for c, _ in history)}), while the other nodes are alike; {proposal}",
                simulated=simulated,
            )
        )
    back = f"resolved: acceptance {history[-1][0]} found it like the other nodes"
    before = {node: set(figures) for each in slow for node, figures in each.items()}
    again = {n for n, figures in measured.items() if n not in slow[-1] and before.get(n, set()) <= figures}
    resolved = tuple((f, back) for f in known.values() if SlowNode.rest(f) in again)
    return Reconciliation(tuple(opened), resolved=resolved, unchanged=tuple(unchanged))
