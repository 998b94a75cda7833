"""What the pages of one app share: the one argument of each page's `router`."""

from __future__ import annotations

from dataclasses import dataclass, field

from plumbline.answers.active_runs import ReadActiveRuns
from plumbline.archive.shelves import Shelf
from plumbline.dashboard.acting import Acting
from plumbline.dashboard.rendering import PageRenderer
from plumbline.dashboard.sources import AnswerCache, ArchiveReader, DeclarationsReader


@dataclass(frozen=True)
class Site:
    """`reports`, `data_docs`, `sheets`: what workers wrote beside the results. `fleets`, `choices`: answers that several pages share. `acting`: how users act; None without
    buttons. `active_runs`: what Airflow runs now; None outside Airflow. `checked`: answers of `dashboard.checked`, each of a provider."""

    pages: PageRenderer
    reader: ArchiveReader
    declared: DeclarationsReader
    reports: Shelf
    data_docs: Shelf
    sheets: Shelf
    fleets: AnswerCache
    choices: AnswerCache
    acting: Acting | None = None
    active_runs: ReadActiveRuns | None = None
    checked: AnswerCache = field(default_factory=lambda: AnswerCache(1000))
