"""The status strip of the first page: findings, money, the best switch, what runs now and next, states, age."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Literal

from plumbline.analysis.campaign_data import MonthlyTotal
from plumbline.analysis.decisions.savings import Savings
from plumbline.answers.active_runs import ActiveRun
from plumbline.archive import FindingView
from plumbline.declarations import Declarations
from plumbline.declarations.purposes import is_monthly
from plumbline.findings.compared import Compared
from plumbline.launch.plan import next_slot
from plumbline.metrics.formatting import format_count, format_name
from plumbline.presentation.findings_inbox import count_severities
from plumbline.presentation.heat_map import SeriesStatus
from plumbline.presentation.series_summary import ORDER, format_age
from plumbline.presentation.tiles import Tile, lost_tile, saving_tile

_RUNS_NAMED = 3
_NOT_COMPARED = ("cannot_tell", "never_measured", "stale")


_COST_LATER = Tile("Best on cost", "…", "", "/?view=cost")
_CAMPAIGN_LATER = Tile("Newest campaign", "…", "", "/?view=reliability")
_AGE_LATER = Tile("Newest results", "…", "", "/?view=drift")


def status_tiles(
    unsettled: Sequence[FindingView],
    gravest: str,
    status: Mapping[tuple[str, str], SeriesStatus] | None,
    now: datetime,
    month: MonthlyTotal | None,
    savings: Savings | None,
    cheapest: Sequence[tuple[str, str]],
    active: Sequence[ActiveRun] | None,
    declared: Declarations,
) -> tuple[Tile, ...]:
    """The tiles. `unsettled`: open and acknowledged findings; `month`: their cost, None for a reader without access to money; `savings`:
    None without a stored decision; `cheapest`: (workload, provider). `gravest`: the gravest open finding in words.
    `active`: what runs now, None where Airflow cannot be asked. `status`: None before the results are read; what rests on them has its place."""
    open_findings = [f for f in unsettled if f.state == "open"]
    severities = {f.severity for f in open_findings}
    compared = None if status is None else Compared(sum(s.state.name not in _NOT_COMPARED for s in status.values()), len(status))
    none = "…" if compared is None else f"none; {compared.missing}" if compared.missing else "none"
    calm: Literal["", "good"] = "" if compared is None or compared.missing else "good"
    tiles = [
        Tile(
            "Open findings",
            str(len(open_findings)),
            f"{count_severities(open_findings)}: {gravest}" if open_findings else none,
            "/findings?state=open",
            "bad" if "page" in severities else "warn" if "warn" in severities else "" if open_findings else calm,
        )
    ]
    if month is not None:
        tiles += [lost_tile(month, compared), saving_tile(savings), *([_COST_LATER] if status is None else _cost_tile(cheapest))]
    campaign = [_CAMPAIGN_LATER] if status is None else _campaign_tile(status)
    running = [replace(t, note=_with_next_slot(t.note, declared, now)) for t in _running_tile(active, campaign, declared, now)]
    return (*tiles, *running, _AGE_LATER if status is None else _age_tile(status, now))


def _with_next_slot(note: str, declared: Declarations, now: datetime) -> str:
    slot = next_slot(declared, now)
    if slot is None:
        return note
    at, names = slot
    return f"{f'{note}; ' if note else ''}next {at:%Y-%m-%d %H:%M} UTC on {names[0] if len(names) == 1 else f'{len(names)} providers'}"


def _running_tile(active: Sequence[ActiveRun] | None, campaign: list[Tile], declared: Declarations, now: datetime) -> list[Tile]:
    """Airflow's runs, or the newest campaign if Airflow does not answer."""
    if active is None:
        return campaign
    if not active:
        idle = Tile("Running now", "nothing", "no campaign yet", "/providers")
        return [
            replace(c, name=idle.name, value=idle.value, note=f"newest campaign {c.value}: {c.note}" if c.note else "") for c in campaign
        ] or [idle]
    providers = {provider.dag_id: name for name, provider in declared.providers.items()}
    parts = [(providers.get(run.dag_id, run.dag_id), _progress(run, now)) for run in active]
    if len(parts) == 1:
        ((value, note),) = parts
    else:
        count = Counter(run.state for run in active)
        value = ", ".join(f"{count[state]} {state}" for state in ("running", "queued") if count[state])
        note = "; ".join(f"{name} {part}" for name, part in parts[:_RUNS_NAMED]) + ("; …" if len(parts) > _RUNS_NAMED else "")
    return [Tile("Running now", value, note, active[0].path, in_airflow=True)]


def _progress(run: ActiveRun, now: datetime) -> str:
    trials = f"{run.done} of {run.trials} trials " if run.trials else "queued " if run.state == "queued" else ""
    if run.since is None:
        return trials.strip() or "starting"
    day = "" if run.since.date() == now.date() else "%Y-%m-%d "
    return f"{trials}since {run.since.strftime(f'{day}%H:%M')} UTC"


def _campaign_tile(status: Mapping[tuple[str, str], SeriesStatus]) -> list[Tile]:
    """How far the newest monthly campaign is, without one the newest. An archive knows a trial once it is collected, so what is still to come is seen by its series."""
    newest = max(status.values(), key=lambda one: (is_monthly(one.campaign_id), one.planned_at, one.campaign_id), default=None)
    if newest is None:
        return []
    campaign_status = [series_status for series_status in status.values() if series_status.campaign_id == newest.campaign_id]
    usable, trials = sum(s.usable for s in campaign_status), sum(s.planned for s in campaign_status)
    note = f"{format_count(trials, 'trial')}, {trials - usable or 'none'} unusable; {len(campaign_status)} of {len(status)} series"
    return [Tile("Newest campaign", newest.campaign_id, note, f"/campaigns/{newest.campaign_id}", "" if usable == trials else "warn")]


def _age_tile(status: Mapping[tuple[str, str], SeriesStatus], now: datetime) -> Tile:
    states = Counter(series_status.state.name for series_status in status.values())
    newest = max((series_status.planned_at for series_status in status.values()), default=None)
    words = ", ".join(f"{states[name]} {format_name(name)}" for name in ORDER if states[name])
    text = f"of {len(status)} series: {words}" if status else "no results"
    age = format_age(newest, now) if newest else "never"
    return Tile("Newest results", age, text, "/?view=drift", "warn" if states["stale"] or states["drifted"] else "")


def _cost_tile(cheapest: Sequence[tuple[str, str]]) -> list[Tile]:
    """Who is cheapest for each workload; the first three in words."""
    if not cheapest:
        return []
    name, count = Counter(provider for _, provider in cheapest).most_common(1)[0]
    examples = [f"{workload}: {provider}" for workload, provider in cheapest[:3]]
    suffix = "; …" if len(cheapest) > 3 else ""
    return [Tile("Best on cost", name, f"on {count} of {len(cheapest)}. {'; '.join(examples)}{suffix}", "/?view=cost")]
