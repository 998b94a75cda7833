"""What rests on checks between campaigns and on the operations log, cached by provider until one of them grows: promises and availability."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from datetime import datetime
from typing import TypeVar

from plumbline.analysis.availability import AvailabilityHistory
from plumbline.answers.availability_histories import availability_histories
from plumbline.answers.promises import ProviderPromises, provider_promises
from plumbline.archive import Archive
from plumbline.dashboard.rendering import IMMEDIATE_PROVIDERS
from plumbline.dashboard.site import Site

T = TypeVar("T")


def judged_promises(site: Site, money: bool, names: Sequence[str], wait: bool) -> dict[str, ProviderPromises | None]:
    """By provider, its promises; None for those that `answers_of` leaves out."""
    archive, shown = site.reader.archive(money), site.declared.now(money)
    return answers_of(site, archive, money, ("promises",), names, wait, lambda name: provider_promises(archive, shown, name))


def cached_histories(site: Site, archive: Archive, money: bool, provider: str) -> tuple[AvailabilityHistory, ...]:
    """Of its last three months, as the provider's page shows them; empty for one that is not declared."""
    declared = site.declared.now()
    if provider not in declared.providers:
        return ()

    def make(name: str) -> tuple[AvailabilityHistory, ...]:
        return availability_histories(archive, declared.providers[name], site.pages.now())

    return answers_of(site, archive, money, ("watches",), [provider], True, make)[provider] or ()


def month_histories(
    site: Site, money: bool, names: Sequence[str], until: datetime, wait: bool
) -> dict[str, tuple[AvailabilityHistory, ...] | None]:
    """By provider, what its watches saw in the month of `until`; None for those that `answers_of` leaves out."""
    declared, archive = site.declared.now(), site.reader.archive(money)

    def make(name: str) -> tuple[AvailabilityHistory, ...]:
        return availability_histories(archive, declared.providers[name], until, 1, hours=False)

    return answers_of(site, archive, money, ("month", f"{until:%Y-%m}"), names, wait, make)


def answers_of(
    site: Site,
    archive: Archive,
    money: bool,
    query: tuple[Hashable, ...],
    names: Sequence[str],
    wait: bool,
    make: Callable[[str], T],
) -> dict[str, T | None]:
    """By provider, the answer as of its newest check and log entry. Without `wait`, None for those that are not cached where more than
    IMMEDIATE_PROVIDERS of them have trials or checks."""
    known, today = site.declared.now(), site.pages.now().date()
    checks, logged = archive.newest_checks(names, site.pages.now()), archive.operations_logged()
    keys = {name: (*query, money, name, tuple(sorted(checks.get(name, ()))), logged.get(name, 0)) for name in names}

    def answer(name: str, waits: bool) -> T | None:
        return site.checked.get_if(waits, archive, known, today, keys[name], lambda: make(name))

    found = {name: answer(name, False) for name in names}
    missing = [name for name, one in found.items() if one is None]
    if wait or len({*archive.provider_names(), *checks}.intersection(missing)) <= IMMEDIATE_PROVIDERS:
        found |= {name: answer(name, True) for name in missing}
    return found
