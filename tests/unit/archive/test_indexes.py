"""The questions that the product asks are answered through indexes: none reads all trials, all metrics or all findings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from tests.data.result_documents import document, trial

from plumbline.archive import Archive, open_archive
from plumbline.archive.engine import utc_now
from plumbline.archive.schema import Base
from plumbline.declarations import DriftRules

MONTH = datetime(2026, 1, 1, tzinfo=timezone.utc)
SERIES, NAME = trial().series_key, trial().trial_id
RULES = DriftRules.model_validate_json('{"confidence": "95%", "false_discovery_rate": "5%", "bootstrap_trials": 2}')


def joining(archive: Archive) -> bool:
    """The rule asked about a second campaign."""
    rules = RULES.model_copy(update={"bootstrap_trials": 1})
    archive.record(document(trial(campaign="2025-12")), uri="file:///store")
    archive.bootstrap_baseline(SERIES, rules)
    return archive.join_baseline(SERIES, "2025-12", rules)


QUESTIONS: dict[str, Callable[[Archive], Any]] = {
    "one campaign of a series": lambda a: a.sample(SERIES, "2025-11"),
    "the latest campaign of a series": lambda a: a.latest_campaign(SERIES),
    "one metric's history": lambda a: a.metric_history(SERIES, "step_time", "median"),
    "one trial's document": lambda a: a.document(NAME),
    "a campaign's trials": lambda a: a.trials(campaign_id="2025-11"),
    "a series' trials": lambda a: a.trials(series_key=SERIES),
    "the last campaigns": lambda a: a.campaigns(latest=3),
    "a series' campaigns": lambda a: a.campaigns(SERIES),
    "open findings": lambda a: a.findings(state="open", latest=20),
    "the latest findings": lambda a: a.findings(latest=20),
    "a campaign's findings": lambda a: a.findings(campaign_id="2025-11"),
    "what a provider stands in": lambda a: a.findings_of("lab-2core", unsettled=True),
    "a campaign's quarantine": lambda a: a.quarantined(campaign_id="2025-11"),
    "what is in quarantine": lambda a: a.quarantined(),
    "correcting a trial": lambda a: a.correct(document(trial(attempt=2)), 1, by="ada", why="test", uri="file:///store"),
    "the baseline": lambda a: a.baseline(SERIES),
    "a subject's log": lambda a: a.audit(SERIES),
    "a provider's readings of one price": lambda a: a.price_readings("lab-2core", "spot", latest=3),
    "the accepted price": lambda a: a.accepted_price("lab-2core", "on_demand"),
    "the last snapshot": lambda a: a.latest_snapshot("lab-2core", "cluster", utc_now()),
    "a provider's snapshots": lambda a: a.snapshots("lab-2core", "probe", latest=3),
    "a provider's last check": lambda a: a.latest_availability_check("lab-2core", "uptime", False, utc_now()),
    "a provider's checks of a month": lambda a: a.availability_checks("lab-2core", "uptime", False, (MONTH, MONTH + timedelta(days=31))),
    "a provider's operations log": lambda a: a.operations("lab-2core"),
    "a page of a campaign's trials": lambda a: a.trials_page("2025-11", after="0", limit=5),
    "a page of a series' trials": lambda a: a.trials_page("2025-11", SERIES),
    "a page of a campaign's series": lambda a: a.campaign_series("2025-11", [("step_time", "median")], limit=5),
    "a page of findings": lambda a: a.findings_page(limit=5),
    "a page of a provider's findings": lambda a: a.findings_page("open", "price", "warn", "lab-2core", limit=5),
    "what a campaign's page shows of findings": lambda a: a.findings_shown_by("2025-11", 5),
    "a page of decisions": lambda a: a.decisions_page("platform", "training", limit=5),
    "some providers' series": lambda a: a.series_of(["lab-2core"]),
    "a page of series": lambda a: a.series(campaign_id="2025-11", limit=5),
    "series at a glance": lambda a: a.newest_parts(a.series_of(["lab-2core"]), [("step_time", "median", "steady")]),
    "who ran a workload": lambda a: a.providers_of("gpt-test", 5),
    "a page of campaigns": lambda a: a.campaigns_page(),
    "which campaigns are not our own": lambda a: a.marked(["2025-11"]),
    "what a series measured": lambda a: a.measured_names(SERIES, "2025-11"),
    "a series' environments": lambda a: a.facts_by_campaign(SERIES, ["2025-11"]),
    "a metric's history in some campaigns": lambda a: a.metric_history(SERIES, "step_time", "median", "steady", ["2025-11"]),
    "a provider's launches": lambda a: a.launches("lab-2core", 3),
    "when providers last ran": lambda a: a.last_run(["lab-2core"]),
    "what some providers show now": lambda a: a.newest_usable(providers=["lab-2core"]),
    "whether anything was measured": lambda a: a.measured_anything(),
    "recording a trial": lambda a: a.record(document(trial(repeat=2)), uri="file:///store"),
    "bootstrapping": lambda a: a.bootstrap_baseline(SERIES, RULES),
    "joining the baseline": joining,
}
LIMITED = ("the last campaigns", "open findings", "the latest findings", "a page of findings", "a page of campaigns", "a page of prices")

SORTS = "TEMP B-TREE FOR ORDER BY"
"""How SQLite's plan names a sort that no index spares."""


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_question_reads_a_whole_table(tmp_path: Path, question: str) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        archive.record(document(), uri="file:///store")
        plans = explained(archive, QUESTIONS[question])
    assert plans, "the question asked nothing"
    whole = [line for line in plans if line.startswith("SCAN ") and line.split()[1] in Base.metadata.tables]
    # In the order of an index and up to a limit is not the whole table.
    assert [line for line in whole if not (question in LIMITED and "USING INDEX" in line)] == []
    # Of the last campaigns, only their own trials are sorted: attempts of one trial stand together.
    assert question not in LIMITED[1:] or not any(SORTS in line for line in plans)


def test_the_check_above_can_fail(tmp_path: Path) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        assert any(line.startswith("SCAN trials") for line in explained(archive, lambda a: a.trials(kind="training")))


def explained(archive: Archive, ask: Callable[[Archive], Any]) -> list[str]:
    """What SQLite says it would do for every statement that a question makes."""
    asked: list[tuple[str, Any]] = []

    def note(_c: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
        if not many and statement.split()[0] in ("SELECT", "UPDATE", "DELETE"):
            asked.append((statement, parameters))

    event.listen(archive.engine, "before_cursor_execute", note)
    ask(archive)
    event.remove(archive.engine, "before_cursor_execute", note)
    with archive.engine.connect() as connection:
        connection.execute(text("SELECT 1"))
        return [
            str(row[3])
            for statement, parameters in asked
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        ]
