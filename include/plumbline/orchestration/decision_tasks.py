"""The tasks that ask a person about a finding: each hands over to plain code and no more."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Param, TriggerRule, task
from airflow.sdk.exceptions import AirflowSkipException

from plumbline.declarations import load
from plumbline.orchestration import alerting, asking, deciding
from plumbline.orchestration.asking import ACCEPT, KEEP, RERUN
from plumbline.orchestration.deciding import DECISION

Row = dict[str, Any]
_RETRIES = 5
"""A campaign's command stops Airflow once its report is there, whatever else begins: what was cut off goes on when Airflow starts again, and
its first tries may come before there is an API server."""
_ANSWERS: dict[str, deciding.Answer] = {ACCEPT: "accept", KEEP: "keep", RERUN: "rerun"}


@task(trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS)
def questions(reviewed: list[list[Row]], *, ti: Any = None) -> list[Row]:
    """The runs of the decision's DAG that ask about what was found. One question a finding and campaign, and none while an earlier one waits."""
    found = {f["finding_id"]: f for rows in reviewed for row in rows for f in row["questions"]}
    waiting = {
        finding: ti.get_dr_count(dag_id=DECISION, run_ids=[_run_id(finding, c) for c in f["asked_in"]], states=["queued", "running"])
        for finding, f in found.items()
        if f["asked_in"]
    }
    return [
        {"conf": {"finding": finding}, "trigger_run_id": _run_id(finding, f["campaign_id"])}
        for finding, f in sorted(found.items())
        if not waiting.get(finding)
    ]


def _run_id(finding: str, campaign: str) -> str:
    return f"{finding}_{campaign}"


def ask(wanted: Any) -> Any:
    """Start the decision's DAG for each question and wait for none: it is a person's time, not a campaign's."""
    return TriggerDagRunOperator.partial(task_id="ask", trigger_dag_id=DECISION, skip_when_already_exists=True).expand_kwargs(wanted)


@task(retries=_RETRIES)
def tell(*, params: Any = None) -> Row:
    """What the person is to decide about; skipped if it is settled already."""
    from plumbline.archive import open_archive
    from plumbline.drift import Finding

    with open_archive() as archive:
        view = archive.finding(params["finding"])
    if view.state != "open":
        raise AirflowSkipException(f"finding {view.finding_id} is {view.state}: nothing is left to ask")
    declared = load()
    answer_by = datetime.now(timezone.utc) + timedelta(seconds=declared.thresholds.drift.answer_within)
    return asdict(asking.question(Finding.of(view.detail).with_state(view.state), declared, answer_by))


class QuestionOperator(HITLOperator):  # type: ignore[misc]  # airflow's types are not followed
    """The form: one of three answers, and why. Whoever may act on the DAG may answer; the name comes from the login."""

    def execute(self, context: Any) -> Any:
        """Wait as long as is declared now: a DAG file reads no declarations that only its runs need."""
        self.response_timeout = timedelta(seconds=load().thresholds.drift.answer_within)
        return super().execute(context)


def question() -> QuestionOperator:
    """The question, as `tell` put it."""
    return QuestionOperator(
        task_id="question",
        retries=_RETRIES,
        subject="{{ ti.xcom_pull('tell')['subject'] }}",
        body="{{ ti.xcom_pull('tell')['body'] }}",
        options=list(_ANSWERS),
        defaults=KEEP,
        params={
            "why": Param("", type="string", maxLength=500, title="Why", description="Required; it stays with the answer in the audit log.")
        },
        # Without one of its own, the operator would take the time limit of the step for it.
        response_timeout=timedelta(days=7),
    )


@task(retries=_RETRIES)
def answer(given: Any, *, params: Any = None) -> Row:
    """Carry the answer out; what is to be measured again, if that was asked."""
    from plumbline.archive import open_archive

    user = given["responded_by_user"]
    by = (user.get("name") or user["id"]) if user else deciding.NOBODY
    chosen = given["chosen_options"][0]
    why = "no answer in time" if user is None else (given["params_input"] or {}).get("why") or f"{chosen} (no reason given)"
    with open_archive() as archive:
        decided = deciding.decide(archive, load(), params["finding"], _ANSWERS[chosen], by, why)
    alerting.alert()  # what stands in Slack says so at once, not after the next campaign
    return asdict(decided)


@task
def wanted(decided: Row) -> list[Row]:
    """The benchmark to start; skipped unless a rerun was asked for."""
    if not decided["rerun"]:
        raise AirflowSkipException(f"the answer was {decided['answer']}: nothing to measure")
    return [{"trigger_dag_id": decided["rerun"]["dag_id"], "conf": decided["rerun"]["conf"]}]


def rerun(asked: Any) -> Any:
    """Start the provider's benchmark; its own pool and limits apply. Red if that is paused: its run would wait unseen, for ever."""
    return TriggerDagRunOperator.partial(task_id="rerun", fail_when_dag_is_paused=True).expand_kwargs(asked)
