"""The Grafana dashboard's queries on a real PostgreSQL archive, as the read-only role that the documentation makes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from tests.data.price_readings import reading
from tests.data.result_documents import PLANNED, document, failed, training_metrics, trial
from tests.data.result_documents import provider as provider_declared
from tests.fakes.grafana_macros import expand
from tests.fakes.postgres_tcp import TcpPostgres

from plumbline.analysis.document_sample import sample_of
from plumbline.analysis.scorecards.scorecard import scorecard
from plumbline.archive import Archive, DecisionRecord, FindingRecord, open_archive

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD: dict[str, Any] = json.loads((ROOT / "k8s/grafana/plumbline.json").read_text())
SECRETS = {"AIRFLOW_DB_PASSWORD": "a", "ARCHIVE_DB_PASSWORD": "b", "READER_DB_PASSWORD": "c", "GRAFANA_DB_PASSWORD": 'it\'s "c"'}
STEPS = {"2025-09": (0.100, 0.110, 0.104), "2025-10": (0.101, 0.102, 0.109), "2025-11": (0.120, 0.121, 0.125)}
UNTIL = datetime.now(timezone.utc) + timedelta(hours=1)  # findings are opened while this runs
SINCE = PLANNED - timedelta(days=365)


@pytest.fixture(scope="module")
def server() -> Iterator[TcpPostgres]:
    with tempfile.TemporaryDirectory(prefix="plumbline-gr-") as folder:
        running = TcpPostgres(Path(folder))
        try:
            running.run_file(ROOT / "k8s/airflow/postgres-roles.sql", SECRETS)
            with open_archive(f"postgresql+psycopg://plumbline:b@127.0.0.1:{running.port}/plumbline") as archive:
                running.run_file(ROOT / "k8s/grafana/read-only-role.sql", SECRETS)
                fill(archive)
            yield running
        finally:
            running.stop()


@pytest.fixture(scope="module")
def reader(server: TcpPostgres) -> Iterator[Engine]:
    """Connections as Grafana makes them."""
    engine = create_engine(f"postgresql+psycopg://plumbline_grafana:it%27s%20%22c%22@127.0.0.1:{server.port}/plumbline")
    yield engine
    engine.dispose()


def fill(archive: Archive) -> None:
    """Three campaigns of one series, the last one slower and with a launch that failed; its finding, prices, a decision."""
    for months, (name, times) in enumerate(STEPS.items()):
        planned = PLANNED - timedelta(days=30 * (2 - months))
        for repeat, seconds in enumerate(times, 1):
            asked = trial(campaign=name, repeat=repeat, planned_at=planned)
            archive.record(document(asked, metrics=training_metrics(step_time=seconds)), uri=f"file:///{asked.trial_id}")
    for repeat, reason in ((4, "insufficient_capacity"), (5, "image_error")):
        asked = trial(campaign="2025-11", repeat=repeat)
        archive.record(failed(asked, reason), uri=f"file:///{asked.trial_id}")
    archive.save_findings(
        [
            FindingRecord("f1", trial().series_key, "2025-11", "lab-2core", "performance", "page", "PAGE lab-2core step_time +17 %"),
            FindingRecord("f2", "price/lab-2core", None, "lab-2core", "price", "info", "INFO lab-2core price −3 %"),
        ]
    )
    archive.record_readings([reading(0), reading(1), reading(2, 2.1)])
    archive.accept_price(
        "lab-2core", "on_demand", None, usd_per_hour=20.0, since=PLANNED.date(), source="gpuhunt", by="ada", why="read twice"
    )
    for name, workloads, provider, made_up in (
        ("d1", ["gpt-test"], "lab-2core", False),
        ("d2", ["gpt-test"], "lab-1core", False),
        ("d3", ["bert-test", "t5-test"], "lab-2core", False),
        ("d4", ["gpt-test"], "cloud", True),
    ):
        archive.save_decision(DecisionRecord(name, "platform", "training", provider, 0.9, {"workloads": workloads, "simulated": made_up}))
    # A rehearsal in the same archive, of which every launch fails.
    where = provider_declared("cloud", launcher={"kind": "simulated", "seed": 1}, cloud="simulated")
    for repeat in (1, 2):
        asked = trial(campaign="2025-11", repeat=repeat, where=where)
        archive.record(failed(asked, "insufficient_capacity"), uri=f"file:///{asked.trial_id}")


def rows(engine: Engine, sql: str, variables: Mapping[str, str | Sequence[str]]) -> list[dict[str, Any]]:
    with engine.connect() as connection:
        found = connection.exec_driver_sql(expand(sql, variables, SINCE, UNTIL))
        return [dict(row) for row in found.mappings()]


def chosen(engine: Engine) -> dict[str, str | list[str]]:
    """Each variable's first answer, as Grafana fills them in: in their order, `All` where several may be chosen."""
    values: dict[str, str | list[str]] = {}
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            found = [row.get("__value", next(iter(row.values()))) for row in rows(engine, variable["query"], values)]
            assert found, f"the variable {variable['name']} has nothing to choose from"
            values[variable["name"]] = found if variable["multi"] else found[0]
    return values


def panel(title: str) -> dict[str, Any]:
    return next(p for p in DASHBOARD["panels"] if p["title"] == title)


def test_the_variables_offer_what_the_archive_has(reader: Engine) -> None:
    values = chosen(reader)
    assert values["source"] == "measured" and values["provider"] == ["lab-2core"]
    assert values["series"] == trial().series_key
    assert str(values["number"]).startswith("steady/")


@pytest.mark.parametrize(
    ("title", "target"),
    [(p["title"], t) for p in DASHBOARD["panels"] for t in p.get("targets", ())],
    ids=[f"{p['title']} {t['refId']}" for p in DASHBOARD["panels"] for t in p.get("targets", ())],
)
def test_each_query_returns_rows(reader: Engine, title: str, target: dict[str, Any]) -> None:
    found = rows(reader, target["rawSql"], chosen(reader) | {"number": "steady/step_time/median"})
    assert found and any(value is not None for row in found for value in row.values())
    if target["format"] == "time_series":
        assert {"time", "metric", "value"} <= set(found[0]), title


def test_the_trend_shows_repeats_and_medians_in_their_unit(reader: Engine) -> None:
    variables = chosen(reader) | {"number": "steady/step_time/median"}
    repeats, medians = (rows(reader, t["rawSql"], variables) for t in panel("Every repeat, and each campaign's median")["targets"])
    assert [r["value"] for r in repeats] == [v for times in STEPS.values() for v in times]
    assert [m["value"] for m in medians] == [0.104, 0.102, 0.121]
    assert {m["metric"] for m in medians} == {"median (s)"}


def test_launches_are_those_of_the_scorecard(reader: Engine) -> None:
    (row,) = rows(reader, panel("Launches that started")["targets"][0]["rawSql"], chosen(reader))
    attempts = [document(trial(campaign="c", repeat=r)) for r in range(1, 10)]
    attempts += [failed(trial(campaign="c", repeat=10), "insufficient_capacity"), failed(trial(campaign="c", repeat=11), "image_error")]
    share = scorecard([sample_of(d) for d in attempts]).launch.share
    assert (row["launches"], row["started"]) == (share.n, share.successes) == (10, 9)


def test_what_was_simulated_stands_alone(reader: Engine) -> None:
    measured = chosen(reader)
    simulated = measured | {"source": "simulated", "provider": ["cloud"]}
    both = ["lab-2core", "cloud"]
    usable = panel("Usable attempts")["targets"][0]["rawSql"]
    for source, share in (("measured", 9 / 11), ("simulated", 0.0)):
        (row,) = rows(reader, usable, measured | {"source": source, "provider": both})
        assert float(row["usable"]) == pytest.approx(share)
    (launched,) = rows(reader, panel("Launches that started")["targets"][0]["rawSql"], simulated)
    assert (launched["provider"], launched["started"]) == ("cloud", 0)
    offered = next(v["query"] for v in DASHBOARD["templating"]["list"] if v["name"] == "provider")
    assert rows(reader, offered, simulated) == [{"provider": "cloud"}]


def test_each_choice_of_a_team_is_shown_with_its_newest_decision(reader: Engine) -> None:
    sql = panel("First choices by team")["targets"][0]["rawSql"]
    shown = [(row["workloads"], row["first"]) for row in rows(reader, sql, chosen(reader))]
    assert sorted(shown) == [("bert-test, t5-test", "lab-2core"), ("gpt-test", "lab-1core")]
    assert [row["first"] for row in rows(reader, sql, chosen(reader) | {"source": "simulated"})] == ["cloud"]


def test_another_provider_has_no_rows(reader: Engine) -> None:
    variables = chosen(reader) | {"provider": ["elsewhere"]}
    for title in ("Open findings by severity", "Prices reported by sources"):
        assert rows(reader, panel(title)["targets"][0]["rawSql"], variables) == []


@pytest.mark.parametrize("statement", ["DELETE FROM audit", "UPDATE findings SET state = 'resolved'", "CREATE TABLE mine (a int)"])
def test_the_role_changes_nothing(reader: Engine, statement: str) -> None:
    with reader.connect() as connection, pytest.raises(DBAPIError, match=r"read-only|permission denied"):
        connection.execute(text(statement))
    # Whoever lifts the default of the session still lacks the right.
    with reader.connect() as connection, pytest.raises(DBAPIError, match="permission denied"):
        connection.execute(text("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE"))
        connection.commit()
        connection.execute(text(statement))


def test_the_role_reads_tables_of_later_versions(server: TcpPostgres, reader: Engine) -> None:
    owner = create_engine(f"postgresql+psycopg://plumbline:b@127.0.0.1:{server.port}/plumbline")
    with owner.begin() as connection:
        connection.execute(text("CREATE TABLE later (n int)"))
        connection.execute(text("INSERT INTO later VALUES (7)"))
    owner.dispose()
    with reader.connect() as connection:
        (number,) = connection.execute(text("SELECT n FROM later")).scalars()
    assert number == 7
