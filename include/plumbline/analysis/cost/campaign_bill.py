"""The bill of a campaign: one a trial, one a provider and kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import Literal

from plumbline.analysis.cost.all_in import all_in
from plumbline.analysis.cost.bill import Bill, Money, combine_bills
from plumbline.analysis.cost.budget import SUMS
from plumbline.analysis.cost.interruptions import loss_rate
from plumbline.analysis.cost.token_costs import token_costs
from plumbline.analysis.cost.trial_bill import TrialUsage, hour_price, trial_bill
from plumbline.analysis.cost.unit_costs import Cost, costs_of
from plumbline.analysis.document_sample import began_on, billed_seconds, sample_of
from plumbline.analysis.prices.book import Basis, Quote, charged, paid_of, share_of
from plumbline.analysis.trial_sample import USABLE, WorkloadKind
from plumbline.declarations import Provider, Trial
from plumbline.declarations.data_places import fetches_from_outside
from plumbline.declarations.economics import Economics
from plumbline.declarations.providers.rates import Purchase
from plumbline.declarations.workloads.faults import BROKE_OFF
from plumbline.metrics import PHASES
from plumbline.results import ResultDocument

Attempt = tuple[str, int]
"""Trial id and attempt."""

_NOT_MEASURED = ("warmup", "cooldown")
_COLD_STARTS = (("server_started", "first_inference_ended"), ("training_launched", "first_step_done"))
_RECOVERED = frozenset({"lost_step_done_again", "training_done"})
"""Events of the end of an interruption; each may happen several times."""


def usage_of(document: ResultDocument, *, retention_s: float | None = None) -> TrialUsage:
    """The usage of one attempt. `retention_s`: how long raw evidence is kept, None for ever. Its share of what a campaign costs once is left open."""
    trial, usable = document.trial, document.validity.status in USABLE
    nodes, measured = trial.workload.nodes, measured_s(document)
    evidence, outside = sum(each.bytes for each in document.evidence), fetches_from_outside(trial.workload, trial.provider)
    return TrialUsage(
        trial_id=trial.trial_id,
        provider=trial.provider.name,
        day=began_on(document) or trial.planned_at.date(),
        usable=usable,
        ended=document.validity.failure_class or document.validity.status,
        held_s=billed_seconds(document),
        measured_s=None if measured is None else measured * nodes,
        evidence_bytes=evidence,
        checkpoint_bytes=document.value("checkpoint_size", "value") or 0.0,
        egress_bytes=evidence if trial.provider.launcher.remote_store is not None and not trial.provider.launcher.hosted else 0,
        data_bytes=nodes * (document.value("data_fetch_bytes", phase="cold_start") or 0.0) if outside else 0.0,
        response_bytes=sum(m.value or 0.0 for m in document.metrics if m.metric == "response_bytes") if _answers_leave(trial) else 0.0,
        retention_s=retention_s,
        gpus=trial.workload.gpus,
        tokens=document.usage,
    )


def _answers_leave(trial: Trial) -> bool:
    return trial.workload.client_apart and trial.provider.launcher.hosted  # else both are in one cluster


def measured_s(document: ResultDocument) -> float | None:
    """Seconds in which the workload's phases ran: from the cold start on, of a training also what an interruption took; warm-up and cool-down
    are left out. None if no phase was seen.

    A simulated trial tells no phases: its whole measurement counts.
    """
    at = {e.name: e.monotonic_s for e in document.timeline if e.clock == "harness" and e.monotonic_s is not None}
    spans = [(at.get(f"{name}_started", at.get(f"{name}_begun")), at.get(f"{name}_ended")) for name in PHASES if name not in _NOT_MEASURED]
    spans += [(at.get(start), at.get(end)) for start, end in _COLD_STARTS]
    known = [(start, end) for start, end in spans if start is not None and end is not None and end > start] + _recoveries(document)
    if not known and document.simulated:
        start, end = at.get("measurement_started"), at.get("measurement_finished")
        known = [(start, end)] if start is not None and end is not None and end > start else []
    return _covered(known) if known else None


def outcome_costs(
    document: ResultDocument,
    provider: Provider,
    on: date | None = None,
    purchase: Purchase = "on_demand",
    economics: Economics | None = None,
) -> tuple[Cost, ...]:
    """Costs of one attempt's outcomes at its measured rates and at the price of its bill, an invoice's too; empty where its
    numbers do not count. `on`: None for the day that it began. `economics`: for interruptions, and what is paid beside the hours; None:
    neither. What is in them: docs/cost.md."""
    use, workload = usage_of(document), document.trial.workload
    if not use.usable:
        return ()
    day, measured, declared = on or use.day, sample_of(document).value, economics or Economics()
    if provider.token_prices:
        charges = token_costs(provider, day, use.tokens, document.value)
        return charges if economics is None else all_in(charges, provider, workload, declared, day, measured, workload.nodes).costs
    price = hour_price(provider, day, purchase)
    if isinstance(price, str):
        quoted = Quote(None, price)
    else:
        paid_as: Purchase = "serverless" if price.basis == "serverless" else purchase
        quoted = Quote(Basis(paid_as, price.unit_price.amount, price.since, price.source), None)
    paid, share = (charged(quoted, part(provider, workload.gpus)) for part in (paid_of, share_of))
    loss = loss_rate(declared, provider.name, workload, purchase)
    hours = costs_of(
        workload.kind, share, measured, paid=paid, held_s=use.held_s, epoch_size=workload.epoch_size, nodes=workload.nodes, loss=loss
    )
    return hours if economics is None else all_in(hours, provider, workload, declared, day, measured, workload.nodes).costs


def _recoveries(document: ResultDocument) -> list[tuple[float, float]]:
    """(start, end) of each interruption of a training, in seconds, from the break to the lost step done again."""
    job = document.trial.workload.job
    breaks = {BROKE_OFF} if job is None or job.fault is None else {BROKE_OFF, job.fault.event}
    recoveries: list[tuple[float, float]] = []
    began: float | None = None
    moments = ((e.monotonic_s, e.name) for e in document.timeline if e.clock == "harness" and e.monotonic_s is not None)
    for seconds, name in sorted(moments):
        if name in breaks and began is None:
            began = seconds
        elif name in _RECOVERED and began is not None:
            recoveries.append((began, seconds))
            began = None
    return recoveries


@dataclass(frozen=True)
class ProviderCost:
    """The cost of a campaign's trials of one kind at one provider: a training run and an inference run are no runs of one size. Of a sum, see
    `sum_costs`, the kind is empty.

    `finished`: trials with a usable attempt; `lost`: attempts that came to nothing.
    """

    provider: str
    kind: WorkloadKind | Literal[""]
    simulated: bool
    bill: Bill
    trials: int
    finished: int
    lost: int

    @property
    def label(self) -> str:
        """Provider and kind as text."""
        return f"{self.provider} · {self.kind}"

    @property
    def per_finished_run(self) -> Money | None:
        """Everything on the bill over the finished runs; None if none finished or nothing could be priced."""
        total = self.bill.total
        return total / self.finished if total is not None and self.finished else None

    @property
    def why_not(self) -> str:
        """Why there is no cost per finished run; empty if there is one."""
        if self.per_finished_run is not None:
            return ""
        return "no run finished" if not self.finished else "; ".join(dict.fromkeys(each.reason for each in self.bill.unknown))


def sum_costs(costs: Sequence[ProviderCost]) -> tuple[ProviderCost, ...]:
    """All providers and kinds together, what is simulated apart."""
    return tuple(
        ProviderCost(
            label,
            "",
            made_up,
            combine_bills(c.bill for c in own),
            *(sum(getattr(c, name) for c in own) for name in ("trials", "finished", "lost")),
        )
        for label, made_up in SUMS
        if (own := [c for c in costs if c.simulated is made_up])
    )


def rejected_usage(use: TrialUsage) -> TrialUsage:
    """The usage of an attempt that the quality checks rejected: all of it is lost."""
    return replace(use, usable=False, ended="rejected by the quality checks")


def _covered(spans: list[tuple[float, float]]) -> float:
    """Seconds that the spans cover; what two of them share counts once."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


@dataclass(frozen=True)
class CampaignBill:
    """One campaign at the prices of `providers`, which name each document's. `rejected`: attempts that the quality checks rejected; they were paid for nothing, like those that
    failed. `retention_s`: how long evidence is kept, None for ever."""

    campaign_id: str
    documents: tuple[ResultDocument, ...]
    providers: Mapping[str, Provider]
    rejected: frozenset[Attempt] = frozenset()
    retention_s: float | None = None

    def bills(self, on: date | None = None, purchase: Purchase = "on_demand") -> dict[str, Bill]:
        """The bill of each trial, all its attempts in it, by trial id. `on`: the day whose prices count; None: of each attempt the day
        that it began."""
        return {trial_id: self._bill(own, on, purchase) for trial_id, own in self._uses.items()}

    def by_provider(self, on: date | None = None, purchase: Purchase = "on_demand") -> tuple[ProviderCost, ...]:
        """Cost by provider and kind, in the order of their names."""
        simulated = {(d.trial.provider.name, d.trial.workload.kind): d.simulated for d in self.documents}
        kinds = {d.trial.trial_id: d.trial.workload.kind for d in self.documents}
        costs = []
        for name, kind in sorted(simulated):
            own = [uses for trial_id, uses in self._uses.items() if (uses[0].provider, kinds[trial_id]) == (name, kind)]
            finished = sum(any(use.usable for use in attempts) for attempts in own)
            lost = sum(not use.usable for attempts in own for use in attempts)
            bill = combine_bills(self._bill(attempts, on, purchase) for attempts in own).condensed()
            costs.append(ProviderCost(name, kind, simulated[name, kind], bill, len(own), finished, lost))
        return tuple(costs)

    def _bill(self, attempts: Sequence[TrialUsage], on: date | None, purchase: Purchase) -> Bill:
        return combine_bills(trial_bill(use, self.providers[use.provider], on or use.day, purchase) for use in attempts)

    @cached_property
    def _uses(self) -> dict[str, list[TrialUsage]]:
        """Every attempt by trial, each trial with its share of what its provider's campaign costs once; its last attempt carries it."""
        uses: dict[str, list[TrialUsage]] = {}
        for document in sorted(self.documents, key=lambda d: (d.trial.trial_id, d.trial.attempt)):
            use = usage_of(document, retention_s=self.retention_s)
            if (document.trial.trial_id, document.trial.attempt) in self.rejected:
                use = rejected_usage(use)
            uses.setdefault(use.trial_id, []).append(replace(use, share=0.0))
        trials = Counter(own[0].provider for own in uses.values())
        for own in uses.values():
            own[-1] = replace(own[-1], share=1 / trials[own[-1].provider])
        return uses
