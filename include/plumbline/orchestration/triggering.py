"""Start benchmarks of several providers on demand, as one campaign: the form's DAG and `plumbline trigger` come this way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from plumbline.declarations import Declarations
from plumbline.launch.plan import PlanError
from plumbline.orchestration.airflow_client import AirflowClient, AirflowError
from plumbline.orchestration.asked import Asked
from plumbline.orchestration.campaign_plan import conf_of, planned_trials
from plumbline.orchestration.pools import DESCRIPTION, slots_of

if TYPE_CHECKING:
    from plumbline.archive import Archive


class NotStarted(Exception):
    """Nothing was started; the message says why, one line a provider, and what to do."""


@dataclass(frozen=True)
class Start:
    """A run of a provider's benchmark DAG: `conf` is what its form takes. `trials`: how many it will plan, `left_out` how many more the
    budget does not carry; `budget`: what is left of that after them, in words, None without one. `pool`: where its trials wait, with `slots`."""

    provider: str
    dag_id: str
    conf: dict[str, Any]
    trials: int
    left_out: int = 0
    budget: str | None = None
    pool: str = ""
    slots: int = 1


@dataclass(frozen=True)
class Started:
    """A run that was started. `waits_for`: the run before it, of which each DAG has one at a time; None if there is none."""

    start: Start
    run_id: str
    state: str
    waits_for: str | None


def starts(declared: Declarations, asked: Asked, providers: Sequence[str]) -> list[Start]:
    """What answers `asked` on the providers, one campaign; PlanError if something does not exist or fit, or without a reason."""
    if not asked.reason.strip():
        raise PlanError('no reason was given; expected a few words that stay with every result, such as "driver upgrade on 12 November"')
    planned = planned_trials(declared, asked, providers)
    if idle := sorted(set(providers) - set(planned)):
        raise PlanError(
            f"nothing of what was asked for runs on {', '.join(idle)}; expected workloads that do: `plumbline check` shows them"
        )
    slots = slots_of(declared.enabled_providers())
    wanted = ((declared.providers[name], trials) for name, trials in planned.items())
    return [Start(p.name, p.dag_id, conf_of(asked, trials), len(trials), pool=p.pool, slots=slots[p.pool]) for p, trials in wanted]


def within_budgets(archive: Archive, declared: Declarations, asked: Asked, wanted: Sequence[Start]) -> list[Start]:
    """The same, with what their budgets carry of it; NotStarted if a budget carries nothing, naming each such provider."""
    from plumbline.orchestration.budget import cuts, how_to_go_on

    planned = planned_trials(declared, asked, [start.provider for start in wanted])
    done = cuts(archive, declared, planned, datetime.now(timezone.utc))
    if spent := [one for one in done.values() if not one.kept]:
        raise NotStarted("\n".join(f"{one}. To go on: {how_to_go_on(one.provider)}" for one in spent))
    return [
        replace(start, trials=len(one.kept), left_out=len(one.left_out), budget=str(one.after))
        if (one := done.get(start.provider))
        else start
        for start in wanted
    ]


def trigger(client: AirflowClient, wanted: Sequence[Start]) -> list[Started]:
    """Start every run, or none: NotStarted if a DAG is not there or paused, or has no pool, so that its run would wait unseen.

    The pool of a provider that was enabled while Airflow runs is made first.

    AirflowError if Airflow fails or refuses one all the same; its message says which were started before.
    """
    known = client.dags()
    problems = []
    for start in wanted:
        dag = known.get(start.dag_id)
        if dag is None or dag.is_stale:
            problems.append(f"{start.dag_id} is not in that Airflow: does it read the same declarations, and has it read them by now?")
        elif dag.is_paused:
            problems.append(
                f"{start.dag_id} is paused, and its run would wait unseen: unpause it there, or by `plumbline airflow dags unpause {start.dag_id}`"
            )
    if not problems:
        problems = [problem for start in wanted if (problem := _pool_missing(client, start)) is not None]
    if problems:
        raise NotStarted("\n".join(problems))
    started: list[Started] = []
    for start in wanted:
        try:
            before = client.active_runs(start.dag_id)
            run = client.trigger(start.dag_id, start.conf)
        except AirflowError as error:
            already = ", ".join(f"{one.start.dag_id} {one.run_id}" for one in started)
            raise AirflowError(f"{start.dag_id}: {error}\nstarted before: {already or 'none'}") from error
        started.append(Started(start, run.run_id, run.state, before[-1].run_id if before else None))
    return started


def _pool_missing(client: AirflowClient, start: Start) -> str | None:
    """Make the pool if there is none; why that cannot be done, None if it is there."""
    try:
        if not client.has_pool(start.pool):
            client.put_pool(start.pool, start.slots, DESCRIPTION)
    except AirflowError as error:
        return (
            f"{start.dag_id} has no pool {start.pool} and its trials would wait for ever; it could not be made ({error}): "
            f"`docker compose run --rm init` makes it"
        )
    return None
