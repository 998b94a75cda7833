"""Whether the checks between campaigns are made, and are dated by a clock that is right."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.exc import SQLAlchemyError

from plumbline.answers.availability_histories import CHECK_KINDS
from plumbline.archive import Archive, NoArchive
from plumbline.archive.archive import existing_engine
from plumbline.declarations import Declarations
from plumbline.launch.doctor_check import DoctorCheck, failed, ok, skipped, unknown
from plumbline.metrics.formatting import format_count, shorten
from plumbline.workflows.check_availability import watched
from plumbline.workflows.check_watches import watch_failures

_CHECK = "checks between campaigns"


def watches(archive_url: str, declared: Declarations | None, now: datetime) -> DoctorCheck:
    """Fails with the first watch that is silent, or whose checks are dated ahead."""
    if declared is None:
        return unknown(_CHECK, "the declarations, which name the watches, are broken", "valid declarations")
    names = watched(declared)
    try:
        with Archive(existing_engine(archive_url)) as archive:
            failures = list(watch_failures(archive, declared, now))
            never = [
                f"{provider.name} {kind}"
                for provider in (declared.providers[name] for name in names)
                for kind in CHECK_KINDS
                if provider.watch.of(kind) and archive.latest_availability_check(provider.name, kind, provider.simulated, now) is None
            ]
    except NoArchive:
        return skipped(_CHECK, "not applicable yet: the first check makes the archive")
    except (SQLAlchemyError, ValueError, OSError) as error:
        return unknown(_CHECK, f"the archive cannot be asked: {error}".partition("\n")[0], "an archive that answers")
    if failures:
        more = f", and {len(failures) - 1} more" if len(failures) > 1 else ""
        return failed(_CHECK, f"{failures[0].title}{more}: {failures[0].cause}", failures[0].remedy)
    if not names:
        return skipped(_CHECK, "not applicable: no provider declares watch.uptime or watch.capacity")
    if never:
        return unknown(_CHECK, f"{shorten(never, 3)}: not checked yet", "wait for `availability_watch`, which starts hourly")
    return ok(_CHECK, f"{format_count(len(names), 'provider')}, none silent for three intervals")
