"""Rows rebuilt from a bundle's result documents; a row that no document backs is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from plumbline.archive import published
from plumbline.archive.bundle.exporter import campaign_folder, document_path
from plumbline.archive.bundle.manifest import CampaignEntry
from plumbline.archive.bundle.tables import Row, Tables, metric_keys
from plumbline.archive.recording import child_rows, metric_rows, metric_values, series_row, trial_row
from plumbline.archive.schema import ACTIONS, Metric
from plumbline.results import Environment, InvalidResult, Reason, ResultDocument, bounded_json, evidence_files
from plumbline.results.launch_record import effective_environment, launch_metrics
from plumbline.results.published import PublishedResult

_NOT_IN_DOCUMENT = ("id", "quality_action", "quality_reasons", "uri", "recorded_at")
"""Columns of a trial that no document holds: the other archive's verdict, where its files lie, and when it was recorded."""
_KEY_PARTS = 7
_LAUNCH_METRICS = ("provisioning_lead_time", "pod_scheduling_time", "image_pull_time")


class Contradiction(ValueError):
    """The campaign contradicts its documents or the archive, and is refused as a whole."""


@dataclass(frozen=True)
class Attempt:
    """One attempt as its document says it, with what the bundle claims beside: a row of `trials`, and the document's text."""

    place: int
    document: ResultDocument | PublishedResult
    text: str
    row: Row

    def parts(self, beside: frozenset[tuple[str, str, str]]) -> Iterator[tuple[Any, list[Row]]]:
        """Tables with the rows that belong to the attempt. `beside`: which numbers of its launch the archive had, by phase, metric, statistic."""
        if isinstance(self.document, PublishedResult):
            yield Metric, [m.model_dump(exclude={"reason", "method"}) for m in self.document.metrics]
            return
        launch = self.document.launch
        extra = [m for m in (launch_metrics(launch) if launch else ()) if (m.phase, m.metric, m.statistic) in beside]
        yield Metric, metric_values(metric_rows(self.document, self.row["quality_action"], extra))
        yield from child_rows(self.document)


@dataclass
class Frame:
    """What the documents say of the campaign, its series and its environments."""

    campaigns: set[tuple[str, datetime]] = field(default_factory=set)
    members: set[tuple[str, datetime]] = field(default_factory=set)
    series: dict[str, Row] = field(default_factory=dict)
    environments: dict[str, Any] = field(default_factory=dict)

    def add(self, document: ResultDocument | PublishedResult) -> None:
        """Note what one document says; Contradiction if another one says something else of its series."""
        if isinstance(document, PublishedResult):
            series, planned = published.published_series_row(document), (document.reason, document.published_at)
            environment: Environment | None = document.environment
        else:
            series, environment = series_row(document), effective_environment(document)
            planned = (document.trial.reason, document.trial.planned_at)
            _check_series_key(document)
        key = series["series_key"]
        if self.series.setdefault(key, series) != series:
            raise Contradiction(f"its documents do not agree on the series {key}; expected one provider, workload and source")
        self.campaigns.add(planned)
        self.members.add((key, planned[1]))
        if environment is not None:
            self.environments[environment.environment_hash] = environment.facts

    def check(self, tables: Tables) -> None:
        """Contradiction for the first row of campaigns, series or environments that no document backs, or that is missing."""
        names = {"series": "series_key", "environments": "environment_hash"}
        for table, backed in (("series", self.series), ("environments", self.environments)):
            if differing := {row[names[table]] for row in tables[table]} ^ set(backed):
                raise Contradiction(f"{table}: {min(differing)} is in the rows or in the documents, not in both")
        for row in tables["series"]:
            _check_same(f"series {row['series_key']}", row, self.series[row["series_key"]])
        for row in tables["environments"]:
            if row["facts"] != self.environments[row["environment_hash"]]:
                raise Contradiction(f"the facts of environment {row['environment_hash']} are not those of its documents")
        if len(tables["campaigns"]) != 1 or (tables["campaigns"][0]["reason"], tables["campaigns"][0]["planned_at"]) not in self.campaigns:
            raise Contradiction("campaigns: its reason and planned_at are not those of any document")
        members = {(row["series_key"], row["planned_at"]) for row in tables["series_campaigns"]}
        if not members <= self.members or {key for key, _ in members} != set(self.series):
            raise Contradiction("series_campaigns: its rows are not those of the documents")


def read_attempts(folder: Path, campaign_id: str, entry: CampaignEntry, claims: Sequence[Row]) -> Iterator[Attempt]:
    """The attempts of a campaign, one at a time. Contradiction for a row without a document, or that differs from it."""
    for claim in claims:
        place, name = claim["id"], f"{claim['trial_id']}#{claim['attempt']}"
        file = f"{campaign_folder(campaign_id)}/{document_path(place)}"
        if file not in entry.files:
            raise Contradiction(f"{name}: no document backs its row; expected {file}")
        try:
            path = folder / file
            bounded_json.check_size(path.stat().st_size, file)
            raw = path.read_bytes()
            kind: type[Any] = PublishedResult if "publisher" in bounded_json.parse_object(raw, file) else ResultDocument
            document = bounded_json.validate_model(kind, raw, file)
        except InvalidResult as error:
            raise Contradiction(f"{name}: its document does not hold: {error}") from error
        yield Attempt(place, document, raw.decode(), _row(name, document, claim, campaign_id))


def launch_metric_keys(folder: Path, campaign_id: str, entry: CampaignEntry) -> dict[int, frozenset[tuple[str, str, str]]]:
    """Place of a trial → which numbers of its launch the other archive had: not every version recorded all of them."""
    file = f"{campaign_folder(campaign_id)}/metrics.parquet"
    keys: dict[int, set[tuple[str, str, str]]] = {}
    for place, *key in metric_keys(folder / file, _LAUNCH_METRICS) if file in entry.files else ():
        keys.setdefault(place, set()).add((key[0], key[1], key[2]))
    return {place: frozenset(those) for place, those in keys.items()}


def _row(name: str, document: ResultDocument | PublishedResult, claim: Row, campaign_id: str) -> Row:
    """The attempt's row from its document; the verdict and the address are the claim's, if they are ones."""
    if claim["quality_action"] not in ACTIONS:
        raise Contradiction(f"{name}: quality_action is {claim['quality_action']!r}; expected one of {', '.join(ACTIONS)}")
    try:
        reasons = [Reason.model_validate(reason) for reason in claim["quality_reasons"]]
    except (TypeError, ValueError):
        raise Contradiction(f"{name}: quality_reasons are no list of codes with details") from None
    recorded_at = claim["recorded_at"]
    if isinstance(document, PublishedResult):
        made = {**published.published_trial_row(document), "recorded_at": recorded_at}
    else:
        try:
            uri = evidence_files.check_address_form(claim["uri"])
        except InvalidResult as error:
            raise Contradiction(f"{name}: uri: {error}") from error
        made = trial_row(document, claim["quality_action"], reasons, uri, recorded_at)
    _check_same(name, claim, {column: value for column, value in made.items() if column not in _NOT_IN_DOCUMENT})
    if isinstance(document, PublishedResult):
        _check_same(name, claim, {"quality_action": made["quality_action"], "uri": made["uri"]})
    if made["campaign_id"] != campaign_id:
        raise Contradiction(f"{name}: its document is of the campaign {made['campaign_id']}")
    return {**made, "id": claim["id"]}


def _check_same(name: str, claim: Row, backed: Row) -> None:
    for column, expected in backed.items():
        if claim.get(column) != expected:
            raise Contradiction(f"{name}: {column} is {claim.get(column)} in the bundle; its document says {expected}")


def _check_series_key(document: ResultDocument) -> None:
    """That a series key names the document's own workload and provider: else it would join the numbers of another one."""
    trial, parts_of = document.trial, document.trial.series_key.split("/")
    where = [trial.provider.name, trial.provider.region, trial.provider.instance_type]
    if (
        len(parts_of) != _KEY_PARTS
        or parts_of[:2] != [trial.workload.kind, f"{trial.workload.name}@{trial.workload.version}"]
        or parts_of[-3:] != where
    ):
        raise Contradiction(f"{trial.trial_id}: series_key is {trial.series_key}, which does not name its workload and provider")
