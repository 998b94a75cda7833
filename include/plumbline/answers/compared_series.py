"""How many series were compared with a baseline: what finding nothing may be said of."""

from __future__ import annotations

from plumbline.archive import Archive
from plumbline.findings.compared import Compared


def compared_series(archive: Archive, provider: str | None = None) -> Compared:
    """Of all series with usable results, or of those of one provider."""
    from plumbline.analysis.drift.series_state import SeriesState  # here: it imports numpy, which a list of findings starts without

    keys = [part.series.series_key for part in archive.newest_usable() if provider in (None, part.series.provider)]
    reviews = archive.newest_reviews(keys) if keys else {}
    return Compared(sum(SeriesState.of(review).state != "cannot_tell" for review in reviews.values()), len(keys))
