"""Actions of a person on a finding, from a page or a form of Airflow: acknowledge, accept, reject, resolve, snooze, rerun, reopen, mark its claim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Protocol, cast, get_args

from plumbline.answers.claim_marks import ClaimState
from plumbline.archive import Archive, FindingView
from plumbline.declarations import Declarations
from plumbline.findings.types import rests_on_prices, type_of
from plumbline.metrics.units import SECONDS, parse
from plumbline.results.finding import Finding
from plumbline.results.stored import read_finding
from plumbline.workflows.baseline_decision import Answer, Rerun, apply_answer, can_reopen, plan_rerun, reopen
from plumbline.workflows.claim_mark import mark_claim
from plumbline.workflows.plan import ACTION_DAG, Action


class RunOfDag(Protocol):
    """A run of a DAG with the form that a button fills in."""

    @property
    def dag_id(self) -> str: ...

    @property
    def starts(self) -> str:
        """The DAG that the run starts in turn; empty for none."""

    def to_conf(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class ActionRequest:
    """`until`: the end of a snooze, None for other actions. `starts`: the benchmark's DAG, of a rerun."""

    finding_id: str
    action: Action
    why: str
    until: datetime | None = None
    starts: str = ""

    dag_id = ACTION_DAG

    def to_conf(self) -> dict[str, Any]:
        """The form of the DAG `finding_action`."""
        return {
            "finding": self.finding_id,
            "action": self.action,
            "why": self.why,
            "until": self.until.isoformat() if self.until else None,
        }


@dataclass(frozen=True)
class ActionRun:
    """A run of a DAG that a button started. `by`: who asked for it. `state`: Airflow's. `path`: its page in Airflow."""

    action: str
    by: str
    why: str
    state: str
    path: str


class AlreadyStarted(Exception):
    """The action was asked for before: `run`."""

    def __init__(self, run: ActionRun) -> None:
        super().__init__(run.action)
        self.run = run


class ActionNotStarted(RuntimeError):
    """Airflow cannot start the run now. `path`: where in Airflow that is mended, empty if it is nowhere yet."""

    def __init__(self, text: str, path: str = "") -> None:
        super().__init__(text)
        self.path = path


def request_of(params: Mapping[str, Any], now: datetime) -> ActionRequest:
    """The filled-in form of the DAG; ValueError for a snooze without its end."""
    until = None
    if params["action"] == "snooze":
        if not params["until"]:
            raise ValueError("until is empty; expected the end of the snooze, such as 2026-12-01 or 14d")
        until = snooze_end(params["until"], now)
    return ActionRequest(params["finding"], params["action"], params["why"], until)


def snooze_end(text: str, now: datetime) -> datetime:
    """The end of a snooze from a day, an instant, a time from now (14d), or `now`, which ends it. ValueError for other text and the past."""
    if text == "now":
        return now
    try:
        end = datetime.fromisoformat(text)
    except ValueError:
        try:
            return now + timedelta(seconds=parse(text, SECONDS, "a time from now", "14d"))
        except (ValueError, OverflowError):  # a calendar ends with the year 9999
            raise ValueError(
                f'"{text}" is no time; expected a day such as 2026-12-01, an instant, a time from now such as 14d, or now'
            ) from None
    end = end if end.tzinfo else end.replace(tzinfo=timezone.utc)
    if end <= now:
        raise ValueError(f"{text} is past; expected a time to come, or now to end a snooze")
    return end


def possible_actions(declared: Declarations, view: FindingView) -> tuple[Action, ...]:
    """Actions that the finding's state, kind and provider allow; of a settled one only to reopen it."""
    waiting: dict[str, list[Action]] = {"open": ["acknowledge", "resolve", "snooze"], "acknowledged": ["resolve", "snooze"]}
    actions = waiting.get(view.state, [])
    if (finding := read_finding(view)) is None:
        return tuple(actions)
    if not actions:
        return ("reopen",) if can_reopen(finding) else ()
    of = type_of(finding)
    if of.accepting is not None:
        actions[-2:-2] = ["accept", "reject"] if view.state == "open" and of.reject_label else ["accept"]
    if of.grants_credit:
        actions[-2:-2] = ["claimed", "credited", "refused"] if view.state == "open" else ["credited", "refused"]
    if of.reruns:
        try:
            plan_rerun(declared, finding)
            actions.append("rerun")
        except ValueError:
            pass  # no enabled provider measures it
    return tuple(actions)


def rerun_of(declared: Declarations, view: FindingView) -> Rerun:
    """The run that a rerun of the finding starts; ValueError if no enabled provider can run it."""
    return plan_rerun(declared, Finding.of(view.detail))


def apply_action(archive: Archive, declared: Declarations, request: ActionRequest, by: str, *, from_page: bool) -> Rerun | None:
    """Apply an action and record author and reason in the audit log; the run to start, for a rerun.

    `from_page`: a page took the request, after it had checked that its author may start the benchmark and see the finding. Airflow's form checks the
    right to start `finding_action` alone, so that an action which takes more is refused there: ValueError.

    LookupError for an unknown finding; WrongState for a settled one; ValueError for an empty author or reason. The same action again changes
    nothing.
    """
    finding_id, why = request.finding_id, request.why
    if not from_page:
        view = archive.finding(finding_id)
        further = "to start the benchmark" if request.action == "rerun" else "to see costs" if rests_on_prices(view) else ""
        if further:
            raise ValueError(
                f"{request.action} of finding {finding_id} takes the right {further}, which Airflow's form does not check; expected a button of the "
                f"page /plumbline/findings/{finding_id}"
            )
    if request.action == "acknowledge":
        archive.set_finding_state(finding_id, "acknowledged", by=by, why=why)
    elif request.action == "resolve":
        archive.set_finding_state(finding_id, "resolved", by=by, why=why)
    elif request.action == "snooze":
        if request.until is None:
            raise ValueError("until is empty; expected the end of the snooze")
        archive.snooze_finding(finding_id, request.until, by=by, why=why)
    elif request.action == "reopen":
        reopen(archive, finding_id, by, why)
    elif request.action in get_args(ClaimState):
        mark_claim(archive, declared, finding_id, cast(ClaimState, request.action), by, why)
    else:
        answer: Answer = "keep" if request.action == "reject" else cast(Answer, request.action)
        return apply_answer(archive, declared, finding_id, answer, by, why).rerun
    return None
