"""Collect trials: a document for each attempt, however it ended; for a campaign also what was never recorded."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from plumbline.archive import Archive
from plumbline.declarations import Trial
from plumbline.launch import stores
from plumbline.launch.collect import collect as collected
from plumbline.launch.failures import Interrupted
from plumbline.launch.registry import launcher_for
from plumbline.results import InvalidResult, ResultStore
from plumbline.workflows.lane_outcome import Row, each_trial
from plumbline.workflows.plan import TRIAL_GROUPS
from plumbline.workflows.record import complete_corrections, record_trial
from plumbline.workflows.validate import validate_group

_log = logging.getLogger(__name__)


def collect_trial(spec: Mapping[str, str], *, settle: bool = False) -> Row:
    """Require a document for each attempt of the trial, however it ended; returns how the last one ended.

    `settle`: the task that ran the trial has ended, so its leftovers on a cluster are deleted and recorded first.
    """
    if settle:
        launcher_for(stores.planned_trial(stores.home(), spec).provider).settle(spec)
    documents = collected(stores.home(), spec["campaign_id"], spec["trial_id"])
    last = documents[-1].validity
    return {"trial_id": spec["trial_id"], "attempts": len(documents), "status": last.status, "failure_class": last.failure_class}


def collect_or_leave(spec: Mapping[str, str]) -> None:
    """Collect a trial at the end of its own task. What fails is left to `collect_group`: a task that failed here would measure again."""
    try:
        collect_trial(spec)
    except Interrupted:
        raise
    except Exception as error:  # noqa: BLE001 - the lane's `collect` meets it again, retries and names it
        _log.warning("%s is not collected yet: %s", spec["trial_id"], error)


def collect_group(specs: Iterable[Mapping[str, str]]) -> None:
    """Collect the trials of one lane, whose tasks have ended: what they left on a cluster, failed trials, which may have a result by now, and
    what could not be collected before. The others go on if one fails."""
    store = stores.home()
    left = (spec for spec in specs if not _is_home(store, spec))
    each_trial(left, lambda spec: collect_trial(spec, settle=True), "collected").require_all()


def _is_home(store: ResultStore, spec: Mapping[str, str]) -> bool:
    """Whether each attempt has a collected document of a trial that did not fail."""
    folders = store.announced(spec["campaign_id"], spec["trial_id"])
    try:
        return bool(folders) and all(store.collected(folder).validity.status != "failed" for folder in folders)
    except (FileNotFoundError, InvalidResult):
        return False


@dataclass(frozen=True)
class CollectedTrial:
    """`recorded`: the outcome of each attempt; `quarantined`: why each quarantined document was refused; `problem`: why nothing was collected."""

    trial_id: str
    recorded: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()
    problem: str | None = None


def collect_campaign(archive: Archive, campaign_id: str) -> list[CollectedTrial]:
    """Collect, check and record every launched trial of the campaign; recorded ones stay.

    LookupError if the store holds no planned trial of the campaign.
    """
    store = stores.home()
    planned = list(_planned(store, campaign_id))
    if not planned:
        raise LookupError(f'{store.uri(campaign_id)}: the result store has no planned trial of campaign "{campaign_id}"')
    complete_corrections(archive, campaign_id)
    done, ready = [], []
    for trial in planned:
        if not store.announced(campaign_id, trial.trial_id):
            continue
        try:
            collect_trial({"campaign_id": campaign_id, "trial_id": trial.trial_id})
        except (InvalidResult, OSError, ValueError) as error:
            done.append(CollectedTrial(trial.trial_id, problem=str(error)))
        else:
            ready.append(trial)

    def lane(trial: Trial) -> tuple[str, str]:
        return trial.provider.name, next(name for name, each in TRIAL_GROUPS.items() if each.takes(trial.workload))

    for (provider, name), trials in groupby(sorted(ready, key=lane), key=lane):
        specs = [{"campaign_id": campaign_id, "trial_id": trial.trial_id} for trial in trials]
        checked = validate_group(provider, name, specs)
        done += [CollectedTrial(row["trial_id"], tuple(record_trial(archive, row)["recorded"])) for row in checked]
    refused = archive.quarantined(campaign_id=campaign_id)
    done = [replace(one, quarantined=tuple(q.reason for q in refused if q.trial_id == one.trial_id)) for one in done]
    return sorted(done, key=lambda one: one.trial_id)


def _planned(store: ResultStore, campaign_id: str) -> Iterator[Trial]:
    for trial_id in store.trial_ids(campaign_id):
        try:
            yield stores.planned_trial(store, {"campaign_id": campaign_id, "trial_id": trial_id})
        except FileNotFoundError:
            continue  # a file beside the trials, or a folder that another version left
