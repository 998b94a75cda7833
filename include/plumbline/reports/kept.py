"""Archived result documents as numbers, each read once by a process: an attempt's document never changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from pydantic import ValidationError

from plumbline.declarations import AnyWorkload, Provider
from plumbline.reports.numbers import numbers_of
from plumbline.results import ResultDocument
from plumbline.scorecards import TrialNumbers

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.archive.standing import AttemptView

MOST = 4096
"""Attempts that a process keeps, some 50 kB each: hundreds of series with a dozen trials."""


@dataclass(frozen=True)
class Kept:
    """What rankings need of one document: its numbers without costs and without the verdict of the quality checks, and what ran where."""

    numbers: TrialNumbers
    provider: Provider
    workload: AnyWorkload


_KEPT: dict[str, Kept] = {}
_LOCK = Lock()


def kept(archive: Archive, attempts: Sequence[AttemptView]) -> tuple[dict[int, Kept], list[tuple[AttemptView, str]]]:
    """By row number, what the attempts' documents say; and the attempts whose documents do not hold, with why in words."""
    with _LOCK:
        found = {a.trial_pk: _KEPT[a.checksum] for a in attempts if a.checksum in _KEPT}
    missing = [a for a in attempts if a.trial_pk not in found]
    damaged = []
    fresh: dict[str, Kept] = {}
    contents = archive.contents([a.trial_pk for a in missing])
    for attempt in missing:
        try:
            document = ResultDocument.model_validate_json(contents[attempt.trial_pk])
        except (KeyError, ValidationError) as error:
            why = "is not in the archive" if isinstance(error, KeyError) else f"does not hold: {error.errors(include_url=False)[0]['msg']}"
            damaged.append((attempt, f"the document of {attempt.trial_id}#{attempt.attempt} {why} (`plumbline archive verify`)"))
            continue
        one = Kept(numbers_of(document), document.trial.provider, document.trial.workload)
        found[attempt.trial_pk] = fresh[attempt.checksum] = one
    with _LOCK:
        _KEPT.update(fresh)
        while len(_KEPT) > MOST:
            del _KEPT[next(iter(_KEPT))]
    return found, damaged
