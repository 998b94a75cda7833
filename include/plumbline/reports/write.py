"""Write a campaign's report: one HTML file that needs nothing but itself, and the same in Markdown.

Each section is a pair of templates in `templates/sections/`; what they say is chosen and formatted in Python, in `_context`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from plumbline.reports.charts import charts_of
from plumbline.reports.charts_bill import bill_chart
from plumbline.reports.conclusions import Conclusions, conclude
from plumbline.reports.content import CampaignData
from plumbline.reports.criteria import acceptance_rows
from plumbline.reports.evidence import Evidence, read_evidence
from plumbline.reports.raw import raw_rows
from plumbline.reports.scorecard_rows import campaign_rows
from plumbline.reports.sections.costs import bill_tables
from plumbline.reports.sections.decisions import decision_sections
from plumbline.reports.sections.outlooks import outlooks
from plumbline.reports.sections.precisions import precisions
from plumbline.reports.summary import limits, sentences
from plumbline.reports.tables import card_tables, cost_rows, fact_rows, launch_rows
from plumbline.reports.templating import templates
from plumbline.results.surroundings import surroundings

if TYPE_CHECKING:
    from plumbline.reports.export.files import Form


def write(campaign: CampaignData, into: Path, forms: Sequence[Form] = ()) -> Path:
    """Write `<into>/<campaign>/report.html` and `report.md`; returns the HTML file's path. Each file appears whole or not at all.

    `forms`: in which every table is written as well, into `tables/` beside the report.
    """
    folder = into / campaign.campaign_id
    folder.mkdir(parents=True, exist_ok=True)
    found = conclude(campaign)
    context = _context(campaign, found)
    environment = templates()
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
    if forms:
        from plumbline.reports.export.files import write_tables
        from plumbline.reports.export.tables import tables

        write_tables(tables(campaign, found), folder / "tables", forms, campaign.written_at)
    return target


def _context(campaign: CampaignData, found: Conclusions) -> dict[str, Any]:
    names = sorted({c.provider for c in found.cards})
    evidence = read_evidence(campaign) if campaign.store is not None else Evidence()
    cards = card_tables(found.cards)
    rows = campaign_rows(campaign, found.cards)
    ahead, bill = outlooks(campaign, found.trials), bill_chart(found.provider_costs)
    finer = precisions(campaign, found.trials)
    facts: dict[str, list[dict[str, Any]]] = {}
    for document in campaign.documents:
        environment = surroundings(document)
        if environment is not None:
            facts.setdefault(document.trial.provider.name, []).append(environment.facts)
    return {
        "campaign": campaign,
        "written": campaign.written_at.strftime("%d %B %Y, %H:%M UTC").lstrip("0"),
        "sentences": sentences(found),
        "providers": names,
        "tables": {
            kind: [(t, acceptance_rows(t.cards), r) for t, r in zip(cards, rows, strict=True) if t.kind == kind]
            for kind in ("training", "inference")
        },
        "costs": cost_rows(found.cards, names, found.quotes),
        "quotes": found.quotes,
        "bills": bill_tables(found.provider_costs),
        "decisions": decision_sections(found.decided),
        "apart": [reason for each in rows for reason in each.apart],
        "outlooks": ahead,
        "precisions": finer,
        "charts": (*charts_of(campaign, found.cards, evidence), *([bill] if bill else []), *ahead.seen, *ahead.folded, *finer.charts),
        "facts": fact_rows(facts, names),
        "launches": launch_rows(found.cards, campaign.providers),
        "limits": limits(campaign, found.cards, found.quotes, evidence.problems),
        "raw": raw_rows(campaign),
        "simulated": any(d.simulated for d in campaign.documents),
    }


def _replace(target: Path, text: str) -> None:
    draft = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
