"""A seeded archive of any size: the rows that recording would write, written in bulk.

Size grows with the number of providers. Each has 10 workloads in 24 campaigns of 12 trials; the first campaign is the baseline. One trial in 50
has a finding, resolved except for the newest. Every trial has the rows and the document of a real one. Documents are copies of one trial's for
each workload: right in size, not in content. Each trial of the first workload in its newest campaign has its own document, which decisions read.
"""

from __future__ import annotations

import itertools
import json
import random
import zlib
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session
from tests.data.result_documents import document, provider, training_metrics, training_workload, trial

from plumbline.archive import Archive
from plumbline.archive.engine import reading
from plumbline.archive.schema import (
    AuditEntry,
    Base,
    Baseline,
    Campaign,
    Document,
    Environment,
    Evidence,
    Finding,
    Metric,
    Series,
    SeriesCampaign,
    Stage,
    Telemetry,
    Trial,
)
from plumbline.declarations import series_key
from plumbline.results import ResultDocument

WORKLOADS, CAMPAIGNS, REPEATS = 10, 24, 12
TRIALS_OF_A_PROVIDER = WORKLOADS * CAMPAIGNS * REPEATS
TRIALS_OF_A_FINDING, OPEN_FINDINGS = 50, 20
SLOTS = ("02:00", "10:00", "18:00")
FIRST = datetime(2024, 1, 1, 1, 0, tzinfo=timezone.utc)
NOISE = 0.005
Row = dict[str, Any]


def place(number: int) -> Any:
    return provider(f"provider-{number:04d}")


def workloads() -> list[Any]:
    return [training_workload(name=f"workload-{n:02d}") for n in range(WORKLOADS)]


def campaign_of(number: int) -> tuple[str, datetime]:
    """A campaign's id and its planning time, 30 days after the previous one."""
    return f"month-{number:03d}", FIRST + timedelta(days=30 * number)


def record_new(archive: Archive, seed: int) -> str:
    """Record one more campaign of the first provider as a real one; returns its id."""
    name, planned_at = campaign_of(CAMPAIGNS)
    noise = random.Random(seed)
    for workload, n in itertools.product(workloads(), range(REPEATS)):
        spec = trial(campaign=name, slot=SLOTS[n % 3], repeat=n // 3 + 1, where=place(0), workload=workload, planned_at=planned_at)
        metrics = training_metrics(step_time=0.1 * noise.lognormvariate(0, NOISE))
        archive.record(document(spec, metrics=metrics), uri=f"file:///store/{spec.trial_id}")
    return name


def fill(archive: Archive, template: Archive, trials: int, seed: int) -> int:
    """Fill an empty archive with whole providers, about `trials` trials; returns the number of trials. `template`: another empty archive."""
    providers = max(1, round(trials / TRIALS_OF_A_PROVIDER))
    shapes = _shapes(template)
    keys = [[series_key(workload, place(p)) for workload in workloads()] for p in range(providers)]
    with _bulk(archive.engine) as load:
        load(
            Campaign,
            (
                {"campaign_id": c, "reason": "monthly", "planned_at": at, "recorded_at": at, "purpose": "monthly"}
                for c, at in map(campaign_of, range(CAMPAIGNS))
            ),
        )
        load(Environment, [shapes[0]["environments"][0]])
        load(Series, (_series(shapes[w], keys[p][w], place(p).name) for p, w in itertools.product(range(providers), range(WORKLOADS))))
        members = itertools.product(range(CAMPAIGNS), range(providers), range(WORKLOADS))
        load(
            SeriesCampaign, ({"series_key": keys[p][w], "campaign_id": (c := campaign_of(n))[0], "planned_at": c[1]} for n, p, w in members)
        )
        own = _own_documents(providers, random.Random(seed))
        load(
            Trial, ({**row, "checksum": own[pk].checksum} if (pk := row["id"]) in own else row for row in _trials(shapes, keys, providers))
        )
        load(Document, ({**shapes[w]["documents"][0], "trial_pk": pk, **_packed(own.get(pk))} for pk, _, _, w, _ in _places(providers)))
        noise = random.Random(seed)
        load(Metric, _metrics(shapes, providers, noise))
        for model in (Stage, Telemetry, Evidence):
            load(
                model, ({**row, "trial_pk": pk} for pk, _, _, w, _ in _places(providers) for row in shapes[w].get(model.__tablename__, ()))
            )
        load(Baseline, (_baseline(i, key) for i, key in enumerate(itertools.chain(*keys), 1)))
        findings = list(_findings(keys, providers))
        load(Finding, findings)
        load(AuditEntry, (_entry(i, finding) for i, finding in enumerate(findings, 1)))
    return providers * TRIALS_OF_A_PROVIDER


def _shapes(template: Archive) -> list[dict[str, list[Row]]]:
    """The rows of one real trial of each workload."""
    shapes = []
    for n, workload in enumerate(workloads()):
        spec = trial(campaign=f"template-{n}", where=place(0), workload=workload)
        template.record(document(spec), uri="file:///store")
        with reading(template.engine) as session:
            of = session.scalars(select(Trial).where(Trial.campaign_id == spec.campaign_id)).one()
            own: tuple[tuple[type[Base], str, Any], ...] = (
                *((model, "series_key", of.series_key) for model in (Series, SeriesCampaign)),
                (Campaign, "campaign_id", of.campaign_id),
                (Environment, "environment_hash", of.environment_hash),
                (Trial, "id", of.id),
                *((model, "trial_pk", of.id) for model in (Metric, Stage, Telemetry, Evidence)),
            )
            tables = {model.__tablename__: _rows(session, model, column, value) for model, column, value in own}
            content = session.scalars(select(Document.content).where(Document.trial_pk == of.id)).one()
        packed = zlib.compress(content.encode(), 6)
        shapes.append({**tables, "documents": [{"trial_pk": 0, "schema_version": 1, "content": packed}]})
    return shapes


def _rows(session: Session, model: type[Base], column: str, value: Any) -> list[Row]:
    table: Any = model.__table__
    return [dict(row._mapping) for row in session.execute(select(table).where(table.c[column] == value))]


def _own_documents(providers: int, noise: random.Random) -> dict[int, ResultDocument]:
    """By row number, for the first workload in the newest campaign: providers differ by up to a fifth, and repeats scatter."""
    first, (name, at) = workloads()[0], campaign_of(CAMPAIGNS - 1)
    documents = {}
    for pk, c, p, w, n in _places(providers):
        if (c, w) == (CAMPAIGNS - 1, 0):
            spec = trial(campaign=name, slot=SLOTS[n % 3], repeat=n // 3 + 1, where=place(p), workload=first, planned_at=at)
            pace = 0.1 * (1 + p % 11 / 50) * noise.lognormvariate(0, NOISE)
            documents[pk] = document(spec, metrics=training_metrics(step_time=pace))
    return documents


def _packed(own: ResultDocument | None) -> Row:
    return {} if own is None else {"content": zlib.compress(own.model_dump_json().encode(), 6)}


def _places(providers: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Row number, campaign, provider, workload and repeat of every trial, in the order of recording."""
    numbers = itertools.product(range(CAMPAIGNS), range(providers), range(WORKLOADS), range(REPEATS))
    return ((pk, *rest) for pk, rest in enumerate(numbers, 1))


def _series(shape: dict[str, list[Row]], key: str, name: str) -> Row:
    return {**shape["series"][0], "series_key": key, "provider": name, "recorded_at": FIRST}


def _trials(shapes: list[dict[str, list[Row]]], keys: list[list[str]], providers: int) -> Iterator[Row]:
    for pk, c, p, w, n in _places(providers):
        name, at = campaign_of(c)
        slot, repeat = SLOTS[n % 3], n // 3 + 1
        trial_id = f"{name}.provider-{p:04d}.training.workload-{w:02d}.{slot.replace(':', '')}.r{repeat}"
        moment = at + timedelta(hours=1)
        yield {
            **shapes[w]["trials"][0],
            "id": pk,
            "series_key": keys[p][w],
            "campaign_id": name,
            "slot": slot,
            "repeat": repeat,
            "trial_id": trial_id,
            "planned_at": at,
            "started_at": moment,
            "finished_at": moment,
            "recorded_at": moment,
            "uri": f"file:///store/{trial_id}",
        }


def _metrics(shapes: list[dict[str, list[Row]]], providers: int, noise: random.Random) -> Iterator[Row]:
    for pk, _, p, w, _ in _places(providers):
        factor = noise.lognormvariate(0, NOISE) * (1 + (7 * p + 3 * w) % 11 / 50)  # providers differ by up to a fifth
        for row in shapes[w]["metrics"]:
            yield {**row, "trial_pk": pk, "value": None if row["value"] is None else row["value"] * factor}


def _baseline(number: int, key: str) -> Row:
    name, at = campaign_of(0)
    how = {"rule": "bootstrap", "accepted_at": at, "accepted_by": "bootstrap rule", "why": "generated", "superseded_at": None}
    return {"id": number, "series_key": key, "campaign_id": name, **how}


def _findings(keys: list[list[str]], providers: int) -> Iterator[Row]:
    count = providers * TRIALS_OF_A_PROVIDER // TRIALS_OF_A_FINDING
    for i in range(count):
        name, at = campaign_of(i * CAMPAIGNS // count)
        p = i % providers
        is_open = i >= count - OPEN_FINDINGS
        opened = at + timedelta(hours=2, seconds=i)
        yield {
            "finding_id": f"finding-{i:08d}",
            "series_key": keys[p][i // providers % WORKLOADS],
            "campaign_id": name,
            # Open findings belong to another provider, so that the first one's review does not touch them.
            "provider": "another-provider" if is_open else f"provider-{p:04d}",
            "kind": "price",
            "severity": "info",
            "headline": "generated",
            "detail": {"generated": i},
            "effect": 0.03,
            "ci_low": 0.02,
            "ci_high": 0.04,
            "metric": None,
            "state": "open" if is_open else "resolved",
            "opened_at": opened,
            "updated_at": opened,
            "last_seen_at": opened,
            "snoozed_until": None,
        }


def _entry(number: int, finding: Row) -> Row:
    fixed = {"who": "drift", "what": "finding_opened", "subject": finding["finding_id"], "why": "generated", "detail": {}, "once_key": None}
    return {"id": number, "at": finding["opened_at"], **fixed}


class _bulk:
    """Writes rows without the checks of a single row, in one transaction; sets the row counters at the end."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._postgres = engine.dialect.name == "postgresql"
        self._ids: list[str] = []

    def __enter__(self) -> _bulk:
        self._raw = self._engine.raw_connection()
        self._cursor: Any = self._raw.cursor()
        if self._postgres:
            self._cursor.execute("SET session_replication_role = replica")
        else:
            self._cursor.execute("PRAGMA foreign_keys=OFF")
            self._cursor.execute("PRAGMA synchronous=OFF")
            self._cursor.execute("BEGIN IMMEDIATE")
        return self

    def __call__(self, model: type[Base], rows: Iterable[Row]) -> None:
        table: Any = model.__table__
        names = [column.name for column in table.columns]
        values = (tuple(map(self._plain, (row[name] for name in names))) for row in rows)
        columns = ", ".join(f'"{name}"' for name in names)
        if "id" in names:
            self._ids.append(table.name)
        if self._postgres:
            with self._cursor.copy(f"COPY {table.name} ({columns}) FROM STDIN") as copy:
                for one in values:
                    copy.write_row(one)
        else:
            self._cursor.executemany(f"INSERT INTO {table.name} ({columns}) VALUES ({', '.join('?' * len(names))})", values)

    def _plain(self, value: Any) -> Any:
        if isinstance(value, datetime):
            return value if self._postgres else f"{value:%Y-%m-%d %H:%M:%S.%f}"
        return json.dumps(value) if isinstance(value, (dict, list)) else value

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            if self._postgres:
                for name in self._ids:
                    self._cursor.execute(f"SELECT setval(pg_get_serial_sequence('{name}', 'id'), (SELECT max(id) FROM {name}))")
                self._raw.commit()
                connection: Any = self._raw.driver_connection
                connection.autocommit = True
                self._cursor.execute("VACUUM ANALYZE")  # as the server's autovacuum would
            else:
                self._cursor.execute("COMMIT")
        self._raw.invalidate()  # the connection's settings must not reach its next user
        self._raw.close()
