"""All exported tables of a campaign, as data frames, CSV and Parquet. `python -m plumbline.presentation.tables` prints their columns for docs/export-tables.md."""

from __future__ import annotations

import csv
import io
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
from plumbline.analysis.cost.bill import Line
from plumbline.analysis.cost.unit_costs import phase_of
from plumbline.analysis.decisions.decision import Decision
from plumbline.analysis.decisions.sensitivity import PriceFlip, WeightFlip
from plumbline.analysis.drift.comparison import VERDICTS
from plumbline.analysis.scorecards.comparability import incomparable
from plumbline.analysis.scorecards.references import reference_shares
from plumbline.analysis.scorecards.scorecard import Scorecard
from plumbline.metrics import METRICS
from plumbline.presentation.cost_forecasts import cost_forecasts
from plumbline.results import bounded_parquet
from plumbline.whole_file import write_whole
from plumbline.words.costs import rate_text, reason_text
from plumbline.words.criteria import verdict_data
from plumbline.words.decisions import note_text, setup_texts, why_not_texts

if TYPE_CHECKING:
    import pandas as pd


Row = dict[str, Any]
_JOINED = {
    **dict.fromkeys(("trials", "providers", "workloads", "baseline"), " "),
    **dict.fromkeys(("reasons", "why_not", "requirements", "differs"), "; "),
}
"""Columns of several texts, and what separates those."""


def _trials(conclusions: Conclusions) -> Iterator[Row]:
    for trial in conclusions.trials:
        yield {**vars(trial), "trial": trial.trial_id, "held": trial.held_s}


def _metrics(conclusions: Conclusions) -> Iterator[Row]:
    for trial in conclusions.trials:
        trial_columns: Row = {name: getattr(trial, name) for name in ("kind", "workload", "version", "provider", "attempt")}
        for metric in trial.metrics:
            yield {**trial_columns, **vars(metric), "trial": trial.trial_id, "low": metric.ci_low, "high": metric.ci_high}


def _findings(conclusions: Conclusions) -> Iterator[Row]:
    for finding in conclusions.campaign.findings:
        yield {**vars(finding), "campaign": finding.campaign_id, "finding": finding.finding_id, "series": finding.series_key}


def _drift(conclusions: Conclusions) -> Iterator[Row]:
    for series in conclusions.campaign.drift:
        counts: Row = {verdict: series.verdicts.get(verdict, 0) for verdict in VERDICTS}
        yield {**vars(series), **counts, "series": series.series_key, "state": series.state.state}


def _card_columns(card: Scorecard) -> Row:
    return {name: getattr(card, name) for name in ("kind", "workload", "version", "provider")}


def _scorecards(conclusions: Conclusions) -> Iterator[Row]:
    for card in conclusions.cards:
        for row in card.rows:
            yield {**_card_columns(card), **vars(row), "asked_first": row == card.primary}


def _acceptance(conclusions: Conclusions) -> Iterator[Row]:
    for card in conclusions.cards:
        for verdict in card.acceptance:
            yield {**_card_columns(card), **verdict_data(verdict), "criterion": verdict.declared, "judged_as": verdict.text}


def _reliability(conclusions: Conclusions) -> Iterator[Row]:
    for card in conclusions.cards:
        share, launch, refused = card.launch.share, card.launch, card.capacity.refused
        yield {
            **_card_columns(card),
            **card.counts,
            "planned": card.planned,
            "attempts": card.attempts,
            "launches": share.n,
            "launches_started": share.successes,
            "launch_low": share.low,
            "launch_high": share.high,
            "launch_promised": launch.promised,
            "launch_verdict": launch.verdict,
            "launches_unproven": launch.unproven,
            "launches_refused": refused.successes,
        }


def _friction(conclusions: Conclusions) -> Iterator[Row]:
    for card in conclusions.cards:
        friction, lead = card.friction, card.friction.lead_time
        measured = (lead.time, friction.pod_scheduling, friction.image_pull, *(s.time for s in (*card.capacity.gang, *card.capacity.scale)))
        node_counts = (*[None] * (3 + len(card.capacity.gang)), *(s.nodes for s in card.capacity.scale))
        for pooled, node_count in zip(measured, node_counts, strict=True):
            is_lead_time = pooled is lead.time
            yield {
                **_card_columns(card),
                **vars(pooled),
                "metric": pooled.metric if node_count is None else f"{pooled.metric}_of_{node_count}_nodes",
                "unit": METRICS[pooled.metric].unit,
                "promised": lead.promised_s if is_lead_time else None,
                "verdict": lead.kept.verdict if is_lead_time else None,
            }


def _references(conclusions: Conclusions) -> Iterator[Row]:
    specs = [d.trial for d in conclusions.campaign.documents]
    providers, workloads = {s.provider.name: s.provider for s in specs}, {s.workload.name: s.workload for s in specs}
    for card in conclusions.cards:
        if card.provider in providers and card.workload in workloads:
            for share in reference_shares(card, conclusions.campaign.references, providers[card.provider], workloads[card.workload]):
                yield {**vars(share), "reference": share.kind, **_card_columns(card), "unit": METRICS[share.metric].unit}


def _comparability(conclusions: Conclusions) -> Iterator[Row]:
    yield from (dict(vars(difference)) for difference in incomparable(conclusions.cards))


def _decision_columns(decision: Decision) -> Row:
    return {name: getattr(decision, name) for name in ("team", "kind", "workloads")}


def _decisions(conclusions: Conclusions) -> Iterator[Row]:
    for decision in conclusions.decisions:
        for place, ranked in enumerate(decision.ranking, start=1):
            yield {
                **_decision_columns(decision),
                **vars(ranked),
                "why_not": why_not_texts(ranked),
                "place": place if ranked.eligible else None,
                "note": note_text(decision.note),
                "cannot_tell": decision.cannot_tell,
                "seed": decision.seed,
                "draws": decision.draws,
            }


def _values(conclusions: Conclusions) -> Iterator[Row]:
    for decision in conclusions.decisions:
        for ranked in decision.ranking:
            for i, column in enumerate(decision.columns):
                worth = None if ranked.ratios is None else ranked.ratios[i]
                cells = {"provider": ranked.provider, "value": ranked.values[i], "worth": worth}
                yield {**_decision_columns(decision), **vars(column), **cells}


def _gates(conclusions: Conclusions) -> Iterator[Row]:
    for decision in conclusions.decisions:
        for ranked in decision.ranking:
            for gate in ranked.gates:
                yield {**_decision_columns(decision), **vars(gate), "provider": ranked.provider, "gate": gate.text}


def _sensitivity(conclusions: Conclusions) -> Iterator[Row]:
    for decided in conclusions.decided:
        columns = _decision_columns(decided.decision)
        swings: list[tuple[str, str, str, float | None, tuple[tuple[str, WeightFlip | PriceFlip | None], ...]]] = [
            ("weight", s.metric, "ratio", s.weight, (("below", s.below), ("above", s.above))) for s in decided.weight_swings
        ]
        swings += [("price", s.provider, "USD/h", s.usd_per_hour, (("below", s.falls), ("above", s.rises))) for s in decided.price_swings]
        for lever, of, unit, now, ends in swings:
            for end, flip in ends:
                at = flip.weight if isinstance(flip, WeightFlip) else flip.usd_per_hour if flip is not None else None
                first = None if flip is None else flip.first
                yield {**columns, "lever": lever, "of": of, "end": end, "now": now, "at": at, "unit": unit, "first": first}


def _cheapest(conclusions: Conclusions) -> Iterator[Row]:
    for decided in conclusions.decided:
        for answer in decided.cheapest:
            for setup in answer.setups:
                yield {
                    **_decision_columns(decided.decision),
                    **vars(setup),
                    "why_not": setup_texts(setup),
                    "workload": answer.workload,
                    "metric": answer.metric,
                    "phase": phase_of(answer.metric),
                    "unit": METRICS[answer.metric].unit,
                    "requirements": answer.requirements,
                }


def _bills(conclusions: Conclusions) -> Iterator[Row]:
    trials_by_id = {d.trial.trial_id: d.trial for d in conclusions.campaign.documents}
    empty_columns: Row = dict.fromkeys(("quantity_unit", "price_unit", "currency", "reason", *Line.__dataclass_fields__))
    for trial_id, bill in conclusions.bills.items():
        trial = trials_by_id[trial_id]
        columns: Row = {"provider": trial.provider.name, "kind": trial.workload.kind, "workload": trial.workload.name}
        columns |= {**empty_columns, "trial": trial_id}
        for line in bill.lines:
            price = line.unit_price
            amounts = {"quantity": line.quantity.value, "unit_price": price.amount, "cost": line.cost.amount}
            units = {"quantity_unit": line.quantity.unit, "price_unit": f"{price.currency}/{price.per}", "currency": line.cost.currency}
            yield {**columns, **vars(line), **amounts, **units}
        for unknown in bill.unknown:
            yield {**columns, "item": unknown.item, "reason": unknown.reason}


def _prices(conclusions: Conclusions) -> Iterator[Row]:
    for name, provider in sorted(conclusions.campaign.providers.items()):
        for price in sorted(provider.price_list, key=lambda p: (p.purchase, p.since)):
            columns = {name: getattr(price, name) for name in ("purchase", "price", "since", "until", "source")}
            yield {"provider": name, "unit": "USD/h", **columns}


def _scenarios(conclusions: Conclusions) -> Iterator[Row]:
    for forecast in cost_forecasts(conclusions.campaign, conclusions.trials):
        costs = forecast.scenarios
        totals = (None, None, None) if costs is None else (costs.best.total, costs.expected.total, costs.worst.total)
        yield {
            **{name: getattr(forecast, name) for name in ("kind", "workload", "provider", "purchase", "amount")},
            "outcome": forecast.what,
            **dict(zip(("best", "expected", "worst"), totals, strict=True)),
            "unit": "USD",
            "price": forecast.price,
            "rate": rate_text(forecast.rate),
            "without": "; ".join(m.what for m in forecast.unknown),
            "reason": reason_text(forecast.reason),
            "trials": forecast.trials,
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
class TableColumn:
    """`unit_in` names the column that holds a number's unit; `unit`: its fixed unit. A number has one of the two. `was`: its name before."""

    name: str
    holds: ColumnType
    meaning: str
    unit_in: str | None = None
    unit: str | None = None
    was: str | None = None


@dataclass(frozen=True)
class Table:
    """A table and its columns, whose names are a contract."""

    meaning: str
    columns: tuple[TableColumn, ...]
    rows: Callable[[Conclusions], Iterable[Row]]


def _read_tables() -> dict[str, Table]:
    """The tables of `tables.toml`; KeyError for a shared column or rows that do not exist."""
    declared = tomllib.loads(files(__package__).joinpath("tables.toml").read_text(encoding="utf-8"))
    shared = {column["name"]: column for column in declared["shared"]}
    return {
        name: Table(table["meaning"], tuple(TableColumn(**(shared[c] if isinstance(c, str) else c)) for c in table["columns"]), ROWS[name])
        for name, table in declared["tables"].items()
    }


TABLES = _read_tables()
_DTYPES: dict[ColumnType, Any] = {"text": "string", "number": "Float64", "count": "Int64", "flag": "boolean", "day": "date32[pyarrow]"}


def campaign_tables(campaign: CampaignData, conclusions: Conclusions | None = None) -> dict[str, pd.DataFrame]:
    """Every table of the campaign by name; one without rows has its columns all the same. `conclusions`: what was concluded already.

    Numbers are in the unit that the row or the column names, unrounded; what is not known is missing.
    """
    concluded = conclude(campaign) if conclusions is None else conclusions
    simulated = {d.trial.provider.name for d in campaign.documents if d.simulated}
    simulated |= {name for name, provider in campaign.providers.items() if provider.simulated}
    campaign_id = campaign.campaign_id
    return {name: data_frame(table, _complete_rows(table.rows(concluded), campaign_id, simulated)) for name, table in TABLES.items()}


def _complete_rows(rows: Iterable[Row], campaign_id: str, simulated: Collection[str]) -> Iterator[Row]:
    """The rows with the campaign where they name none, those of a provider with whether it is one of the simulated; several texts as one."""
    for row in rows:
        row.setdefault("campaign", campaign_id)
        if "provider" in row:
            row["simulated"] = row["provider"] in simulated
        for name in _JOINED.keys() & row.keys():
            row[name] = _JOINED[name].join(row[name])
        yield row


def data_frame(table: Table, rows: Iterable[Row]) -> pd.DataFrame:
    """Rows with the table's columns and types; KeyError for a row that lacks one."""
    import pandas as pd
    import pyarrow as pa

    # Of a row only its cells stay in memory: a campaign of a large fleet has hundreds of thousands of numbers.
    cells = list(zip(*map(itemgetter(*(c.was or c.name for c in table.columns)), rows), strict=True)) or [()] * len(table.columns)
    # From a list of texts, pandas makes the same array in five times as long.
    arrays = (
        pa.array(column_cells, pa.large_string()) if c.holds == "text" else column_cells
        for c, column_cells in zip(table.columns, cells, strict=True)
    )
    return pd.DataFrame({c.name: pd.array(array, dtype=_DTYPES[c.holds]) for c, array in zip(table.columns, arrays, strict=True)})


_MOST_ROWS, _MOST_BYTES = 50_000_000, 8 * 2**30
"""Of an exported table that is read again."""


def read_table(name: str, folder: Path) -> pd.DataFrame:
    """An exported table as Parquet, also of a version whose columns had other names; FileNotFoundError without it."""
    file = folder / f"{name}.parquet"
    if not file.is_file():
        raise FileNotFoundError(f"{file} is not there; expected the folder that `plumbline report CAMPAIGN --tables parquet` wrote")
    columns = [given for c in TABLES[name].columns for given in (c.was, c.name) if given]
    read = bounded_parquet.read_table(file, str(file), columns=columns, most_rows=_MOST_ROWS, most_bytes=_MOST_BYTES, whole=False)
    frame: pd.DataFrame = read.to_pandas()
    return frame.rename(columns={c.was: c.name for c in TABLES[name].columns if c.was})


def describe_tables(names: Iterable[str]) -> str:
    """The tables' columns in Markdown."""
    lines: list[str] = []
    for name in names:
        table = TABLES[name]
        rows = (
            f"| `{c.name}` | {c.holds} | {f'in `{c.unit_in}`' if c.unit_in else c.unit or ''} | {c.meaning}{f'; `{c.was}` before' if c.was else ''} |"
            for c in table.columns
        )
        lines += [f"## {name}", "", f"{table.meaning[:1].upper()}{table.meaning[1:]}.", ""]
        lines += ["| column | holds | unit | what it is |", "|---|---|---|---|", *rows, ""]
    return "\n".join(lines)


TableFormat = Literal["csv", "parquet"]
TABLE_FORMATS: tuple[TableFormat, ...] = ("csv", "parquet")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Characters that begin a formula in a spreadsheet."""


def write_tables(tables: Mapping[str, pd.DataFrame], folder: Path, forms: Sequence[TableFormat], written_at: datetime) -> tuple[Path, ...]:
    """Write each table as `<folder>/<name>.<form>` and what they hold as `README.md`; returns the tables' paths.

    Each file appears whole or not at all, and replaces the one of an earlier export; one of a form that is not asked for now is removed, for
    nothing would say that its prices are of another day. `written_at`: whose day's prices are in them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for stale in (folder / f"{name}.{form}" for name in tables for form in TABLE_FORMATS if form not in forms):
        stale.unlink(missing_ok=True)
    paths = []
    for form in forms:
        for name, table in tables.items():
            paths.append(folder / f"{name}.{form}")
            write_whole(paths[-1], encode_table(table, form))
    note = f"# Tables\n\nWritten {written_at:%Y-%m-%d %H:%M} UTC ({', '.join(forms)}), at the prices of that day."
    note += " An empty cell is a number that is not known, never a zero.\n\n"
    write_whole(folder / "README.md", f"{note}{describe_tables(tables)}".encode())
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
    escaped = [f"'{text}" if text.startswith(_FORMULA) else text for text in texts]
    return [escaped[code] if code >= 0 else None for code in codes.tolist()]


if __name__ == "__main__":
    sys.stdout.write(describe_tables(TABLES))
