"""All exported tables of a campaign, as data frames, CSV and Parquet. `python -m plumbline.presentation.tables` prints their columns for docs/export-tables.md."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from plumbline.analysis.campaign_data import CampaignData
from plumbline.analysis.conclusions import Conclusions, conclude
from plumbline.analysis.cost.unit_costs import phase_of
from plumbline.analysis.decisions.decision import Decision
from plumbline.analysis.scorecards.comparability import incomparable
from plumbline.analysis.scorecards.references import reference_shares
from plumbline.analysis.scorecards.scorecard import Scorecard
from plumbline.metrics import METRICS
from plumbline.presentation.cost_forecasts import cost_forecasts

if TYPE_CHECKING:
    import pandas as pd


Row = dict[str, Any]
VERDICTS = ("regressed", "improved", "unchanged", "suspected", "insufficient_data")


def _trials(found: Conclusions) -> Iterator[Row]:
    for trial in found.trials:
        own = {"campaign": found.campaign.campaign_id, "trial": trial.trial_id}
        yield {**vars(trial), **own, "reasons": "; ".join(trial.reasons), "held": trial.held_s}


def _metrics(found: Conclusions) -> Iterator[Row]:
    for trial in found.trials:
        own: Row = {name: getattr(trial, name) for name in ("kind", "workload", "version", "provider", "attempt")}
        own |= {"campaign": found.campaign.campaign_id, "trial": trial.trial_id}
        for each in trial.metrics:
            yield {**own, **vars(each), "low": each.ci_low, "high": each.ci_high}


def _findings(found: Conclusions) -> Iterator[Row]:
    for finding in found.campaign.findings:
        yield {**vars(finding), "campaign": finding.campaign_id, "finding": finding.finding_id, "series": finding.series_key}


def _drift(found: Conclusions) -> Iterator[Row]:
    for series in found.campaign.drift:
        counts = {verdict: series.verdicts.get(verdict, 0) for verdict in VERDICTS}
        own = {"campaign": found.campaign.campaign_id, "series": series.series_key, "baseline": " ".join(series.baseline)}
        yield {**vars(series), **counts, **own}


def _card_columns(card: Scorecard, found: Conclusions) -> Row:
    of = {name: getattr(card, name) for name in ("kind", "workload", "version", "provider")}
    return {"campaign": found.campaign.campaign_id, **of}


def _scorecards(found: Conclusions) -> Iterator[Row]:
    for card in found.cards:
        for row in card.rows:
            yield {**_card_columns(card, found), **vars(row), "asked_first": row == card.primary, "trials": " ".join(row.trials)}


def _acceptance(found: Conclusions) -> Iterator[Row]:
    for card in found.cards:
        for judged in card.acceptance:
            yield {**_card_columns(card, found), **vars(judged), "criterion": judged.text, "trials": " ".join(judged.trials)}


def _reliability(found: Conclusions) -> Iterator[Row]:
    for card in found.cards:
        share, launch, refused = card.launch.share, card.launch, card.capacity.refused
        yield {
            **_card_columns(card, found),
            **card.counts,
            "planned": card.planned,
            "attempts": card.attempts,
            "launches": share.n,
            "launches_started": share.successes,
            "launch_low": share.low,
            "launch_high": share.high,
            "launch_promised": launch.promised,
            "launch_verdict": launch.verdict,
            "launches_refused": refused.successes,
        }


def _friction(found: Conclusions) -> Iterator[Row]:
    for card in found.cards:
        friction, lead = card.friction, card.friction.lead_time
        measured = (lead.time, friction.pod_scheduling, friction.image_pull, *(s.time for s in card.capacity.scale))
        nodes = (None, None, None, *(s.nodes for s in card.capacity.scale))
        for each, several in zip(measured, nodes, strict=True):
            own = each is lead.time
            yield {
                **_card_columns(card, found),
                **vars(each),
                "metric": each.metric if several is None else f"{each.metric}_of_{several}_nodes",
                "unit": METRICS[each.metric].unit,
                "promised": lead.promised_s if own else None,
                "verdict": lead.verdict if own else None,
                "trials": " ".join(each.trials),
            }


def _references(found: Conclusions) -> Iterator[Row]:
    specs = [d.trial for d in found.campaign.documents]
    providers, workloads = {s.provider.name: s.provider for s in specs}, {s.workload.name: s.workload for s in specs}
    for card in found.cards:
        if card.provider in providers and card.workload in workloads:
            for share in reference_shares(card, found.campaign.references, providers[card.provider], workloads[card.workload]):
                more = {"reference": share.kind, "differs": "; ".join(share.differs), "trials": " ".join(share.trials)}
                yield {**vars(share), **more, **_card_columns(card, found), "unit": METRICS[share.metric].unit}


def _comparability(found: Conclusions) -> Iterator[Row]:
    for each in incomparable(found.cards):
        yield {**vars(each), "campaign": found.campaign.campaign_id, "providers": " ".join(each.providers)}


def _decision_columns(decision: Decision, found: Conclusions) -> Row:
    return {
        "campaign": found.campaign.campaign_id,
        "team": decision.team,
        "kind": decision.kind,
        "workloads": " ".join(decision.workloads),
    }


def _decisions(found: Conclusions) -> Iterator[Row]:
    for decision in found.decisions:
        for place, ranked in enumerate(decision.ranking, start=1):
            yield {
                **_decision_columns(decision, found),
                **vars(ranked),
                "place": place if ranked.eligible else None,
                "why_not": "; ".join(ranked.why_not),
                "note": decision.note,
                "cannot_tell": decision.cannot_tell,
                "seed": decision.seed,
                "draws": decision.draws,
                "trials": " ".join(ranked.trials),
            }


def _values(found: Conclusions) -> Iterator[Row]:
    for decision in found.decisions:
        for ranked in decision.ranking:
            for i, column in enumerate(decision.columns):
                worth = None if ranked.ratios is None else ranked.ratios[i]
                own = {"provider": ranked.provider, "value": ranked.values[i], "worth": worth}
                yield {**_decision_columns(decision, found), **vars(column), **own}


def _gates(found: Conclusions) -> Iterator[Row]:
    for decision in found.decisions:
        for ranked in decision.ranking:
            for gate in ranked.gates:
                yield {**_decision_columns(decision, found), **vars(gate), "provider": ranked.provider, "gate": gate.text}


def _sensitivity(found: Conclusions) -> Iterator[Row]:
    for decided in found.decided:
        own = _decision_columns(decided.decision, found)
        for swing in decided.weight_swings:
            for end, flip in (("below", swing.below), ("above", swing.above)):
                at, first = (None, None) if flip is None else (flip.weight, flip.first)
                yield {
                    **own,
                    "lever": "weight",
                    "of": swing.metric,
                    "end": end,
                    "now": swing.weight,
                    "at": at,
                    "unit": "ratio",
                    "first": first,
                }
        for price in decided.price_swings:
            for end, moved in (("below", price.falls), ("above", price.rises)):
                at, first = (None, None) if moved is None else (moved.usd_per_hour, moved.first)
                now = price.usd_per_hour
                yield {**own, "lever": "price", "of": price.provider, "end": end, "now": now, "at": at, "unit": "USD/h", "first": first}


def _cheapest(found: Conclusions) -> Iterator[Row]:
    for decided in found.decided:
        for answer in decided.cheapest:
            for setup in answer.setups:
                yield {
                    **_decision_columns(decided.decision, found),
                    **vars(setup),
                    "workload": answer.workload,
                    "metric": answer.metric,
                    "phase": phase_of(answer.metric),
                    "unit": METRICS[answer.metric].unit,
                    "requirements": "; ".join(answer.requirements),
                    "why_not": "; ".join(setup.why_not),
                    "trials": " ".join(setup.trials),
                }


def _bills(found: Conclusions) -> Iterator[Row]:
    whose = {d.trial.trial_id: d.trial for d in found.campaign.documents}
    nothing: Row = dict.fromkeys(
        ("quantity", "quantity_unit", "unit_price", "price_unit", "cost", "currency", "basis", "source", "since", "what", "reason")
    )
    for trial_id, bill in found.bills.items():
        trial = whose[trial_id]
        own: Row = {
            "campaign": trial.campaign_id,
            "provider": trial.provider.name,
            "kind": trial.workload.kind,
            "workload": trial.workload.name,
        }
        own |= {**nothing, "trial": trial_id}
        for line in bill.lines:
            price = line.unit_price
            yield {
                **own,
                "item": line.item,
                "what": line.what,
                "quantity": line.quantity.value,
                "quantity_unit": line.quantity.unit,
                "unit_price": price.amount,
                "price_unit": f"{price.currency}/{price.per}",
                "cost": line.cost.amount,
                "currency": line.cost.currency,
                "basis": line.basis,
                "source": line.source,
                "since": line.since,
            }
        for unknown in bill.unknown:
            yield {**own, "item": unknown.item, "reason": unknown.reason}


def _prices(found: Conclusions) -> Iterator[Row]:
    for name, provider in sorted(found.campaign.providers.items()):
        for price in sorted(provider.price_list, key=lambda p: (p.purchase, p.since)):
            of = {name: getattr(price, name) for name in ("purchase", "price", "since", "until", "source")}
            yield {"provider": name, "unit": "USD/h", **of}


def _scenarios(found: Conclusions) -> Iterator[Row]:
    for o in cost_forecasts(found.campaign, found.trials):
        costs = o.scenarios
        totals = (None, None, None) if costs is None else (costs.best.total, costs.expected.total, costs.worst.total)
        yield {
            "campaign": found.campaign.campaign_id,
            **{name: getattr(o, name) for name in ("kind", "workload", "provider", "purchase", "amount")},
            "outcome": o.what,
            **dict(zip(("best", "expected", "worst"), totals, strict=True)),
            "unit": "USD",
            "price": o.price,
            "rate": o.rate,
            "without": "; ".join(m.what for m in o.unknown),
            "reason": o.reason,
            "trials": " ".join(o.trials),
        }


ROWS: dict[str, Callable[[Conclusions], Iterator[Row]]] = {
    "scorecards": _scorecards,
    "acceptance": _acceptance,
    "reliability": _reliability,
    "friction": _friction,
    "references": _references,
    "comparability": _comparability,
    "decisions": _decisions,
    "decision_values": _values,
    "gates": _gates,
    "sensitivity": _sensitivity,
    "cheapest": _cheapest,
    "bills": _bills,
    "prices": _prices,
    "scenarios": _scenarios,
    "trials": _trials,
    "metrics": _metrics,
    "findings": _findings,
    "drift": _drift,
}


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


ColumnType = Literal["text", "number", "count", "flag", "day"]


@dataclass(frozen=True)
class Column:
    """`unit_in` names the column that holds a number's unit; `unit`: its fixed unit. A number has one of the two."""

    name: str
    holds: ColumnType
    meaning: str
    unit_in: str | None = None
    unit: str | None = None


@dataclass(frozen=True)
class Table:
    """A table and its columns, whose names are a contract."""

    meaning: str
    columns: tuple[Column, ...]
    rows: Callable[[Conclusions], Iterable[Row]]


def _read_tables() -> dict[str, Table]:
    """The tables of `tables.toml`; KeyError for a shared column or rows that do not exist."""
    declared = tomllib.loads(files(__package__).joinpath("tables.toml").read_text(encoding="utf-8"))
    shared = {column["name"]: column for column in declared["shared"]}
    return {
        name: Table(table["meaning"], tuple(Column(**(shared[c] if isinstance(c, str) else c)) for c in table["columns"]), ROWS[name])
        for name, table in declared["tables"].items()
    }


TABLES = _read_tables()
_DTYPES: dict[ColumnType, Any] = {"text": "string", "number": "Float64", "count": "Int64", "flag": "boolean", "day": "date32[pyarrow]"}


def campaign_tables(campaign: CampaignData, found: Conclusions | None = None) -> dict[str, pd.DataFrame]:
    """Every table of the campaign by name; one without rows has its columns all the same. `found`: what was concluded already.

    Numbers are in the unit that the row or the column names, unrounded; what is not known is missing.
    """
    concluded = conclude(campaign) if found is None else found
    simulated = {d.trial.provider.name for d in campaign.documents if d.simulated}
    simulated |= {name for name, provider in campaign.providers.items() if provider.simulated}
    return {name: data_frame(table, _marked(table.rows(concluded), simulated)) for name, table in TABLES.items()}


def _marked(rows: Iterable[Row], simulated: Collection[str]) -> Iterator[Row]:
    """The rows, those of a provider with whether it is one of the simulated."""
    for row in rows:
        if "provider" in row:
            row["simulated"] = row["provider"] in simulated
        yield row


def data_frame(table: Table, rows: Iterable[Row]) -> pd.DataFrame:
    """Rows with the table's columns and types; KeyError for a row that lacks one."""
    import pandas as pd
    import pyarrow as pa

    # Of a row only its cells stay in memory: a campaign of a large fleet has hundreds of thousands of numbers.
    cells = list(zip(*map(itemgetter(*(c.name for c in table.columns)), rows), strict=True)) or [()] * len(table.columns)
    # From a list of texts, pandas makes the same array in five times as long.
    arrays = (pa.array(own, pa.large_string()) if c.holds == "text" else own for c, own in zip(table.columns, cells, strict=True))
    return pd.DataFrame({c.name: pd.array(own, dtype=_DTYPES[c.holds]) for c, own in zip(table.columns, arrays, strict=True)})


def describe_tables(names: Iterable[str]) -> str:
    """What these tables hold, column by column, in Markdown."""
    lines: list[str] = []
    for name in names:
        table = TABLES[name]
        rows = (f"| `{c.name}` | {c.holds} | {_unit(c)} | {c.meaning} |" for c in table.columns)
        lines += [f"## {name}", "", f"{table.meaning[:1].upper()}{table.meaning[1:]}.", ""]
        lines += ["| column | holds | unit | what it is |", "|---|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _unit(column: Column) -> str:
    return f"in `{column.unit_in}`" if column.unit_in else column.unit or ""


TableFormat = Literal["csv", "parquet"]
TABLE_FORMATS: tuple[TableFormat, ...] = ("csv", "parquet")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the beginning of a formula, whatever the file says."""


def write_tables(made: Mapping[str, pd.DataFrame], folder: Path, forms: Sequence[TableFormat], written: datetime) -> tuple[Path, ...]:
    """Write each table as `<folder>/<name>.<form>` and what they hold as `README.md`; returns the tables' paths.

    Each file appears whole or not at all, and replaces the one of an earlier export; one of a form that is not asked for now is removed, for
    nothing would say that its prices are of another day. `written`: whose day's prices are in them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for stale in (folder / f"{name}.{form}" for name in made for form in TABLE_FORMATS if form not in forms):
        stale.unlink(missing_ok=True)
    paths = []
    for form in forms:
        for name, table in made.items():
            paths.append(folder / f"{name}.{form}")
            _replace(paths[-1], encode_table(table, form))
    note = f"# Tables\n\nWritten {written:%Y-%m-%d %H:%M} UTC ({', '.join(forms)}), at the prices of that day."
    note += " An empty cell is a number that is not known, never a zero.\n\n"
    _replace(folder / "README.md", f"{note}{describe_tables(made)}".encode())
    return tuple(paths)


def encode_table(table: pd.DataFrame, form: TableFormat) -> bytes:
    """The table as the bytes of a file; in CSV no text can begin a formula, a quote stands before it."""
    if form == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\r\n")
        writer.writerow(table.columns)
        writer.writerows(zip(*(_cells(table[name]) for name in table.columns), strict=True))
        return text.getvalue().encode()
    file = io.BytesIO()
    table.to_parquet(file, index=False)
    return file.getvalue()


def _cells(column: pd.Series[Any]) -> Sequence[Any]:
    """The column as DataFrame.to_csv writes it, which takes nearly twice as long for hundreds of thousands of rows; with a quote before what a
    spreadsheet would run."""
    if column.dtype != "string":
        return list(column.astype(object).where(column.notna(), None))
    # That many rows have a few hundred texts.
    codes, texts = column.factorize()
    known = [f"'{text}" if text.startswith(_FORMULA) else text for text in texts]
    return [known[code] if code >= 0 else None for code in codes.tolist()]


def _replace(target: Path, content: bytes) -> None:
    draft = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        draft.write_bytes(content)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.stdout.write(describe_tables(TABLES))
