"""What scaling did to each service whose load was stepped up: cards of its current results, and the documents behind them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from plumbline.analysis.scorecards.scorecard import Scorecard, scorecards
from plumbline.answers.current_results import current_results
from plumbline.archive import Archive
from plumbline.declarations import AnyWorkload, Declarations
from plumbline.results import ResultDocument


@dataclass(frozen=True)
class ScaledWorkload:
    """A workload with the phase `scale_out`. `cards`: of each provider that measured it; `campaigns`: by provider; `documents`: of usable trials."""

    spec: AnyWorkload
    cards: tuple[Scorecard, ...]
    campaigns: dict[str, str]
    simulated: frozenset[str]
    documents: tuple[ResultDocument, ...]


def scaled_workloads(archive: Archive, declared: Declarations, on: date) -> tuple[ScaledWorkload, ...]:
    """Each declared workload whose load is stepped up, by name; one that was not measured has no card."""
    specs = {name: w for name, w in declared.workloads.items() if w.scale_out is not None}
    if not specs:
        return ()
    now = current_results(archive, declared, on, workloads=specs)
    cards = scorecards(now.trials, acceptance={name: spec.acceptance for name, spec in now.workloads.items()}, providers=now.providers)
    usable = {(t.trial_id, t.attempt) for t in now.trials if t.usable}
    found = []
    for name, spec in sorted(specs.items()):
        own = {provider: campaign for (provider, workload), campaign in now.campaigns.items() if workload == name}
        documents = [archive.document(trial, attempt) for trial, attempt in sorted(usable)] if own else []
        found.append(
            ScaledWorkload(
                spec,
                tuple(card for card in cards if card.workload == name),
                own,
                now.simulated,
                tuple(d for d in documents if d is not None and d.trial.workload.name == name),
            )
        )
    return tuple(found)


def unscaled_services(declared: Declarations) -> tuple[str, ...]:
    """Served workloads without the phase, by name."""
    return tuple(sorted(name for name, w in declared.workloads.items() if w.kind == "inference" and w.scale_out is None))
