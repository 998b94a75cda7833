"""Write a campaign's report: a self-contained HTML file whose first page is a cover, and a short one in Markdown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from plumbline.analysis.campaign_data import CampaignData
from plumbline.analysis.conclusions import Conclusions, conclude
from plumbline.analysis.cost.campaign_bill import sum_costs
from plumbline.analysis.decisions.decision import Decision
from plumbline.analysis.decisions.winner_change import StoredChange, WinnerChange
from plumbline.declarations.promises.judging.row import PromiseRow
from plumbline.metrics.formatting import capitalize_first, format_bytes, format_monthly, format_name, join_words
from plumbline.presentation.acceptances import OpenNodes
from plumbline.presentation.availability import availability_view
from plumbline.presentation.card_tables import TableRow, card_tables
from plumbline.presentation.chart_evidence import ChartEvidence, read_evidence
from plumbline.presentation.charts.chart import Chart
from plumbline.presentation.charts.costs import bill_chart, precision_chart
from plumbline.presentation.charts.decisions import winner_change_chart
from plumbline.presentation.charts.fleet import cover_charts
from plumbline.presentation.charts.scorecards import campaign_charts
from plumbline.presentation.charts.static import svg
from plumbline.presentation.cost_forecasts import ForecastSection, campaign_levers, forecast_section
from plumbline.presentation.costs import cost_rows, finished_runs, format_amount, share_note, unknown_reasons
from plumbline.presentation.decisions import DecisionTables, change_title, decision_tables
from plumbline.presentation.html.excerpt import MOST, cut_costs, dearest, leading_providers, table_excerpts
from plumbline.presentation.imported_runs import imported_runs
from plumbline.presentation.limits import comparison_limits
from plumbline.presentation.places import place_tables
from plumbline.presentation.scorecard_rows import campaign_rows, criterion_rows, fact_rows, launch_rows
from plumbline.presentation.tables import TableFormat, campaign_tables, write_tables
from plumbline.presentation.trials import attempt_rows
from plumbline.presentation.verdicts import campaign_verdict
from plumbline.results.launch_record import effective_environment
from plumbline.whole_file import write_whole
from plumbline.words import precision
from plumbline.words.comparisons import comparison_line
from plumbline.words.decisions import note_text
from plumbline.words.drift import state_text
from plumbline.words.winner_change import why_sentence


def write_report(campaign: CampaignData, into: Path, forms: Sequence[TableFormat] = ()) -> Path:
    """Write `<into>/<campaign>/report.html` and `report.md`; returns the HTML file's path. Each file appears whole or not at all.

    `forms`: in which every table is written as well, into `tables/` beside the report. A report that lists a part of its providers writes CSV
    in any case, and `raw.html` with all attempts.
    """
    return write_concluded(conclude(campaign), into, forms)


def write_concluded(
    conclusions: Conclusions,
    into: Path,
    forms: Sequence[TableFormat] = (),
    broken: Mapping[str, Sequence[PromiseRow]] | None = None,
    nodes: Mapping[str, OpenNodes] | None = None,
) -> Path:
    """`write_report` of what was concluded already. `broken`: promises by provider; `nodes`: by first choice, those that were not accepted."""
    campaign = conclusions.campaign
    folder = into / campaign.campaign_id
    folder.mkdir(parents=True, exist_ok=True)
    context = report_context(conclusions, broken, nodes)
    forms = tuple(forms) or (("csv",) if context["excerpt"] else ())
    has_raw_file = len(context["raw"]) > MOST_ATTEMPTS
    context["beside"] = [*([("raw.html", "raw data")] if has_raw_file else []), *([("tables/", "tables")] if forms else [])]
    environment = report_templates()
    style = {name: Markup((files("plumbline.presentation.html") / "templates" / file).read_text()) for name, file in _ASSETS.items()}
    write_whole(folder / "report.md", environment.get_template("report.md.j2").render(**context))
    if has_raw_file:
        write_whole(folder / "raw.html", environment.get_template("raw.html.j2").render(**context, **style))
    target = folder / "report.html"
    page = environment.get_template("report.html.j2").render(**context, **style)
    write_whole(target, share_styles(re.sub(r" {2,}", " ", re.sub(r"\n\s+", "\n", page))))  # a third of the file is indentation
    if forms:
        write_tables(campaign_tables(campaign, conclusions), folder / "tables", forms, campaign.written_at)
    return target


def share_styles(page: str) -> str:
    """The page with the styles of its drawings as classes at the end of its style sheet, and with short ids in them: a few dozen styles are on
    thousands of elements."""
    styles: dict[str, str] = {}
    ids: dict[str, str] = {}

    def rewrite_drawing(drawing: re.Match[str]) -> str:
        text = re.sub(r'(?<= id=")\w+(?=")|(?<=#)\w+(?=["\)])', lambda name: ids.setdefault(name[0], f"i{len(ids)}"), drawing[0])
        return re.sub(r'style="([^"]*)"', lambda style: f'class="{styles.setdefault(style[1], f"d{len(styles)}")}"', text)

    page = re.sub(r'<svg class="drawn".*?</svg>', rewrite_drawing, page, flags=re.S)
    rules = "".join(f".drawn .{name}{{{style}}}" for style, name in styles.items())
    return page.replace("</style>", f"{rules}</style>", 1)


_ASSETS = {"style": "report.css", "cover_style": "cover.css", "script": "report.js"}
MOST_ATTEMPTS = 100
"""Attempts that the report itself lists; more go to a file of their own."""


def report_context(
    conclusions: Conclusions, broken: Mapping[str, Sequence[PromiseRow]] | None = None, nodes: Mapping[str, OpenNodes] | None = None
) -> dict[str, Any]:
    """Everything that the templates show."""
    campaign = conclusions.campaign
    names = sorted({c.provider for c in conclusions.cards})
    excerpt = len(names) > MOST
    listed_conclusions = replace(conclusions, decided=tuple(d.leading(MOST) for d in conclusions.decided)) if excerpt else conclusions
    # Distributions of fifty providers hide each other: a large report leaves them to the pages.
    evidence = read_evidence(campaign) if campaign.store is not None and not excerpt else ChartEvidence()
    cards = table_excerpts(conclusions, card_tables(conclusions.cards), rows := campaign_rows(campaign, conclusions.cards))
    bills = dearest(conclusions.provider_costs)
    bill = bill_chart(bills)
    forecasts = ForecastSection(reason=_TOO_MANY_PROVIDERS) if excerpt else forecast_section(campaign, conclusions.trials)
    levers = () if excerpt else campaign_levers(campaign, conclusions.trials)
    precision_charts = (chart for lever in levers if (chart := precision_chart(lever)) is not None)
    charts = () if excerpt else campaign_charts(campaign, conclusions.cards, evidence)
    listed_providers = leading_providers(listed_conclusions, names)
    raw, launches, drift = attempt_rows(campaign), launch_rows(conclusions.cards), campaign.drift
    reasons = [r for r in raw if r.reasons]
    lost = tuple(r for r in launches if any(r.counts[1:]))
    if excerpt:
        drift = tuple(d for d in drift if d.state.state in ("drifted", "suspected", "moved"))
    facts: dict[str, list[dict[str, Any]]] = {}
    for document in campaign.documents:
        environment = effective_environment(document)
        if environment is not None:
            facts.setdefault(document.trial.provider.name, []).append(environment.facts)
    return {
        "campaign": campaign,
        "written": campaign.written_at.strftime("%d %B %Y, %H:%M UTC").lstrip("0"),
        "page_one": (page_one := campaign_verdict(conclusions)),
        "cover_charts": cover_charts(conclusions),
        "excerpt": excerpt,
        "most": MOST,
        "most_attempts": MOST_ATTEMPTS,
        "providers": names,
        "provider_count": len(names),
        "listed_providers": listed_providers,
        "tables": {
            kind: [(c.table, criterion_rows(c.table.cards), c.rows, c.hidden) for c in cards if c.table.kind == kind]
            for kind in ("training", "inference")
        },
        "imported": imported_runs(campaign.imported, conclusions.cards, campaign.workloads),
        "costs": cut_costs(cost_rows(conclusions.cards, names, conclusions.quotes), names, listed_providers),
        "quotes": conclusions.quotes,
        "bills": bills,
        "bill_sums": sum_costs(conclusions.provider_costs) if len(conclusions.provider_costs) > 1 else (),
        "hidden_bills": len(conclusions.provider_costs) - len(bills),
        "decisions": [
            DecisionSection(
                **vars(decision_tables(d, n, MOST if excerpt else None)),
                nodes=(nodes or {}).get(d.decision.first_name or ""),
                hidden=len(d.decision.ranking) - len(n.decision.ranking),
                change=(stored_change := conclusions.winner_changes.get(d.decision.choice)),
                waterfall=None if stored_change is None else _waterfall(d.decision, stored_change.change),
            )
            for d, n in zip(conclusions.decided, listed_conclusions.decided, strict=True)
        ],
        "apart": [reason for row in rows for reason in row.apart],
        "outlooks": forecasts,
        "levers": levers,
        "precision": precision,
        "charts": (*charts, *([bill] if bill else []), *forecasts.visible, *forecasts.folded, *precision_charts),
        "facts": fact_rows(facts, names if not excerpt else listed_providers),
        "drift_rows": drift,
        "state_text": state_text,
        "comparison_line": comparison_line,
        "note_text": note_text,
        "change_title": change_title,
        "why_sentence": why_sentence,
        "drift_summary": ", ".join(f"{n} {state}" for state, n in page_one.series.items()),
        "launches": lost[: MOST if excerpt else None],
        "launches_valid": () if excerpt else tuple(r for r in launches if r not in lost),
        "hidden_launches": len(launches) - len(lost[:MOST]) if excerpt else 0,
        "watched": [(name, availability_view(w)) for name, record in campaign.service.items() for w in record.watches][
            : MOST if excerpt else None
        ],
        "broken": [(name, row) for name, rows in (broken or {}).items() for row in rows],
        "reasons": reasons[: MOST if excerpt else None],
        "hidden_reasons": max(0, len(reasons) - MOST) if excerpt else 0,
        "places": () if excerpt else place_tables(conclusions.places),
        "limits": comparison_limits(campaign, conclusions.cards, conclusions.quotes, evidence.problems),
        "raw": raw,
    }


_TOO_MANY_PROVIDERS = f"Cost forecasts cover up to {MOST} providers; `plumbline cost` shows one provider's."


@dataclass(frozen=True)
class DecisionSection(DecisionTables):
    """`nodes`: of the first choice, those that were not accepted. `hidden`: providers of the ranking that are not listed. `change`: the newest one of the first choice; `waterfall`: None where its
    lead is not known."""

    nodes: OpenNodes | None = None
    hidden: int = 0
    change: StoredChange | None = None
    waterfall: Chart | None = None


def _waterfall(decision: Decision, change: WinnerChange) -> Chart | None:
    chart = winner_change_chart(change)
    # Ids in a drawing come from its name: those of several choices must differ.
    name = "-".join(("winner-change", decision.team, decision.kind, *decision.workloads))
    return None if chart is None else replace(chart, name=name, wide=False)


@cache
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
        "monthly": format_monthly,
        "sentence": capitalize_first,
        "listed": join_words,
        "size": format_bytes,
        "svg": lambda chart: Markup(svg(chart)),
        "md": escape_markdown,
        "amount": format_amount,
        "finished_runs": finished_runs,
        "share_note": share_note,
        "unknown_reasons": unknown_reasons,
        "usual_title": usual_title,
    }
    return environment


def usual_title(rows: Sequence[TableRow]) -> str:
    """The title of most cells of a group of rows, which stands once at the group; empty without a cell."""
    counts = Counter(cell.title for row in rows for cell in row.cells)
    return max(counts, key=lambda title: counts[title], default="")


def escape_markdown(text: object) -> str:
    """Text for a cell of a Markdown table."""
    return str(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
