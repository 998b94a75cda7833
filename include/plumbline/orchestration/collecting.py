"""Bringing home the results of a campaign that reached their stores after its run had ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from plumbline.declarations import Trial
from plumbline.launch import stores
from plumbline.orchestration import steps
from plumbline.orchestration.lanes import LANES
from plumbline.results import BadResult, ResultStore

if TYPE_CHECKING:
    from plumbline.archive import Archive


@dataclass(frozen=True)
class Collected:
    """One trial of the campaign. `recorded`: the outcome of each attempt (see `recording.Outcome`); `quarantined`: why each document of it in
    quarantine was refused; `problem`: why the trial was not collected."""

    trial_id: str
    recorded: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()
    problem: str | None = None


def collect_campaign(archive: Archive, campaign_id: str) -> list[Collected]:
    """Collect, check and record every trial of the campaign that was ever launched; what the archive holds already stays.

    LookupError if the store holds no planned trial of the campaign.
    """
    store = stores.home()
    planned = list(_planned(store, campaign_id))
    if not planned:
        raise LookupError(f'{store.uri(campaign_id)}: no planned trial of a campaign "{campaign_id}" in the result store')
    done, ready = [], []
    for trial in planned:
        if not store.announced(campaign_id, trial.trial_id):
            continue
        try:
            steps.collect({"campaign_id": campaign_id, "trial_id": trial.trial_id})
        except (BadResult, OSError, ValueError) as error:
            done.append(Collected(trial.trial_id, problem=str(error)))
        else:
            ready.append(trial)

    def lane(trial: Trial) -> tuple[str, str]:
        return trial.provider.name, next(name for name, each in LANES.items() if each.takes(trial.workload))

    for (provider, name), trials in groupby(sorted(ready, key=lane), key=lane):
        specs = [{"campaign_id": campaign_id, "trial_id": trial.trial_id} for trial in trials]
        checked = steps.validate(provider, name, specs)
        done += [Collected(row["trial_id"], tuple(steps.record_in(archive, row)["recorded"])) for row in checked]
    refused = archive.quarantined(campaign_id=campaign_id)
    done = [replace(one, quarantined=tuple(q.reason for q in refused if q.trial_id == one.trial_id)) for one in done]
    return sorted(done, key=lambda one: one.trial_id)


def _planned(store: ResultStore, campaign_id: str) -> Iterator[Trial]:
    for trial_id in store.trial_ids(campaign_id):
        try:
            yield stores.planned(store, {"campaign_id": campaign_id, "trial_id": trial_id})
        except FileNotFoundError:
            continue  # a file beside the trials, or a folder that another version left
