"""Trials as a provider would get them: what its cluster must have room for."""

from __future__ import annotations

from datetime import datetime

from plumbline.declarations import AnyWorkload, Declarations, KubernetesLauncher, Provider, Trial, misfit
from plumbline.launch.plan import KINDS, Request, plan

_CAMPAIGN = "doctor"


def typical(declared: Declarations, provider: Provider, launcher: KubernetesLauncher, now: datetime) -> list[Trial]:
    """One trial for each kind that the provider has an image for: its largest workload.

    Where none fits yet (a new provider), any workload of the kind stands in and uses all accelerators of one node.
    """
    found = []
    for kind in KINDS:
        if launcher.image_for(kind) is None:
            continue
        candidates = declared.workloads_for(provider, kind) or [
            other for w in declared.workloads.values() if w.kind == kind and misfit(other := _stand_in(w, provider), provider) is None
        ]
        if not candidates:
            continue
        workload = max(candidates, key=lambda w: (w.nodes, w.gpus or provider.accelerator.count))
        here = provider.model_copy(update={"enabled": True})
        world = Declarations({here.name: here}, {workload.name: workload}, {}, declared.thresholds)
        asked = Request(_CAMPAIGN, "what a trial needs of the cluster", workloads=[workload.name], repeats=1)
        found.append(plan(world, asked, now)[0])
    return found


def _stand_in(workload: AnyWorkload, provider: Provider) -> AnyWorkload:
    has = provider.accelerator
    needs = workload.needs.model_copy(update={"accelerator": has.kind, "count": has.count})
    return workload.model_copy(update={"needs": needs, "providers": None})
