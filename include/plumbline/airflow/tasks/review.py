"""Tasks of the drift review, the report, the digest and the baseline decision."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Param, TriggerRule

from plumbline import workflows
from plumbline.airflow.defaults import found_elsewhere
from plumbline.airflow.retries import task
from plumbline.airflow.schedules import RESULTS, extras
from plumbline.airflow.signed_requests import require_starter
from plumbline.airflow.versions import UNPAUSED, AirflowFailException, AirflowSkipException
from plumbline.declarations import load_in_force
from plumbline.findings.types import rests_on_prices
from plumbline.results.finding import Finding
from plumbline.workflows.plan import ACCEPT, DECISION_DAG, KEEP, RERUN

Row = dict[str, Any]


@task
def changed(*, triggering_asset_events: Any = None, params: Any = None) -> list[Row]:
    """List what to review: each campaign and provider of the events, or of the form in a run by hand."""
    events = extras(triggering_asset_events, RESULTS)
    reruns = [{"campaign_id": params["campaign"], "provider": params["provider"]}] if params["campaign"] else []
    wanted = {(e["campaign_id"], e["provider"]): {"campaign_id": e["campaign_id"], "provider": e["provider"]} for e in events or reruns}
    if not wanted:
        raise AirflowSkipException("no results to review: fill in the campaign, or wait for a benchmark")
    return list(wanted.values())


@task(map_index_template="{{ task.op_kwargs['what']['campaign_id'] }} {{ task.op_kwargs['what']['provider'] or 'all providers' }}")
@found_elsewhere
def compare(what: Row) -> list[Row]:
    """Compare every series with its baseline and store the findings."""
    return [workflows.review.review_summary(one) for one in workflows.review.review_campaign(what["campaign_id"], what["provider"])]


@task(trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS)
def alert() -> Row:
    """Send open findings to the log, and to Slack if a connection exists."""
    return dict(workflows.alert.send_alerts())


@task
def report(*, dag_run: Any = None, params: Any = None) -> str:
    """Write the report and its tables. A scheduled run reports the campaign of its month, if there is one."""
    month = f"{dag_run.run_after.astimezone(timezone.utc):%Y-%m}"
    try:
        return workflows.report.write_report(month if _scheduled(dag_run) else params["campaign"], ("csv", "parquet"))
    except LookupError as nothing:
        raise (AirflowSkipException if _scheduled(dag_run) else AirflowFailException)(str(nothing)) from None


@task
def decide(*, dag_run: Any = None, params: Any = None) -> list[str]:
    """Make every team's decisions from the archive; report changed first choices."""
    month = f"{dag_run.run_after.astimezone(timezone.utc):%Y-%m}" if _scheduled(dag_run) else None
    why = "the monthly report" if month else f"the report of {params['campaign'] or 'the newest campaign'}"
    ranked = workflows.decide.decide_now(why, month or params["campaign"])
    if any(one.findings for one in ranked):
        workflows.alert.send_alerts()
    return [one.text for one in ranked]


@task(retries=6, retry_delay=timedelta(minutes=10), retry_exponential_backoff=True, max_retry_delay=timedelta(hours=6))
def digest(*, dag_run: Any = None) -> str:
    """Send the month's open findings, ranked by cost. Only in scheduled runs."""
    if not _scheduled(dag_run):
        raise AirflowSkipException("only the scheduled run sends the digest; `plumbline alerts digest` shows it")
    return workflows.alert.send_digest(workflows.alert.previous_month(dag_run.run_after))


def _scheduled(dag_run: Any) -> bool:
    return str(getattr(dag_run.run_type, "value", dag_run.run_type)) == "scheduled"


_ANSWERS: dict[str, workflows.baseline_decision.Answer] = {ACCEPT: "accept", KEEP: "keep", RERUN: "rerun"}


@task(trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS)
def questions(reviewed: list[list[Row]], *, ti: Any = None) -> list[Row]:
    """The questions to ask: one for each finding and campaign, and none while an earlier one waits."""
    by_finding = {f["finding_id"]: f for rows in reviewed for row in rows for f in row["questions"]}
    waiting = {
        finding: ti.get_dr_count(dag_id=DECISION_DAG, run_ids=[_run_id(finding, c) for c in f["asked_in"]], states=["queued", "running"])
        for finding, f in by_finding.items()
        if f["asked_in"]
    }
    return [
        {"conf": {"finding": finding}, "trigger_run_id": _run_id(finding, f["campaign_id"])}
        for finding, f in sorted(by_finding.items())
        if not waiting.get(finding)
    ]


def _run_id(finding: str, campaign: str) -> str:
    return f"{finding}_{campaign}"


def ask(wanted: Any) -> Any:
    """Start `baseline_decision` for each question, without waiting."""
    return TriggerDagRunOperator.partial(task_id="ask", trigger_dag_id=DECISION_DAG, skip_when_already_exists=True).expand_kwargs(wanted)


@task
def tell(*, params: Any = None) -> Row:
    """Build the question. Skipped if the finding is settled."""
    from plumbline.archive import open_archive

    with open_archive() as archive:
        view = archive.finding(params["finding"])
    if view.state != "open":
        raise AirflowSkipException(f"finding {view.finding_id} is {view.state}; no question")
    if rests_on_prices(view):
        raise AirflowFailException(
            f"finding {view.finding_id} is about costs, which Airflow would show to all who may answer; expected the page "
            f"/plumbline/findings/{view.finding_id}"
        )
    declared = load_in_force()
    answer_by = datetime.now(timezone.utc) + timedelta(seconds=declared.thresholds.drift.answer_within)
    return asdict(workflows.baseline_decision.build_question(Finding.of(view.detail).with_state(view.state), declared, answer_by))


class QuestionOperator(HITLOperator):  # type: ignore[misc]  # airflow's types are not followed
    """The form: one of three answers, and a reason. Every user who may act on the DAG may answer; the login gives the name."""

    def execute(self, context: Any) -> Any:
        """Read the time limit from the declarations at run time."""
        self.response_timeout = timedelta(seconds=load_in_force().thresholds.drift.answer_within)
        return super().execute(context)


def question() -> QuestionOperator:
    """The question of `tell`."""
    return QuestionOperator(
        task_id="question",
        subject="{{ ti.xcom_pull('tell')['subject'] }}",
        body="{{ ti.xcom_pull('tell')['body'] }}",
        options=list(_ANSWERS),
        defaults=KEEP,
        params={
            "why": Param("", type="string", maxLength=500, title="Why", description="Required. The audit log keeps it with the answer.")
        },
        # Without its own, the operator takes the step's time limit.
        response_timeout=timedelta(days=7),
    )


@task
def answer(given: Any, *, params: Any = None) -> Row:
    """Apply the answer; returns the rerun to start, if any."""
    from plumbline.archive import open_archive
    from plumbline.archive.audit import TIMED_OUT

    user = given["responded_by_user"]
    by = (user.get("name") or user["id"]) if user else TIMED_OUT
    chosen = given["chosen_options"][0]
    why = "no answer in time" if user is None else (given["params_input"] or {}).get("why") or f"{chosen} (no reason given)"
    with open_archive() as archive:
        decided = workflows.baseline_decision.apply_answer(archive, load_in_force(), params["finding"], _ANSWERS[chosen], by, why)
    workflows.alert.send_alerts()  # so that Slack shows the answer at once
    return asdict(decided)


@task
def act(*, params: Any = None, dag_run: Any = None) -> Row:
    """Apply an action on a finding in the name of the person whom the run acts for; returns the rerun to start, if any."""
    from plumbline.archive import open_archive

    by = require_starter(dag_run, params["finding"])
    try:
        request = workflows.finding_action.request_of(params, datetime.now(timezone.utc))
        with open_archive() as archive:
            rerun = workflows.finding_action.apply_action(archive, load_in_force(), request, by.name, from_page=by.from_page)
    except (LookupError, ValueError) as refused:
        raise AirflowFailException(str(refused)) from None
    workflows.alert.send_alerts()  # so that Slack shows the action at once
    return {"finding_id": request.finding_id, "answer": request.action, "rerun": asdict(rerun) if rerun else None}


@task
def note(*, params: Any = None, dag_run: Any = None) -> Row:
    """Add an entry to the operations log, or complete one, in the name of the user who started the run."""
    from plumbline.archive import open_archive

    by = require_starter(dag_run, f"operations_log/{params['provider']}")
    try:
        with open_archive() as archive:
            noted = workflows.operations_log.log_operation(archive, load_in_force(), params, by.name)
    except (LookupError, ValueError) as refused:
        raise AirflowFailException(str(refused)) from None
    workflows.alert.send_alerts()
    return {"entry": noted.entry.entry_id, "revision": noted.entry.revision, "notes": list(noted.notes)}


@task
def wanted(decided: Row) -> list[Row]:
    """List the benchmark to start. Skipped unless the answer is a rerun."""
    if not decided["rerun"]:
        raise AirflowSkipException(f"the answer is {decided['answer']}; no rerun")
    rerun = decided["rerun"]
    return [{"trigger_dag_id": rerun["dag_id"], "conf": rerun["conf"], "trigger_run_id": rerun["run_id"]}]


def rerun(asked: Any) -> Any:
    """Start the provider's benchmark once, with its pool and limits. Fails if it is paused, as its run would wait."""
    return TriggerDagRunOperator.partial(task_id="rerun", skip_when_already_exists=True, **UNPAUSED).expand_kwargs(asked)
