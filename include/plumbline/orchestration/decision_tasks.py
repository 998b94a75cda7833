"""The tasks that ask a person about a finding: each hands over to plain code and no more."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Param, TriggerRule, task
from airflow.sdk.exceptions import AirflowSkipException

from plumbline.declarations import load
from plumbline.orchestration import deciding

Row = dict[str, Any]
DECISION = "baseline_decision"
PATIENCE = timedelta(days=7)
"""How long a question waits: a person's week, and well before the next monthly campaign."""
ACCEPT, KEEP, RERUN = "accept as the new baseline", "keep the old one", "rerun on a fresh node"
_ANSWERS: dict[str, deciding.Answer] = {ACCEPT: "accept", KEEP: "keep", RERUN: "rerun"}


@task(trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS)
def questions(reviewed: list[list[Row]]) -> list[Row]:
    """The runs of the decision's DAG that ask about what was found; a question has its id from the finding, so none is asked twice."""
    asked = {(f["finding_id"], f["campaign_id"]) for rows in reviewed for row in rows for f in row["questions"]}
    return [{"conf": {"finding": finding}, "trigger_run_id": f"{finding}_{campaign}"} for finding, campaign in sorted(asked)]


def ask(wanted: Any) -> Any:
    """Start the decision's DAG for each question and wait for none: it is a person's time, not a campaign's."""
    return TriggerDagRunOperator.partial(task_id="ask", trigger_dag_id=DECISION, skip_when_already_exists=True).expand_kwargs(wanted)


@task
def tell(*, params: Any = None) -> Row:
    """What the person is to decide about; skipped if it is settled already."""
    from plumbline.archive import open_archive
    from plumbline.drift import Finding

    with open_archive() as archive:
        view = archive.finding(params["finding"])
    if view.state != "open":
        raise AirflowSkipException(f"finding {view.finding_id} is {view.state}: nothing is left to ask")
    finding = Finding.of(view.detail)
    members = "\n".join(f"- {member.text}" for member in finding.members)
    return {"subject": finding.headline, "body": f"{finding.explanation}\n\n{members}\n\n`plumbline findings show {finding.finding_id}`"}


def question() -> HITLOperator:
    """The form: one of three answers, and why. Whoever may act on the DAG may answer; the name comes from the login."""
    return HITLOperator(
        task_id="question",
        subject="{{ ti.xcom_pull('tell')['subject'] }}",
        body="{{ ti.xcom_pull('tell')['body'] }}",
        options=list(_ANSWERS),
        defaults=KEEP,
        params={"why": Param("", type="string", maxLength=500, title="Why", description="It stays with the answer in the audit log.")},
        response_timeout=PATIENCE,
    )


@task
def answer(given: Any, *, params: Any = None) -> Row:
    """Carry the answer out; what is to be measured again, if that was asked."""
    from plumbline.archive import open_archive

    user = given["responded_by_user"]
    by = (user.get("name") or user["id"]) if user else deciding.NOBODY
    chosen = given["chosen_options"][0]
    why = (given["params_input"] or {}).get("why") or f"{chosen} (no reason given)"
    with open_archive() as archive:
        return asdict(deciding.decide(archive, load(), params["finding"], _ANSWERS[chosen], by, why))


@task
def wanted(decided: Row) -> list[Row]:
    """The benchmark to start; skipped unless a rerun was asked for."""
    if not decided["rerun"]:
        raise AirflowSkipException(f"the answer was {decided['answer']}: nothing to measure")
    return [{"trigger_dag_id": decided["rerun"]["dag_id"], "conf": decided["rerun"]["conf"]}]


def rerun(asked: Any) -> Any:
    """Start the provider's benchmark; its own pool and limits apply."""
    return TriggerDagRunOperator.partial(task_id="rerun").expand_kwargs(asked)
