"""Which series count in what stands now, and why the others do not."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plumbline.declarations import Declarations

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.archive.standing import NewestView

Place = tuple[str, str]
"""(provider, workload)"""


@dataclass(frozen=True)
class LeftOut:
    """What a provider measured of a workload and does not count, with why in words."""

    provider: str
    workload: str
    reason: str


def chosen(
    archive: Archive, declared: Declarations, simulated: bool, providers: Collection[str] | None = None
) -> tuple[list[NewestView], list[LeftOut]]:
    """The series that count, one for each provider and workload, and why the others do not; of these providers if named. Which ones are
    simulated, gone or of an older version is asked of the whole archive: an answer must not depend on which workloads or providers somebody
    looks at."""
    parts = archive.newest_usable(providers=providers)
    if providers is not None and not _alone(archive, declared, parts):
        parts = archive.newest_usable()
    left_out: list[LeftOut] = []

    def without(gone: Sequence[NewestView], why: str) -> None:
        left_out.extend(LeftOut(*place_of(part), why) for part in gone)

    made_up = [p for p in parts if p.series.source == "simulated"]
    real = [p for p in parts if p.series.source != "simulated"]
    if simulated:
        parts = made_up
        without(real, "it was measured, and the question is about simulated results")
    elif real or (providers is not None and archive.measured_anything()):
        parts = real
        without(made_up, "it is simulated, and simulated results never count beside measured ones")
    known = [p for p in parts if p.series.provider in declared.providers]
    if known:
        without([p for p in parts if p not in known], "the provider is no longer declared")
        parts = known
    newest = {name: max(p.series.version for p in parts if p.series.workload == name) for name in {p.series.workload for p in parts}}
    older = [p for p in parts if p.series.version < newest[p.series.workload]]
    for part in older:
        without([part], f"it ran version {part.series.version} of the workload, and the others ran version {newest[part.series.workload]}")
    parts = sorted((p for p in parts if p not in older), key=lambda p: (p.planned_at, p.series.series_key))
    if providers is not None:
        parts = [p for p in parts if p.series.provider in providers]
        left_out = [gone for gone in left_out if gone.provider in providers]
    # The same version with another engine, harness protocol or instance is another series: the newest one is what the provider shows now.
    return list({place_of(part): part for part in parts}.values()), left_out


def _alone(archive: Archive, declared: Declarations, parts: Sequence[NewestView]) -> bool:
    """Whether nothing that other providers ran can matter: all of these are declared, and ran the newest version that there is."""
    newest: dict[str, int] = {}
    for name in archive.workload_names():
        newest[name.workload] = max(name.version, newest.get(name.workload, 0))
    own: dict[Place, int] = {}
    for part in parts:
        own[place_of(part)] = max(part.series.version, own.get(place_of(part), 0))
    return all(provider in declared.providers and version == newest[workload] for (provider, workload), version in own.items())


def place_of(part: NewestView) -> Place:
    """The provider and the workload of a series."""
    return part.series.provider, part.series.workload
