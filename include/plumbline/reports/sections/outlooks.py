"""What an outcome will cost, given what is declared of its use: best, expected and worst; spot; one's own against a hosted model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date

from plumbline.declarations import AnyWorkload
from plumbline.declarations.economics import Economics
from plumbline.reports.chart import Chart
from plumbline.reports.charts_cost import drawn
from plumbline.reports.content import CampaignData
from plumbline.reports.figures import percent, scale, sentence, words
from plumbline.reports.outlook import Outlook, outlook
from plumbline.reports.outlook_hosted import HostedOutlook, hosted_outlook
from plumbline.reports.outlook_spot import SpotOutlook, spot_outlook
from plumbline.scorecards import TrialNumbers


@dataclass(frozen=True)
class RangeRow:
    """One provider's cost of one workload's outcome, USD. Where there is none, en dashes and why. `missing`: names of what it is without."""

    provider: str
    workload: str
    outcome: str
    best: str
    expected: str
    worst: str
    why_not: str
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Outlooks:
    """`ranges`: by workload and provider. `undeclared`: what is missing of any of them, and what that does. `sentences`: spot and
    break-even, or why they cannot be told. `seen`, `folded`: charts.

    `reason` says why nothing is reckoned, and is empty where something is.
    """

    ranges: tuple[RangeRow, ...] = ()
    undeclared: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()
    seen: tuple[Chart, ...] = ()
    folded: tuple[Chart, ...] = ()
    reason: str = ""


def outlooks(campaign: CampaignData, trials: Sequence[TrialNumbers]) -> Outlooks:
    """Everything that the declared economics allow for a campaign, at the prices of the day on which the report is written."""
    if campaign.economics == Economics():
        return Outlooks(reason="Nothing is declared of use, volume or hosted models (economics.yaml), so no scenario is reckoned.")
    day = campaign.written_at.date()
    pairs = _pairs(campaign, trials)
    if not pairs:
        return Outlooks(reason="No usable trial, so no scenario is reckoned.")
    costs, spots, hosted = cost_outlooks(campaign, trials), [], []
    for provider, workload in pairs:
        place, economics = campaign.providers[provider], campaign.economics
        if workload.kind == "training":
            spots.append(spot_outlook(place, workload, trials, economics, day))
        elif economics.hosted_for(workload.name):
            hosted.append(hosted_outlook(place, workload, trials, economics, day, campaign.purchase))
    charts = drawn(costs, spots, hosted)
    seen = [c for c in charts if c.name.endswith("-scenarios")]
    return Outlooks(
        ranges=tuple(_range(o) for o in costs),
        undeclared=tuple(dict.fromkeys(sentence(m.reason) for o in costs for m in o.unknown)),
        sentences=(*(_spot(s, day) for s in spots), *(line for h in hosted for line in _hosted(h))),
        seen=tuple(replace(c, section="outlook") for c in seen),
        folded=tuple(replace(c, section="outlook-more") for c in charts if c not in seen),
    )


def cost_outlooks(campaign: CampaignData, trials: Sequence[TrialNumbers]) -> tuple[Outlook, ...]:
    """What each workload's outcome costs on each provider that gave a usable trial; empty where nothing is declared."""
    if campaign.economics == Economics():
        return ()
    on, economics = campaign.written_at.date(), campaign.economics
    return tuple(outlook(campaign.providers[p], w, trials, economics, on, campaign.purchase) for p, w in _pairs(campaign, trials))


def _pairs(campaign: CampaignData, trials: Iterable[TrialNumbers]) -> list[tuple[str, AnyWorkload]]:
    """Every provider and workload with a usable trial, training first."""
    specs = {d.trial.workload.name: d.trial.workload for d in campaign.documents}
    found = {(t.kind != "training", t.workload, t.provider) for t in trials if t.usable and t.provider in campaign.providers}
    return [(provider, specs[workload]) for _, workload, provider in sorted(found)]


def _range(o: Outlook) -> RangeRow:
    found = o.scenarios
    if found is None:
        return RangeRow(o.provider, o.workload, o.outcome, "–", "–", "–", o.reason or "", ())
    shown = scale("USD", [found.best.total, found.expected.total, found.worst.total])
    best, expected, worst = (shown.text(parts.total) for parts in (found.best, found.expected, found.worst))
    return RangeRow(o.provider, o.workload, o.outcome, best, expected, worst, "", tuple(words(m.what) for m in o.unknown))


def _spot(s: SpotOutlook, on: date) -> str:
    if s.cost is None:
        return f"Spot, {s.workload} on {s.provider}: {s.reason}."
    shown = scale("USD", [s.cost.on_demand, s.cost.spot])
    saved = f"{percent(abs(s.cost.saving))} {'less' if s.cost.saving >= 0 else 'more'} than"
    return (
        f"Spot, {s.workload} on {s.provider}: a finished run is expected to cost {shown.text(s.cost.spot)}, {saved} {shown.text(s.cost.on_demand)} "
        f"on demand, at {s.per_hour:.3g} interruptions an hour. {sentence(s.cost.why)}."
    )


def _hosted(h: HostedOutlook) -> list[str]:
    where = f"{h.workload} on {h.provider}"
    if h.own is None:
        return [f"One's own or hosted, {where}: {h.reason}."]
    said = []
    for against in h.against:
        told = [even.sentence for even in (against.volume, against.utilisation) if even is not None] or [against.reason or ""]
        said.append(f"{where} against {against.hosted.name}: {'; '.join(told)}.")
    return said
