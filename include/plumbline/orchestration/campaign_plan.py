"""What a campaign asks of which provider, told before anything starts. No Airflow in here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from plumbline.declarations import Declarations, KubernetesLauncher, Trial
from plumbline.launch.plan import KINDS, PlanError
from plumbline.orchestration.asked import Asked, trials_of


def planned_trials(declared: Declarations, asked: Asked, providers: Sequence[str] | None = None) -> dict[str, list[Trial]]:
    """The trials that a campaign will run, by provider; PlanError if that is none, or if something asked for does not exist.

    Nothing starts: call it first, so that a bad request is told before Airflow is.
    """
    known = {p.name: p for p in declared.enabled_providers()}
    unknown = sorted(set(providers or ()) - set(known))
    if unknown:
        raise PlanError(f"no enabled provider is called {', '.join(unknown)}; expected some of {', '.join(known) or '(none enabled)'}")
    now = datetime.now(timezone.utc)
    every = {w for w in asked.workloads or () if w not in declared.workloads}
    if every:
        raise PlanError(f"no workload is called {', '.join(sorted(every))}; declared: {', '.join(sorted(declared.workloads))}")
    found = {}
    for name in sorted(set(providers)) if providers else known:
        fitting = {w.name for w in declared.workloads_for(known[name])}
        wanted = tuple(w for w in asked.workloads if w in fitting) if asked.workloads is not None else None
        mine = replace(asked, workloads=wanted)
        trials = [t for kind in KINDS for t in trials_of(mine, declared, known[name], kind, now)]
        if trials:
            found[name] = trials
    if asked.placement == "fresh_node" and (fixed := [n for n in found if not isinstance(known[n].launcher, KubernetesLauncher)]):
        raise PlanError(f"{', '.join(fixed)} has no other node to run on; expected providers on clusters for the placement fresh_node")
    if not found:
        raise PlanError("nothing to run: no enabled provider fits what was asked for; `plumbline check` shows what would run where")
    return found


def conf_of(asked: Asked, trials: Sequence[Trial]) -> dict[str, Any]:
    """What the form of a provider's benchmark DAG takes, for these trials of one provider."""
    conf = {
        "campaign": asked.campaign_id,
        "reason": asked.reason,
        "workloads": sorted({t.workload.name for t in trials}),
        "kinds": sorted({t.workload.kind for t in trials}),
        "repeats": asked.repeats,
    }
    return conf if asked.placement == "any" else {**conf, "placement": asked.placement}
