"""Parsed result documents, cached by checksum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from pydantic import ValidationError

from plumbline.analysis.document_sample import sample_of
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import AnyWorkload, Provider
from plumbline.results import ResultDocument

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.archive.samples import EffectiveAttempt

CACHE_SIZE = 4096
"""Attempts that a process keeps, some 50 kB each: hundreds of series with a dozen trials."""


@dataclass(frozen=True)
class CachedDocument:
    """What rankings need of one document: its numbers without costs and without the verdict of the quality checks, and what ran where."""

    numbers: TrialSample
    provider: Provider
    workload: AnyWorkload


_KEPT: dict[str, CachedDocument] = {}
_LOCK = Lock()


def cached_documents(
    archive: Archive, attempts: Sequence[EffectiveAttempt]
) -> tuple[dict[int, CachedDocument], list[tuple[EffectiveAttempt, str]]]:
    """By row number, what the attempts' documents say; and the attempts whose documents do not hold, with why in words."""
    with _LOCK:
        found = {a.trial_pk: _KEPT[a.checksum] for a in attempts if a.checksum in _KEPT}
    missing = [a for a in attempts if a.trial_pk not in found]
    damaged = []
    fresh: dict[str, CachedDocument] = {}
    contents = archive.contents([a.trial_pk for a in missing])
    for attempt in missing:
        try:
            document = ResultDocument.model_validate_json(contents[attempt.trial_pk])
        except (KeyError, ValidationError) as error:
            why = "is not in the archive" if isinstance(error, KeyError) else f"does not hold: {error.errors(include_url=False)[0]['msg']}"
            damaged.append((attempt, f"the document of {attempt.trial_id}#{attempt.attempt} {why} (`plumbline archive verify`)"))
            continue
        one = CachedDocument(sample_of(document), document.trial.provider, document.trial.workload)
        found[attempt.trial_pk] = fresh[attempt.checksum] = one
    with _LOCK:
        _KEPT.update(fresh)
        while len(_KEPT) > CACHE_SIZE:
            del _KEPT[next(iter(_KEPT))]
    return found, damaged
