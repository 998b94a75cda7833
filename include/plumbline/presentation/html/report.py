"""Write a campaign's report: one self-contained HTML file, and the same in Markdown."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from plumbline.analysis.campaign_data import CampaignData
from plumbline.analysis.conclusions import Conclusions, conclude
from plumbline.metrics.formatting import capitalize_first, format_bytes, format_name
from plumbline.presentation.chart_evidence import ChartEvidence, read_evidence
from plumbline.presentation.charts.chart import Chart
from plumbline.presentation.charts.costs import bill_chart
from plumbline.presentation.charts.scorecards import campaign_charts
from plumbline.presentation.cost_forecasts import forecast_section, precision_section
from plumbline.presentation.costs import bill_tables, cost_rows
from plumbline.presentation.decisions import decision_tables
from plumbline.presentation.imported_runs import imported_runs
from plumbline.presentation.scorecard_rows import acceptance_rows, campaign_rows, card_tables, fact_rows, launch_rows
from plumbline.presentation.summary import comparison_limits, headline, summary_items
from plumbline.presentation.tables.export import TableFormat, campaign_tables, write_tables
from plumbline.presentation.trials import attempt_rows
from plumbline.results.launch_record import effective_environment


def write_report(campaign: CampaignData, into: Path, forms: Sequence[TableFormat] = ()) -> Path:
    """Write `<into>/<campaign>/report.html` and `report.md`; returns the HTML file's path. Each file appears whole or not at all.

    `forms`: in which every table is written as well, into `tables/` beside the report.
    """
    folder = into / campaign.campaign_id
    folder.mkdir(parents=True, exist_ok=True)
    found = conclude(campaign)
    context = _context(campaign, found)
    environment = report_templates()
    _replace(folder / "report.md", environment.get_template("report.md.j2").render(**context))
    from plotly.offline import get_plotlyjs

    page = environment.get_template("report.html.j2").render(
        **context,
        style=Markup((files("plumbline.presentation.html") / "templates" / "report.css").read_text()),
        script=Markup((files("plumbline.presentation.html") / "templates" / "report.js").read_text()),
        plotly=Markup(get_plotlyjs()),
    )
    target = folder / "report.html"
    _replace(target, page)
    if forms:
        write_tables(campaign_tables(campaign, found), folder / "tables", forms, campaign.written_at)
    return target


def _context(campaign: CampaignData, found: Conclusions) -> dict[str, Any]:
    names = sorted({c.provider for c in found.cards})
    evidence = read_evidence(campaign) if campaign.store is not None else ChartEvidence()
    cards = card_tables(found.cards)
    rows = campaign_rows(campaign, found.cards)
    ahead, bill = forecast_section(campaign, found.trials), bill_chart(found.provider_costs)
    finer = precision_section(campaign, found.trials)
    facts: dict[str, list[dict[str, Any]]] = {}
    for document in campaign.documents:
        environment = effective_environment(document)
        if environment is not None:
            facts.setdefault(document.trial.provider.name, []).append(environment.facts)
    return {
        "campaign": campaign,
        "written": campaign.written_at.strftime("%d %B %Y, %H:%M UTC").lstrip("0"),
        "sentences": summary_items(found),
        "providers": names,
        "tables": {
            kind: [(t, acceptance_rows(t.cards), r) for t, r in zip(cards, rows, strict=True) if t.kind == kind]
            for kind in ("training", "inference")
        },
        "imported": imported_runs(campaign.imported, found.cards, campaign.workloads),
        "costs": cost_rows(found.cards, names, found.quotes),
        "quotes": found.quotes,
        "bills": bill_tables(found.provider_costs),
        "decisions": [decision_tables(d) for d in found.decided],
        "apart": [reason for each in rows for reason in each.apart],
        "outlooks": ahead,
        "precisions": finer,
        "charts": (*campaign_charts(campaign, found.cards, evidence), *([bill] if bill else []), *ahead.seen, *ahead.folded, *finer.charts),
        "facts": fact_rows(facts, names),
        "launches": launch_rows(found.cards),
        "limits": comparison_limits(campaign, found.cards, found.quotes, evidence.problems),
        "raw": attempt_rows(campaign),
        "simulated": any(d.simulated for d in campaign.documents),
    }


def _replace(target: Path, text: str) -> None:
    draft = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def report_templates() -> Environment:
    """HTML is escaped by itself, Markdown by the filter `md`; a name that is not there is an error."""
    environment = Environment(
        loader=PackageLoader("plumbline.presentation.html", "templates"),
        autoescape=lambda name: bool(name) and ".html" in str(name),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "words": format_name,
        "sentence": capitalize_first,
        "size": format_bytes,
        "chart_json": chart_json,
        "md": escape_markdown,
        "headline": headline,
    }
    return environment


def chart_json(chart: Chart) -> Markup:
    """A chart's data for a script element: nothing in it can end the element."""
    text = json.dumps({"data": chart.data, "layout": chart.layout}, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def escape_markdown(text: object) -> str:
    """Text for a cell of a Markdown table."""
    return str(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
