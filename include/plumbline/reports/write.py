"""Write a campaign's report: one HTML file that needs nothing but itself, and the same in Markdown."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from plumbline.prices import Quote, quote
from plumbline.reports.chart import Chart
from plumbline.reports.charts import charts_of
from plumbline.reports.content import CampaignData
from plumbline.reports.criteria import acceptance_rows
from plumbline.reports.evidence import Evidence, read_evidence
from plumbline.reports.figures import sentence, size, words
from plumbline.reports.numbers import campaign_numbers, epoch_tokens
from plumbline.reports.raw import raw_rows
from plumbline.reports.summary import headline, limits, sentences
from plumbline.reports.tables import card_tables, cost_rows, fact_rows, launch_rows, rank_rows
from plumbline.results.surroundings import surroundings
from plumbline.scorecards import Decision, Scorecard, decide, priced, scorecards


@dataclass(frozen=True)
class Conclusions:
    """What follows from a campaign's numbers at the prices of the day: cards, decisions, quotes by provider."""

    cards: tuple[Scorecard, ...]
    decisions: tuple[Decision, ...]
    quotes: dict[str, Quote]


def conclude(campaign: CampaignData) -> Conclusions:
    """Scorecards and decisions of a campaign; criteria are those that each trial was planned with."""
    day = campaign.written_at.date()
    trials = priced(campaign_numbers(campaign), campaign.providers, day, epoch_tokens=epoch_tokens(campaign), purchase=campaign.purchase)
    specs = [d.trial for d in campaign.documents] or list(campaign.planned)
    cards = scorecards(
        trials,
        acceptance={t.workload.name: t.workload.acceptance for t in specs},
        promised_launches={p.name: p.sla.launch_success for p in campaign.providers.values()},
    )
    # A decision about real money rests on measured numbers alone; where all is simulated it is a rehearsal's.
    measured = [t for t in trials if not _simulated(campaign, t.provider)] or trials
    decidable = {(t.kind, t.workload) for t in measured}
    decisions = []
    for team in campaign.teams.values():
        for kind in ("training", "inference"):
            preference = team.training if kind == "training" else team.inference
            if preference is not None and any((kind, w) in decidable for w in preference.workloads):
                decisions.append(decide(team.name, kind, preference, measured))
    names = sorted({c.provider for c in cards})
    quotes = {n: quote(campaign.providers[n], day, campaign.purchase) for n in names if n in campaign.providers}
    return Conclusions(cards, tuple(decisions), quotes)


def _simulated(campaign: CampaignData, provider: str) -> bool:
    found = campaign.providers.get(provider)
    return found is not None and found.simulated


def write(campaign: CampaignData, into: Path) -> Path:
    """Write `<into>/<campaign>/report.html` and `report.md`; returns the HTML file's path. Both appear whole or not at all."""
    folder = into / campaign.campaign_id
    folder.mkdir(parents=True, exist_ok=True)
    context = _context(campaign)
    environment = _templates()
    _replace(folder / "report.md", environment.get_template("report.md.j2").render(**context))
    from plotly.offline import get_plotlyjs

    page = environment.get_template("report.html.j2").render(
        **context,
        style=Markup((files("plumbline.reports") / "templates" / "report.css").read_text()),
        script=Markup((files("plumbline.reports") / "templates" / "report.js").read_text()),
        plotly=Markup(get_plotlyjs()),
    )
    target = folder / "report.html"
    _replace(target, page)
    return target


def _context(campaign: CampaignData) -> dict[str, Any]:
    found = conclude(campaign)
    names = sorted({c.provider for c in found.cards})
    evidence = read_evidence(campaign) if campaign.store is not None else Evidence()
    tables = card_tables(found.cards)
    facts: dict[str, list[dict[str, Any]]] = {}
    for document in campaign.documents:
        environment = surroundings(document)
        if environment is not None:
            facts.setdefault(document.trial.provider.name, []).append(environment.facts)
    return {
        "campaign": campaign,
        "written": campaign.written_at.strftime("%d %B %Y, %H:%M UTC").lstrip("0"),
        "sentences": sentences(campaign, found.cards, found.decisions),
        "providers": names,
        "tables": {kind: [(t, acceptance_rows(t.cards)) for t in tables if t.kind == kind] for kind in ("training", "inference")},
        "costs": cost_rows(found.cards, names, found.quotes),
        "quotes": found.quotes,
        "decisions": [(d, rank_rows(d)) for d in found.decisions],
        "charts": charts_of(campaign, found.cards, evidence),
        "facts": fact_rows(facts, names),
        "launches": launch_rows(found.cards, campaign.providers),
        "limits": limits(campaign, found.cards, found.quotes, evidence.problems),
        "raw": raw_rows(campaign),
        "simulated": any(d.simulated for d in campaign.documents),
    }


def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("plumbline.reports", "templates"),
        autoescape=lambda name: bool(name) and ".html" in str(name),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "words": words,
        "sentence": sentence,
        "size": size,
        "chart_json": _chart_json,
        "md": _markdown,
        "headline": headline,
    }
    return environment


def _chart_json(chart: Chart) -> Markup:
    """A chart's data for a script element: nothing in it can end the element."""
    text = json.dumps({"data": chart.data, "layout": chart.layout}, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def _markdown(text: object) -> str:
    """Text for a cell of a Markdown table."""
    return str(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _replace(target: Path, text: str) -> None:
    draft = target.with_name(f"{target.name}.{os.getpid()}.part")
    draft.write_text(text, encoding="utf-8")
    draft.replace(target)
