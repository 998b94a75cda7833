"""A campaign while it runs: on a terminal a table that moves, elsewhere one line for each thing that happened."""

from __future__ import annotations

from types import TracebackType

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from plumbline.cli.output import err, table
from plumbline.declarations.reading import reading
from plumbline.orchestration.campaign_state import CampaignState, TrialState

_STAGES = {
    "starting": "Airflow is reading the DAGs",
    "measuring": "measuring",
    "reviewing": "comparing with the baseline",
    "reporting": "writing scorecards and report",
    "done": "done",
}
_STYLE = {"valid": "green", "degraded": "yellow", "invalid": "red", "failed": "red"}


class Watching:
    """Shows what it is told; use `with`, then call `status` and `state` as things happen."""

    def __init__(self) -> None:
        self._live = Live(console=err, refresh_per_second=4, transient=False) if err.is_terminal else None
        self._status = ""
        self._last: CampaignState | None = None
        self._said: dict[str, str] = {}

    def __enter__(self) -> Watching:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live:
            self._live.stop()

    def status(self, text: str) -> None:
        """What is going on around the campaign, such as Airflow's start."""
        if text != self._status:
            self._status = text
            self._update() if self._live else err.print(text, highlight=False, markup=False)

    def state(self, state: CampaignState) -> None:
        """A moment of the campaign."""
        before, self._last = self._last, state
        if self._live:
            self._status = _STAGES[state.stage]
            self._update()
            return
        if before is None or before.stage != state.stage:
            err.print(_STAGES[state.stage], highlight=False, markup=False)
        for trial in state.trials:
            said = f"{trial.phase} {trial.status or ''}".strip()
            # A trial is over when its verdict is known: that is one line, not two.
            if self._said.get(trial.trial_id, "waiting") != said and not (trial.phase in ("measured", "failed") and trial.status is None):
                self._said[trial.trial_id] = said
                took = f" in {reading(trial.seconds, 's')}" if trial.ended and trial.seconds is not None else ""
                left = f"; {state.ended} of {len(state.trials)} done{_left(state)}" if trial.ended else ""
                err.print(f"  {_name(trial)}: {trial.status or trial.phase}{took}{left}", highlight=False, markup=False)

    def _update(self) -> None:
        assert self._live is not None
        self._live.update(self._picture())

    def _picture(self) -> RenderableType:
        head = Text(self._status, style="bold")
        if self._last is None:
            return head
        head.append(f"   {self._last.ended} of {len(self._last.trials)} trials done{_left(self._last)}", style="dim")
        return Group(head, _table(self._last))


def _table(state: CampaignState) -> Table:
    shown = table("", "provider", "kind", "workload", "slot", "repeat", "", "time", "", right=("repeat", "time"))
    for trial in state.trials:
        bar: RenderableType = ProgressBar(total=1.0, completed=trial.fraction, width=24) if trial.phase == "running" else ""
        word = trial.status or {"not_run": "not run"}.get(trial.phase, trial.phase)
        what = f"{trial.doing} {trial.note}".strip() if trial.phase == "running" else word
        shown.add_row(
            trial.provider,
            trial.kind,
            trial.workload,
            trial.slot,
            str(trial.repeat),
            bar,
            "" if trial.seconds is None else reading(trial.seconds, "s"),
            Text(what, style=_STYLE.get(word, "" if trial.phase == "running" else "dim"), overflow="ellipsis", no_wrap=True),
        )
    return shown


def _name(trial: TrialState) -> str:
    return f"{trial.provider} {trial.kind} {trial.workload} {trial.slot} r{trial.repeat}"


def _left(state: CampaignState) -> str:
    if state.seconds_left is None or state.stage != "measuring" or state.ended == len(state.trials):
        return ""
    return f", about {reading(max(state.seconds_left, 1), 's')} left"
