"""Which providers are due for a short trial that looks from inside. No Airflow in here.

A look from outside sees labels and versions; clocks, memory and what a driver makes of them only a trial sees. So a declared workload is run
between the monthly campaigns (`watch.probe`), by the provider's own benchmark: its pool, its budget, its review. What the review finds
against the series' baseline, of the environment or of the hardware probes, is a finding like any other.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from plumbline.declarations import Declarations, Provider, series_key
from plumbline.orchestration.watched import watched

if TYPE_CHECKING:
    from plumbline.archive import Archive

_EARLY = timedelta(hours=12)
"""A daily run must not miss its day because the last trial ended some minutes later than this one begins."""


def due(archive: Archive, declared: Declarations, now: datetime) -> list[dict[str, Any]]:
    """The runs of benchmark DAGs to start now, as {trigger_dag_id, conf, trigger_run_id}; at most one a provider and day.

    The monthly campaign counts: what it measured of the workload needs no probe.
    """
    found = []
    for provider in (p for p in watched(declared) if p.watch.probe is not None):
        last = _last(archive, declared, provider)
        assert provider.watch.probe is not None
        if last is None or now - last >= timedelta(seconds=provider.watch.probe.every) - _EARLY:
            day = f"{now.astimezone(timezone.utc):%Y-%m-%d}"
            since = "the first one" if last is None else f"the last one was on {last:%Y-%m-%d}"
            conf = {
                "campaign": f"probe-{day}",
                "reason": f"short trial to look from inside; {since}",
                "workloads": [provider.watch.probe.workload],
            }
            found.append({"trigger_dag_id": provider.dag_id, "conf": conf, "trigger_run_id": f"probe_{provider.name}_{day}"})
    return found


def _last(archive: Archive, declared: Declarations, provider: Provider) -> datetime | None:
    """When the newest campaign of the workload on the provider was planned; None if there is none."""
    assert provider.watch.probe is not None
    key = series_key(declared.workloads[provider.watch.probe.workload], provider)
    return max((at for _, at in archive.series_campaigns(key, 1)), default=None)
