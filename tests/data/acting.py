"""Acting on findings without Airflow: a user, and runs that apply their action at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from plumbline.archive import open_archive
from plumbline.dashboard.acting import Acting, Actor
from plumbline.declarations import load
from plumbline.workflows.finding_action import ActionNotStarted, ActionRequest, ActionRun, AlreadyStarted, RunOfDag, apply_action
from plumbline.workflows.plan import paused_text


@dataclass
class AppliedRuns:
    """Applies each action at once; with `held` it stays queued. `reruns`: the DAGs that reruns start; `confs`: DAG and
    form of every request; `paused`: DAGs of which none starts."""

    archive_url: str
    held: bool = False
    runs: dict[str, ActionRun] = field(default_factory=dict)
    reruns: list[str] = field(default_factory=list)
    confs: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    paused: set[str] = field(default_factory=set)

    def start(self, request: RunOfDag, key: str, by: str) -> ActionRun:
        if key in self.runs:
            raise AlreadyStarted(self.runs[key])
        if stopped := self.paused & {request.dag_id, request.starts}:
            raise ActionNotStarted(paused_text(name := stopped.pop()), f"/dags/{name}")
        conf = request.to_conf()
        action, why = conf.get("action", "rerun"), conf.get("why") or conf["reason"]
        run = ActionRun(action, by, why, "queued" if self.held else "success", f"/dags/{request.dag_id}/runs/1")
        self.runs[key] = run
        self.confs.append((request.dag_id, conf))
        if not self.held and isinstance(request, ActionRequest):
            with open_archive(self.archive_url) as archive:
                rerun = apply_action(archive, load(), request, by, from_page=True)
            self.reruns += [rerun.dag_id] if rerun else []
        return run

    def latest(self) -> Mapping[str, ActionRun]:
        return self.runs


def acting_as(runs: AppliedRuns, name: str = "ann", may: bool = True, secret: str = "a secret") -> Acting:
    """`may`: whether the user may start runs of any DAG."""
    return Acting(lambda: Actor(f"id-{name}", name, lambda dag_id: may), runs, secret)
