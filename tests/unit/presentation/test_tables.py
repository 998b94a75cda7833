"""Exported tables: the same numbers as in the report, in columns that stay, in files that spreadsheets can open without being run."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, datetime, timezone
from io import BytesIO
from pathlib import Path

import pandas as pd
import pytest
from tests.browser.sample import campaign
from tests.data.result_documents import provider

from plumbline.analysis.campaign_data import CampaignData
from plumbline.analysis.conclusions import conclude
from plumbline.metrics import METRICS
from plumbline.presentation.tables import (
    TABLE_FORMATS,
    TABLES,
    campaign_tables,
    data_frame,
    describe_tables,
    encode_table,
    write_tables,
)

WRITTEN = datetime(2026, 11, 20, 7, tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> CampaignData:
    return campaign(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def made(sample: CampaignData) -> dict[str, pd.DataFrame]:
    return campaign_tables(sample)


def test_every_declared_table_is_made_with_its_columns(made: dict[str, pd.DataFrame]) -> None:
    assert set(made) == set(TABLES)
    for name, table in made.items():
        assert list(table.columns) == [c.name for c in TABLES[name].columns], name


RESERVED = {
    word
    for line in (Path(__file__).parents[2] / "data" / "reserved_words.txt").read_text().splitlines()
    if not line.startswith("#")
    for word in line.split()
}


def test_no_column_needs_quotes_in_sql() -> None:
    assert {"group", "leading", "limit", "end", "on"} <= RESERVED
    for name, table in TABLES.items():
        assert [c.name for c in table.columns if c.name in RESERVED or not re.fullmatch(r"[a-z_][a-z0-9_]*", c.name)] == [], name


def test_each_number_says_its_unit() -> None:
    for name, table in TABLES.items():
        named = {c.name for c in table.columns}
        for column in table.columns:
            if column.holds == "number":
                assert (column.unit is None) != (column.unit_in is None), f"{name}.{column.name}"
            assert column.unit_in is None or column.unit_in in named, f"{name}.{column.name}"


def test_the_numbers_are_those_of_the_scorecards(sample: CampaignData, made: dict[str, pd.DataFrame]) -> None:
    cards = {(c.provider, c.kind): c for c in conclude(sample).cards}
    rows = made["scorecards"]
    leading = rows[rows["is_leading"] & (rows["metric"] == "step_time")]
    assert len(leading) == 2
    for row in leading.itertuples():
        card = cards[row.provider, "training"].row("step_time")
        assert card is not None
        assert (row.value, row.low, row.high, row.n) == (card.value, card.low, card.high, card.n)
        assert row.unit == METRICS["step_time"].unit
        assert tuple(row.trials.split()) == card.trials


def test_what_is_simulated_says_so_in_every_table_that_names_a_provider(sample: CampaignData, made: dict[str, pd.DataFrame]) -> None:
    launcher = provider("sim", launcher={"kind": "simulated", "seed": 1}, cloud="simulated").launcher
    made_up = sample.providers["local-1core"].model_copy(update={"launcher": launcher})
    mixed = campaign_tables(replace(sample, providers={**sample.providers, "local-1core": made_up}))
    placed = [name for name, table in TABLES.items() if any(c.name == "provider" for c in table.columns)]
    assert {"scorecards", "trials", "metrics", "bills", "prices", "decisions", "cheapest"} <= set(placed)
    for name in placed:
        assert not made[name]["simulated"].any(), name
        assert (mixed[name]["simulated"] == (mixed[name]["provider"] == "local-1core")).all(), name
    assert mixed["scorecards"]["simulated"].any() and not mixed["decisions"]["simulated"].any(), "no decision mixes the two"


def test_what_is_not_known_is_missing_and_no_zero(sample: CampaignData) -> None:
    free = sample.providers["local-1core"].model_copy(update={"prices": ()})
    made = campaign_tables(replace(sample, providers={**sample.providers, "local-1core": free}))
    values = made["decision_values"]
    values = values[values["team"] == "platform"]
    cost = values[(values["provider"] == "local-1core") & (values["metric"] == "cost_per_1m_trained_tokens")]
    assert cost["value"].isna().all() and len(cost) == 1
    ranked = made["decisions"]
    ranked = ranked[ranked["team"] == "platform"]
    out = ranked[(ranked["provider"] == "local-1core") & (ranked["kind"] == "training")]
    assert out["place"].isna().all() and out["score"].isna().all()
    assert "was not measured" in out["why_not"].iloc[0]


def test_a_missing_trial_and_a_failed_attempt_have_their_rows(made: dict[str, pd.DataFrame]) -> None:
    trials = made["trials"]
    assert (trials["status"] == "missing").sum() == 1
    failed = trials[trials["status"] == "failed"]
    assert list(failed["failure_class"]) == ["launch_timeout"]
    assert list(failed["attempt"]) == [2]


@pytest.mark.parametrize("form", TABLE_FORMATS)
def test_a_file_reads_back_as_it_was(made: dict[str, pd.DataFrame], tmp_path: Path, form: str) -> None:
    paths = write_tables(made, tmp_path, [form], WRITTEN)  # type: ignore[list-item]
    assert {p.name for p in paths} == {f"{name}.{form}" for name in TABLES}
    for path in paths:
        table = made[path.stem]
        if form == "parquet":
            again = pd.read_parquet(path)
        else:
            again = pd.read_csv(
                path, float_precision="round_trip", dtype={c.name: "string" for c in TABLES[path.stem].columns if c.holds == "text"}
            )
        assert list(again.columns) == list(table.columns)
        assert len(again) == len(table)
        for column in TABLES[path.stem].columns:
            if column.holds in ("number", "count"):
                assert [float(v) for v in again[column.name].dropna()] == [float(v) for v in table[column.name].dropna()], column.name


def test_parquet_keeps_its_types_without_a_row(tmp_path: Path) -> None:
    empty = data_frame(TABLES["prices"], [])
    again = pd.read_parquet(BytesIO(encode_table(empty, "parquet")))
    full = data_frame(
        TABLES["prices"],
        [
            {
                "provider": "a",
                "simulated": False,
                "purchase": "spot",
                "price": 1.0,
                "unit": "USD/h",
                "since": date(2026, 1, 1),
                "until": None,
                "source": "declared",
            }
        ],
    )
    assert list(again.dtypes) == list(pd.read_parquet(BytesIO(encode_table(full, "parquet"))).dtypes)


@pytest.mark.parametrize("text", ['=HYPERLINK("http://x","y")', "+1", "-1+cmd|' /C calc'!A0", "@SUM(A1)", "\t=1"])
def test_a_text_that_begins_a_formula_is_defused_in_csv_alone(sample: CampaignData, text: str) -> None:
    table = campaign_tables(replace(sample, findings=(replace(sample.findings[0], headline=text),)))["findings"]
    again = pd.read_csv(BytesIO(encode_table(table, "csv")), dtype="string")
    assert again["headline"].iloc[0] == f"'{text}"
    assert pd.read_parquet(BytesIO(encode_table(table, "parquet")))["headline"].iloc[0] == text


def test_other_text_and_negative_numbers_stay_what_they_are() -> None:
    table = pd.DataFrame(
        {"why": pd.array(["2 = 1 + 1", "–5", None], dtype="string"), "value": pd.array([-1.5, None, 3.0], dtype="Float64")}
    )
    assert encode_table(table, "csv").decode() == "why,value\r\n2 = 1 + 1,-1.5\r\n–5,\r\n,3.0\r\n"


def test_csv_is_what_pandas_writes(made: dict[str, pd.DataFrame]) -> None:
    texts = ["a,b", 'say "so"', "two\nlines", "one\r", "", None]
    numbers = [0.1 + 0.2, 1e-07, 1e22, -0.0, 3.0, None]
    odd = pd.DataFrame({"text": pd.array(texts, dtype="string"), "number": pd.array(numbers, dtype="Float64")})
    for name, table in {**made, "odd": odd, "empty": odd[:0]}.items():
        assert encode_table(table, "csv") == table.to_csv(index=False, lineterminator="\r\n").encode(), name


def test_writing_twice_replaces_the_files_and_leaves_no_draft(made: dict[str, pd.DataFrame], tmp_path: Path) -> None:
    write_tables(made, tmp_path, ["csv"], WRITTEN)
    first = {f.name: f.read_bytes() for f in tmp_path.iterdir()}
    write_tables(made, tmp_path, ["csv"], WRITTEN)
    assert {f.name: f.read_bytes() for f in tmp_path.iterdir()} == first
    assert set(first) == {"README.md", *(f"{name}.csv" for name in TABLES)}


def test_no_file_of_another_day_stays_beside_the_new_ones(made: dict[str, pd.DataFrame], tmp_path: Path) -> None:
    write_tables(made, tmp_path, TABLE_FORMATS, WRITTEN)
    (tmp_path / "mine.parquet").touch()
    write_tables(made, tmp_path, ["csv"], WRITTEN.replace(day=21))
    assert {f.name for f in tmp_path.glob("*.parquet")} == {"mine.parquet"} and len([*tmp_path.glob("*.csv")]) == len(TABLES)


def test_the_readme_and_the_documentation_name_every_column(made: dict[str, pd.DataFrame], tmp_path: Path) -> None:
    write_tables(made, tmp_path, ["csv"], WRITTEN)
    readme = (tmp_path / "README.md").read_text()
    assert describe_tables(TABLES) in readme and f"{WRITTEN:%Y-%m-%d %H:%M} UTC (csv)" in readme
    documented = (Path(__file__).parents[3] / "docs" / "export-tables.md").read_text()
    assert documented.endswith(describe_tables(TABLES)), "python -m plumbline.presentation.tables prints what docs/export-tables.md shows"
