"""Run a campaign through a running Airflow: trigger the benchmark DAGs, follow the trials, wait for reviews and the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Literal

from plumbline.declarations import DeclarationError, Declarations, Trial, installation_paths, load
from plumbline.declarations.dag_ids import REPORT_DAG, REVIEW_DAG
from plumbline.embedded.client import AirflowClient, AirflowError, DagRun, TaskInstance, end_active_runs, pause_again, unpause
from plumbline.embedded.server import AirflowServer
from plumbline.harness.launcher_protocol import ProgressLine
from plumbline.launch.local.machine_access import end_abandoned
from plumbline.launch.plan import RunRequest
from plumbline.launch.progress import progress_file, read_progress, remove_provider_progress
from plumbline.results import InvalidResult, ResultStore
from plumbline.workflows.plan import dag_conf, trial_groups

Phase = Literal["waiting", "running", "measured", "failed", "not_run"]
Stage = Literal["starting", "measuring", "reviewing", "reporting", "done"]


@dataclass(frozen=True)
class TrialState:
    """One planned trial. `fraction` (0…1), `doing` and `note`: progress of a running one; `seconds`: its time so far; `status`: the verdict of
    the collected document (valid, degraded, invalid, failed), `why`: its first reason."""

    trial_id: str
    provider: str
    kind: str
    workload: str
    slot: str
    repeat: int
    phase: Phase = "waiting"
    fraction: float = 0.0
    doing: str = ""
    note: str = ""
    seconds: float | None = None
    status: str | None = None
    why: str = ""

    @classmethod
    def of(cls, trial: Trial) -> TrialState:
        return cls(trial.trial_id, trial.provider.name, trial.workload.kind, trial.workload.name, trial.slot, trial.repeat)

    @property
    def ended(self) -> bool:
        return self.phase not in ("waiting", "running")

    def after(self, task: TaskInstance | None, progress: ProgressLine | None, now: datetime) -> TrialState:
        """The trial's state from its `run` task in Airflow (None: not there yet) and its own progress."""
        ran = ((task.ended_at or now) - task.started_at).total_seconds() if task and task.started_at else None
        if task and task.state == "success":
            return replace(self, phase="measured", fraction=1.0, doing="", note="", seconds=ran)
        if task and task.state == "failed":
            return replace(self, phase="failed", doing="", note="", seconds=ran)
        if task and task.ended:
            return replace(self, phase="not_run", doing="", note="")
        if progress is None:
            if task is None:
                return self
            if task.state != "running":
                return replace(self, phase="waiting", fraction=0.0, doing="again" if task.try_number > 1 else "", note="", seconds=None)
            return replace(self, phase="running", doing=self.doing or "starting", seconds=ran)
        # A trial with progress is running: Airflow's answer may be many seconds old.
        return replace(self, phase="running", fraction=progress.fraction, doing=progress.phase, note=progress.note, seconds=ran)


@dataclass(frozen=True)
class CampaignState:
    """`seconds_left`: an estimate for the remaining trials, None until the first one has ended. `broken`: problems of declarations that were
    changed meanwhile; Airflow goes on by the last valid ones."""

    campaign_id: str
    stage: Stage
    trials: tuple[TrialState, ...]
    seconds_left: float | None = None
    broken: str = ""

    @property
    def ended(self) -> int:
        """The number of trials that ended, in any way."""
        return sum(trial.ended for trial in self.trials)

    @property
    def running(self) -> tuple[TrialState, ...]:
        return tuple(trial for trial in self.trials if trial.phase == "running")


def update_states(
    trials: Sequence[TrialState],
    runs: Mapping[str, TaskInstance],
    progress: Mapping[str, ProgressLine | None],
    now: datetime | None = None,
) -> tuple[TrialState, ...]:
    """`runs` and `progress`: by trial id."""
    moment = now or datetime.now(timezone.utc)
    return tuple(t.after(runs.get(t.trial_id), progress.get(t.trial_id), moment) for t in trials)


def seconds_left(trials: Sequence[TrialState], since_first: float | None) -> float | None:
    """Seconds until the last trial ends: each is expected to take as long as the ended ones of its workload, else as all ended ones.

    `since_first`: seconds since the first trial began; its share between trials (queueing, collecting) counts too.
    """
    done = [t for t in trials if t.phase in ("measured", "failed") and t.seconds is not None]
    if not done or since_first is None:
        return None
    busy = sum(t.seconds or 0.0 for t in trials)
    overhead = max(since_first / busy, 1.0) if busy else 1.0
    return overhead * sum(_remaining_s(t, done) for t in trials if not t.ended)


def _remaining_s(trial: TrialState, done: Sequence[TrialState]) -> float:
    alike = [t for t in done if t.workload == trial.workload and t.provider == trial.provider]
    alike = alike or [t for t in done if t.workload == trial.workload] or list(done)
    expected = sum(t.seconds or 0.0 for t in alike) / len(alike)
    return max(expected - (trial.seconds or 0.0), expected * (1 - trial.fraction) * 0.1, 0.0)


REVIEW, REPORT = REVIEW_DAG, REPORT_DAG
_PARSE_LIMIT_S, _REVIEW_LIMIT_S = 120.0, 120.0
# A process on this machine ends within seconds; deleting pods, which cost money, may take a triggerer half a minute.
_STOP_LIMIT_S, _STOP_PODS_LIMIT_S = 20.0, 45.0
# A trial's progress is a small file; a request to Airflow costs CPU time beside the measurement.
_POLL_EVERY_S, _POLL_WHILE_MEASURING_S, _REPORT_EVERY_S = 1.0, 15.0, 0.5
_LOG_LINES = 12
_RESTART_LIMIT_S = 90.0
"""How long requests are retried: the supervisor restarts an API server within half a minute, also on a busy machine."""

OnState = Callable[[CampaignState], None]


class CampaignError(RuntimeError):
    """The campaign could not run; none of its processes is left."""


@dataclass(frozen=True)
class CampaignOutcome:
    """`problems`: failures of our own steps, one text each; failed trials are data, in `trials`. `report`: path or URL of the HTML file, None without one."""

    campaign_id: str
    trials: tuple[TrialState, ...]
    report: str | None
    problems: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every trial has a result and every step succeeded."""
        return not self.problems and all(t.phase == "measured" for t in self.trials)


def run_campaign(
    server: AirflowServer, declared: Declarations, request: RunRequest, planned: dict[str, list[Trial]], on_state: OnState
) -> CampaignOutcome:
    """Measure the planned trials, review and report them. Blocks; calls `on_state` about twice a second.

    On any exit, Ctrl-C too, its runs and trials are ended. Raises CampaignError, ServerError or AirflowError.
    """
    with server.client(patience_s=_RESTART_LIMIT_S) as client:
        trials = tuple(TrialState.of(t) for several in planned.values() for t in several)
        campaign = _Campaign(server, client, declared, request, planned, on_state, trials)
        with campaign.dags_ready(), campaign.nothing_left_running():
            return campaign.run()


def broken_declarations() -> str:
    """Their problems, a line each; empty if they are valid."""
    try:
        load()
    except DeclarationError as error:
        return str(error)
    return ""


@dataclass
class _Campaign:
    """`runs`: the benchmark runs by provider; `others`: their reviews and the report."""

    server: AirflowServer
    client: AirflowClient
    declared: Declarations
    asked: RunRequest
    planned: dict[str, list[Trial]]
    on_state: OnState
    trials: tuple[TrialState, ...]
    stage: Stage = "starting"
    runs: dict[str, DagRun] = field(default_factory=dict)
    others: list[DagRun] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    began: datetime | None = None
    declared_at: int = 0
    broken: str = ""

    def run(self) -> CampaignOutcome:
        self.stage = "measuring"
        self._measure()
        self.stage = "reviewing"
        self._review()
        self.stage = "reporting"
        report = self._report()
        self.stage = "done"
        self._report_state()
        return CampaignOutcome(self.asked.campaign_id, self.trials, report, tuple(self.problems))

    @contextmanager
    def dags_ready(self) -> Iterator[None]:
        """All DAGs parsed from the current files and unpaused; afterwards paused as before."""
        dag_ids = [*(self.declared.providers[name].dag_id for name in self.planned), REVIEW, REPORT]
        deadline = time.monotonic() + _PARSE_LIMIT_S
        while True:
            self.server.check()
            known = self.client.dags()
            late = [d for d in dag_ids if d not in known or (known[d].parsed_at or self.server.started_at) <= self.server.started_at]
            if not late:
                break
            if errors := self.client.import_errors(self.server.started_at):
                raise CampaignError("\n".join(f"{file}: {text.strip()}" for file, text in errors.items()))
            if time.monotonic() > deadline:
                raise CampaignError(f"Airflow has not read the DAGs {', '.join(late)} after {_PARSE_LIMIT_S:g} s")
            self._report_state()
            time.sleep(_REPORT_EVERY_S)
        try:
            for dag_id in dag_ids:
                end_active_runs(self.client, dag_id)
            for name, trials in self.planned.items():
                self.runs[name] = self.client.trigger(self.declared.providers[name].dag_id, dag_conf(self.asked, trials))
            # Only now, so that no due slot runs before the requested trials.
            unpause(self.server.home, self.client, dag_ids)
            yield
        finally:
            with suppress(AirflowError):
                pause_again(self.server.home, self.client)

    @contextmanager
    def nothing_left_running(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            with suppress(AirflowError):
                self._stop()
            raise
        finally:
            end_abandoned(installation_paths().work)
            for provider in self.planned:  # a killed task, of this or an earlier campaign, left its file
                remove_provider_progress(provider)

    def _stop(self) -> None:
        started = [*self.runs.values(), *self.others]
        for run in started:
            if not self.client.run(run.dag_id, run.run_id).ended:
                self.client.end_run(run.dag_id, run.run_id, "stopped by the command that started it")
        pods = any(self.declared.providers[name].launcher.outlasts_task for name in self.planned)
        deadline = time.monotonic() + (_STOP_PODS_LIMIT_S if pods else _STOP_LIMIT_S)
        while time.monotonic() < deadline and any(progress_file(t.trial_id).exists() for t in self.trials):
            time.sleep(0.2)

    def _measure(self) -> None:
        states: dict[str, tuple[DagRun, list[TaskInstance]]] = {}
        polled = float("-inf")
        while True:
            self.server.check()
            progress = {t.trial_id: read_progress(t.trial_id) for t in self.trials if not t.ended}
            patience = _POLL_WHILE_MEASURING_S if any(progress.values()) else _POLL_EVERY_S
            if time.monotonic() - polled >= patience:
                polled = time.monotonic()
                self._check_declarations()
                for name, run in self.runs.items():
                    if name not in states or not states[name][0].ended:
                        # The run before its tasks: the tasks of an ended run do not change.
                        now = self.client.run(run.dag_id, run.run_id)
                        states[name] = (now, self.client.tasks(run.dag_id, run.run_id))
            tasks = {t.trial_id: i for name, (_, instances) in states.items() for t, i in self._by_trial(name, instances)}
            self.began = min((i.started_at for i in tasks.values() if i.started_at), default=None)
            self.trials = update_states(self.trials, tasks, progress)
            self.trials = tuple(self._with_status(t) for t in self.trials)
            self._report_state()
            if states and all(run.ended for run, _ in states.values()):
                break
            time.sleep(_REPORT_EVERY_S)
        for name, (run, instances) in states.items():
            if run.state != "success":
                self._explain(name, run, instances)

    def _check_declarations(self) -> None:
        """Read them only when they were changed: the machine measures."""
        config = installation_paths().config
        with suppress(FileNotFoundError):  # one is being replaced
            changed = max(path.stat().st_mtime_ns for path in (config, *config.rglob("*")))
            if changed != self.declared_at:
                self.declared_at, self.broken = changed, broken_declarations()

    def _by_trial(self, provider: str, tasks: Sequence[TaskInstance]) -> Iterator[tuple[Trial, TaskInstance]]:
        for lane in trial_groups(self.declared, self.declared.providers[provider]):
            planned = lane.of(self.planned[provider])
            for task in tasks:
                if task.task_id == f"{lane.name}.trial.run" and 0 <= task.map_index < len(planned):
                    yield planned[task.map_index], task

    def _with_status(self, trial: TrialState) -> TrialState:
        if trial.status is not None or trial.phase not in ("measured", "failed"):
            return trial
        store = ResultStore(installation_paths().results_url)
        for folder in reversed(store.attempts(self.asked.campaign_id, trial.trial_id)):
            with suppress(FileNotFoundError, InvalidResult):
                found = store.collected(folder).validity
                return replace(trial, status=found.status, why=next((reason.detail for reason in found.reasons), ""))
        return trial

    def _review(self) -> None:
        """Wait for the reviews of our results; asset events identify them."""
        wanted = {(self.asked.campaign_id, name) for name, run in self.runs.items() if self._published(run)}
        deadline = time.monotonic() + _REVIEW_LIMIT_S
        reviews: dict[str, DagRun] = {}
        while wanted:
            self.server.check()
            for run in self.client.runs(REVIEW, self.server.started_at):
                reviewed = {(e.get("campaign_id"), e.get("provider")) for e in self.client.upstream_events(REVIEW, run.run_id)}
                if reviewed & wanted:
                    reviews[run.run_id] = run
                    self.others = list(reviews.values())
                    if run.ended:
                        wanted -= reviewed
                        if run.state != "success":
                            self._explain(REVIEW, run, self.client.tasks(REVIEW, run.run_id))
            if wanted and time.monotonic() > deadline:
                self.problems.append(f"no drift review of {', '.join(sorted(name for _, name in wanted))} after {_REVIEW_LIMIT_S:g} s")
                return
            self._report_state()
            time.sleep(_POLL_EVERY_S)

    def _published(self, run: DagRun) -> bool:
        return any(t.task_id == "publish" and t.state == "success" for t in self.client.tasks(run.dag_id, run.run_id))

    def _report(self) -> str | None:
        if not any(self._published(run) for run in self.runs.values()):
            return None
        run = self.client.trigger(REPORT, {"campaign": self.asked.campaign_id})
        self.others.append(run)
        while not run.ended:
            self.server.check()
            self._report_state()
            time.sleep(_POLL_EVERY_S)
            run = self.client.run(REPORT, run.run_id)
        if run.state != "success":
            self._explain(REPORT, run, self.client.tasks(REPORT, run.run_id))
            return None
        return str(self.client.xcom(REPORT, run.run_id, "report"))

    def _explain(self, name: str, run: DagRun, tasks: Sequence[TaskInstance]) -> None:
        """Add our own failed tasks with the ends of their logs; a failed `run` is data."""
        for task in tasks:
            if task.state == "failed" and not task.task_id.endswith(".trial.run"):
                log = self.client.task_log(run.dag_id, run.run_id, task).splitlines()[-_LOG_LINES:]
                self.problems.append(f"{name}: {task.task_id}{f' ({task.name})' if task.name else ''} failed:\n" + "\n".join(log))

    def _report_state(self) -> None:
        since = (datetime.now(timezone.utc) - self.began).total_seconds() if self.began else None
        self.on_state(CampaignState(self.asked.campaign_id, self.stage, self.trials, seconds_left(self.trials, since), self.broken))
